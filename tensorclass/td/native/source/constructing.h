// Constructors: TensorDict(dict, batch_size), those of records without contracts, `from_dict` and `to_dict`.
#pragma once

#include "dictionary.h"
#include "leaves.h"

namespace tensorclass {

// A batch size as the constructors take it: None, an int, a list, a tuple or a Size of ints. Null: left to Python.
inline Ref batch_size_from(PyObject* given) {
    if (given == Py_None) return Ref::borrowed(bound.no_dims);
    Sizes sizes;
    const auto add = [&](PyObject* number) {
        int overflow = 0;
        if (PyLong_CheckExact(number)) sizes.push_back(PyLong_AsLongLongAndOverflow(number, &overflow));
        return PyLong_CheckExact(number) && overflow == 0;
    };
    if (PyLong_CheckExact(given)) {
        if (!add(given)) return Ref();
    } else if (PyTuple_CheckExact(given) || Py_TYPE(given) == bound.size) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
            if (!add(PyTuple_GET_ITEM(given, i))) return Ref();
        }
        if (Py_TYPE(given) == bound.size) return Ref::borrowed(given);
    } else if (PyList_CheckExact(given)) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(given); ++i) {
            if (!add(PyList_GET_ITEM(given, i))) return Ref();
        }
    } else {
        return Ref();
    }
    return as_size(sizes);
}

// A new collection without device, names and lock.
inline Ref made_on(PyTypeObject* cls, PyObject* store, PyObject* batch_size) {
    return make_of(cls, store, batch_size, Py_None, Py_None);
}

// Set the slots of an object that its class has just made.
inline void fill(PyObject* made, PyObject* store, PyObject* batch_size) {
    replace(slot(made, bound.batch_size), batch_size);
    replace(slot(made, bound.device), Py_None);
    replace(slot(made, bound.names), Py_None);
    replace(slot(made, bound.lock), Py_None);
    replace(slot(made, bound.store), store);
}

inline Ref tensordict_of(PyObject* source, PyObject* batch_size);

// A copy of a dict of tensors that fit; dicts below become TensorDicts. Null: left to Python.
inline Ref store_of_dict(PyObject* source, PyObject* batch_size) {
    const Nesting level;
    Ref store(PyDict_Copy(source));
    if (!store) throw PythonError();
    if (PyDict_GET_SIZE(store.get()) == 0) return Ref();  // no value shows that the batch size is valid
    for (const auto& [key, value] : Entries(store.get())) {
        if (!PyUnicode_CheckExact(key)) return Ref();
        if (fits(value, batch_size)) continue;
        const Ref below = PyDict_CheckExact(value) ? tensordict_of(value, batch_size) : Ref();
        if (!below) return Ref();
        put(store.get(), key, below.get());
    }
    return store;
}

inline Ref tensordict_of(PyObject* source, PyObject* batch_size) {
    const Ref store = store_of_dict(source, batch_size);
    return store ? made_on(bound.tensordict, store.get(), batch_size) : Ref();
}

// fill_tensordict(made, source, batch_size): what __init__ of TensorDict itself does. True if that is done.
inline PyObject* py_fill_tensordict(PyObject* const* args) {
    return attempt_quietly([&] {
        if (Py_TYPE(args[0]) != bound.tensordict || !PyDict_CheckExact(args[1])) return Ref();
        const Ref size = batch_size_from(args[2]), store = size ? store_of_dict(args[1], size.get()) : Ref();
        if (!store) return Ref();
        fill(args[0], store.get(), size.get());
        return Ref::borrowed(Py_True);
    });
}

// -- records ----------------------------------------------------------------------------------------------------------

// The fields of a record class, in the order of the store, in one tuple: for each its name; None for a tensor, or the class
// of which it takes just the instances; and None, or the class that holds such an object.
struct Fields {
    PyObject* plan;

    static bool are(PyObject* plan) { return PyTuple_CheckExact(plan) && PyTuple_GET_SIZE(plan) % 3 == 0; }
    Py_ssize_t count() const { return PyTuple_GET_SIZE(plan) / 3; }
    PyObject* name(Py_ssize_t field) const { return PyTuple_GET_ITEM(plan, 3 * field); }
    PyTypeObject* cls(Py_ssize_t field) const { return class_at(3 * field + 1); }
    PyTypeObject* holder(Py_ssize_t field) const { return class_at(3 * field + 2); }

private:
    PyTypeObject* class_at(Py_ssize_t position) const {
        PyObject* cls = PyTuple_GET_ITEM(plan, position);
        if (cls == Py_None) return nullptr;
        if (!PyType_Check(cls)) throw NotNative();
        return reinterpret_cast<PyTypeObject*>(cls);
    }
};

// The holder of an object, as `_of_rows` makes it.
inline Ref held(PyTypeObject* holder, PyObject* value, PyObject* batch_size) {
    if (leaves.object == nullptr || !PyType_IsSubtype(holder, leaves.object)) return Ref();
    const Ref store(PyDict_New());
    Ref objects(PyTuple_Pack(1, value));
    if (!store || !objects) throw PythonError();
    Ref made = made_on(holder, store.get(), batch_size);
    slot(made.get(), leaves.objects) = objects.release();
    slot(made.get(), leaves.metadata) = Py_NewRef(Py_None);
    return made;
}

inline Ref record_of_dict(PyTypeObject* cls, PyObject* source, PyObject* batch_size);

// A nested collection as a field of a class takes it: itself, or with `convert` what is made of a dict. Null: left to Python.
inline Ref nested_field(PyTypeObject* cls, PyObject* value, PyObject* batch_size, bool convert) {
    if (convert && PyDict_CheckExact(value)) {
        return cls == bound.tensordict ? tensordict_of(value, batch_size) : record_of_dict(cls, value, batch_size);
    }
    const bool fits_as_it_is = Py_TYPE(value) == cls && is_plain(value) && !has_names(value) &&
                               is_same_size(batch_size_of(value), batch_size);
    return fits_as_it_is ? Ref::borrowed(value) : Ref();
}

// The store of a record of values, one for each field, in order. Null: left to Python.
inline Ref store_of_values(const Fields& fields, PyObject* const* values, PyObject* batch_size, bool convert) {
    Ref store(PyDict_New());
    if (!store) throw PythonError();
    bool sized = false;  // without a shape nothing has shown that the batch size is valid
    for (Py_ssize_t field = 0; field < fields.count(); ++field) {
        PyTypeObject *cls = fields.cls(field), *holder = fields.holder(field);
        Ref value = Ref::borrowed(values[field]);
        if (cls == nullptr) {
            if (!fits(value.get(), batch_size)) return Ref();
        } else if (holder == nullptr) {
            value = nested_field(cls, value.get(), batch_size, convert);
        } else {
            value = Py_TYPE(value.get()) == cls ? held(holder, value.get(), batch_size) : Ref();
        }
        if (!value) return Ref();
        sized = sized || holder == nullptr;
        put(store.get(), fields.name(field), value.get());
    }
    return sized ? std::move(store) : Ref();
}

// fill_record(made, fields, batch_size, device, names, *values): what a generated __init__ does. True if that is done.
inline PyObject* py_fill_record(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count < 5 || !is_collection(args[0]) || !Fields::are(args[1]) || Fields{args[1]}.count() != count - 5) {
        PyErr_SetString(PyExc_TypeError, "fill_record: expected a record, its fields, metadata and a value for each field");
        return nullptr;
    }
    if (args[3] != Py_None || args[4] != Py_None) Py_RETURN_NONE;
    return attempt_quietly([&] {
        const Ref size = batch_size_from(args[2]);
        const Ref store = size ? store_of_values(Fields{args[1]}, args + 5, size.get(), false) : Ref();
        if (!store) return Ref();
        fill(args[0], store.get(), size.get());
        return Ref::borrowed(Py_True);
    });
}

// The fields of a class whose instances are made by a generated __init__ that does nothing else; null: of another class.
inline Ref fields_of(PyTypeObject* cls) {
    static PyObject *init_name = interned("__init__"), *fields_name = interned("__native_fields");
    PyObject* init = _PyType_Lookup(cls, init_name);
    const bool plain = cls->tp_new == PyBaseObject_Type.tp_new && (cls->tp_flags & Py_TPFLAGS_IS_ABSTRACT) == 0;
    if (init == nullptr || !plain || !PyFunction_Check(init)) return Ref();
    Ref fields = lookup(PyFunction_GET_GLOBALS(init), fields_name);
    return fields && Fields::are(fields.get()) ? std::move(fields) : Ref();
}

inline Ref record_of_dict(PyTypeObject* cls, PyObject* source, PyObject* batch_size) {
    const Nesting level;
    const Ref fields = fields_of(cls);
    if (!fields || PyDict_GET_SIZE(source) != Fields{fields.get()}.count()) return Ref();
    std::vector<Ref> values;
    c10::SmallVector<PyObject*, 16> borrowed;
    for (Py_ssize_t field = 0; field < Fields{fields.get()}.count(); ++field) {
        values.push_back(lookup(source, Fields{fields.get()}.name(field)));
        if (!values.back()) return Ref();
        borrowed.push_back(values.back().get());
    }
    const Ref store = store_of_values(Fields{fields.get()}, borrowed.data(), batch_size, true);
    return store ? made_on(cls, store.get(), batch_size) : Ref();
}

// -- dicts ------------------------------------------------------------------------------------------------------------

// from_dict(cls, source, batch_size)
inline PyObject* py_from_dict(PyObject* const* args) {
    return attempt_quietly([&] {
        if (!PyType_Check(args[0]) || !PyDict_CheckExact(args[1])) return Ref();
        auto* cls = reinterpret_cast<PyTypeObject*>(args[0]);
        const Ref size = batch_size_from(args[2]);
        if (!size || !PyType_IsSubtype(cls, bound.collection)) return Ref();
        return cls == bound.tensordict ? tensordict_of(args[1], size.get()) : record_of_dict(cls, args[1], size.get());
    });
}

// Whether a record has all its fields, in order, so that its dict is a copy of its store.
inline bool has_all_fields(PyObject* record) {
    static PyObject *method = interned("to_dict"), *specs_name = interned("_specs");
    PyTypeObject* cls = Py_TYPE(record);
    if (_PyType_Lookup(cls, method) != _PyType_Lookup(bound.tensordict, method)) return false;
    PyObject* specs = _PyType_Lookup(cls, specs_name);
    if (specs == nullptr || !PyDict_CheckExact(specs)) return false;
    const Entries declared(specs), found(store_of(record));
    return declared.size() == found.size() &&
           std::equal(declared.begin(), declared.end(), found.begin(), [](const auto& one, const auto& other) {
               return one.key == other.key || (PyUnicode_CheckExact(one.key) && PyUnicode_CheckExact(other.key) &&
                                               PyUnicode_Compare(one.key, other.key) == 0);
           });
}

// The dict of a collection of tensors and of such collections. Null: left to Python.
inline Ref dict_of(PyObject* collection) {
    const Nesting level;
    if (bound.tensordict == nullptr) return Ref();
    if (Py_TYPE(collection) != bound.tensordict && !has_all_fields(collection)) return Ref();
    Ref result(PyDict_Copy(store_of(collection)));
    if (!result) throw PythonError();
    for (const auto& [key, value] : Entries(result.get())) {
        if (Py_TYPE(value) == bound.tensor) continue;
        const Ref below = is_plain(value) ? dict_of(value) : Ref();
        if (!below) return Ref();
        put(result.get(), key, below.get());
    }
    return result;
}

// to_dict(collection)
inline PyObject* py_to_dict(PyObject* const* args) {
    return attempt_quietly([&] { return is_plain(args[0]) ? dict_of(args[0]) : Ref(); });
}

inline PyMethodDef constructor_methods[] = {
    OPERATION(fill_tensordict, 3),
    {"fill_record", as_function(py_fill_record), METH_FASTCALL, nullptr},
    OPERATION(from_dict, 3),
    OPERATION(to_dict, 1),
    END_OF_METHODS,
};

}  // namespace tensorclass
