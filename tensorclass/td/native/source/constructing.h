// Constructors: TensorDict(dict, batch_size), those of records without contracts, `from_dict` and `to_dict`.
#pragma once

#include "leaves.h"

namespace tensorclass {

// A batch size as the constructors take it: None, an int, a list, a tuple or a Size of ints.
inline Ref batch_size_from(PyObject* given) {
    if (given == Py_None) return Ref::borrowed(bound.no_dims);
    const Sizes ints = sizes_of(given);
    return Py_TYPE(given) == bound.size ? Ref::borrowed(given) : as_size(ints);
}

// Set the slots of an object that its class has just made, if there is a store for it. True if that is done.
inline Ref filled(PyObject* made, Ref store, PyObject* size) {
    if (!store) return Ref();
    Py_XSETREF(slot(made, bound.batch_size), Py_NewRef(size));
    for (const Py_ssize_t offset : {bound.device, bound.names, bound.lock}) Py_XSETREF(slot(made, offset), Py_NewRef(Py_None));
    Py_XSETREF(slot(made, bound.store), store.release());
    return yes();
}

// A new collection, if there is a store for it.
inline Ref made_on(PyTypeObject* cls, Ref store, PyObject* size) {
    return store ? make(cls, std::move(store), Ref::borrowed(size)) : Ref();
}

// A copy of a dict of tensors that fit; dicts below become TensorDicts. Null: left to Python.
inline Ref store_of_dict(PyObject* source, PyObject* size) {
    if (PyDict_GET_SIZE(source) == 0) return Ref();  // no value shows that the batch size is valid
    return changed_copy(source, [&](PyObject* key, PyObject* value) {
        if (!PyUnicode_CheckExact(key)) return Ref();
        if (fits(value, size)) return Ref::borrowed(value);
        return PyDict_CheckExact(value) ? made_on(bound.tensordict, store_of_dict(value, size), size) : Ref();
    });
}

// fill_tensordict(made, source, batch_size): what __init__ of TensorDict itself does. True if that is done.
inline Ref fill_tensordict(const Arguments& args) {
    if (Py_TYPE(args[0]) != bound.tensordict || !PyDict_CheckExact(args[1])) return Ref();
    const Ref size = batch_size_from(args[2]);
    return filled(args[0], store_of_dict(args[1], size.get()), size.get());
}

// -- records ----------------------------------------------------------------------------------------------------------

// The fields of a record class, in the order of the store, in one tuple: for each its name; None for a tensor, or the class
// of which it takes just the instances; and None, or the class that holds such an object.
class Fields {
public:
    explicit Fields(Ref plan) : plan_(std::move(plan)) {
        if (!plan_ || !PyTuple_CheckExact(plan_.get()) || PyTuple_GET_SIZE(plan_.get()) % 3 != 0) throw NotNative();
    }
    Py_ssize_t count() const { return PyTuple_GET_SIZE(plan_.get()) / 3; }
    PyObject* name(Py_ssize_t field) const { return PyTuple_GET_ITEM(plan_.get(), 3 * field); }
    PyTypeObject* cls(Py_ssize_t field) const { return class_at(3 * field + 1); }
    PyTypeObject* holder(Py_ssize_t field) const { return class_at(3 * field + 2); }

private:
    Ref plan_;

    PyTypeObject* class_at(Py_ssize_t position) const {
        PyObject* cls = PyTuple_GET_ITEM(plan_.get(), position);
        if (cls != Py_None && !PyType_Check(cls)) throw NotNative();
        return cls == Py_None ? nullptr : reinterpret_cast<PyTypeObject*>(cls);
    }
};

inline Ref record_of_dict(PyTypeObject* cls, PyObject* source, PyObject* size);

// A value as a field of a class takes it: itself, what holds it, or with `convert` what is made of a dict. Null: left to
// Python.
inline Ref field_value(PyTypeObject* cls, PyTypeObject* of, PyObject* value, PyObject* size, bool convert) {
    if (of != nullptr) {
        const bool holds = leaves.object != nullptr && PyType_IsSubtype(of, leaves.object) && Py_TYPE(value) == cls;
        return holds ? holder(of, owned(PyTuple_Pack(1, value)), none(), Ref::borrowed(size), none()) : Ref();
    }
    if (convert && PyDict_CheckExact(value)) return record_of_dict(cls, value, size);
    const bool fits_as_it_is = Py_TYPE(value) == cls && is_plain(value) && !has_names(value) &&
                               PyTuple_GET_SIZE(batch_size_of(value)) == PyTuple_GET_SIZE(size) &&
                               begins_with(sizes_of(batch_size_of(value)), size);
    return fits_as_it_is ? Ref::borrowed(value) : Ref();
}

// The store of a record of what `given(field)` returns. Null: left to Python.
template <class Given>
Ref store_of_values(const Fields& fields, const Given& given, PyObject* size, bool convert) {
    Ref store = owned(PyDict_New());
    bool sized = false;  // without a shape nothing has shown that the batch size is valid
    for (Py_ssize_t field = 0; field < fields.count(); ++field) {
        PyTypeObject *cls = fields.cls(field), *of = fields.holder(field);
        Ref value = given(field);
        if (!value || (cls == nullptr && !fits(value.get(), size))) return Ref();
        if (cls != nullptr) value = field_value(cls, of, value.get(), size, convert);
        if (!value) return Ref();
        sized = sized || of == nullptr;
        put(store.get(), fields.name(field), value.get());
    }
    return sized ? std::move(store) : Ref();
}

// fill_record(made, fields, batch_size, device, names, *values): what a generated __init__ does. True if that is done.
inline Ref fill_record(const Arguments& args) {
    const Fields fields(Ref::borrowed(args[1]));
    const bool fits = is_collection(args[0]) && args[3] == Py_None && args[4] == Py_None;
    if (!fits || args.size() != fields.count() + 5) return Ref();
    const Ref size = batch_size_from(args[2]);
    const auto given = [&](Py_ssize_t field) { return Ref::borrowed(args[5 + field]); };
    return filled(args[0], store_of_values(fields, given, size.get(), false), size.get());
}

// What is made of a dict for a class: of records those whose generated __init__ does nothing else. Null: left to Python.
inline Ref record_of_dict(PyTypeObject* cls, PyObject* source, PyObject* size) {
    static PyObject *init_name = interned("__init__"), *fields_name = interned("__native_fields");
    if (cls == bound.tensordict) return made_on(cls, store_of_dict(source, size), size);
    const Nesting level;
    PyObject* init = _PyType_Lookup(cls, init_name);
    const bool plain = cls->tp_new == PyBaseObject_Type.tp_new && (cls->tp_flags & Py_TPFLAGS_IS_ABSTRACT) == 0;
    if (init == nullptr || !plain || !PyFunction_Check(init)) return Ref();
    Ref plan = lookup(PyFunction_GET_GLOBALS(init), fields_name);
    if (!plan) return Ref();
    const Fields fields(std::move(plan));
    if (PyDict_GET_SIZE(source) != fields.count()) return Ref();
    const auto given = [&](Py_ssize_t field) { return lookup(source, fields.name(field)); };
    return made_on(cls, store_of_values(fields, given, size, true), size);
}

// -- dicts ------------------------------------------------------------------------------------------------------------

// from_dict(cls, source, batch_size)
inline Ref from_dict(const Arguments& args) {
    auto* cls = reinterpret_cast<PyTypeObject*>(args[0]);
    if (!PyType_Check(args[0]) || !PyDict_CheckExact(args[1]) || !PyType_IsSubtype(cls, bound.collection)) return Ref();
    return record_of_dict(cls, args[1], batch_size_from(args[2]).get());
}

// Whether a record has all its fields, in order, so that its dict is a copy of its store.
inline bool has_all_fields(PyObject* record) {
    static PyObject *method = interned("to_dict"), *specs_name = interned("_specs");
    PyTypeObject* cls = Py_TYPE(record);
    PyObject* specs = _PyType_Lookup(cls, specs_name);
    if (_PyType_Lookup(cls, method) != _PyType_Lookup(bound.tensordict, method)) return false;
    if (specs == nullptr || !PyDict_CheckExact(specs)) return false;
    const Entries declared = entries_of(specs), found = entries_of(store_of(record));
    return std::equal(declared.begin(), declared.end(), found.begin(), found.end(), [](const auto& one, const auto& other) {
        PyObject *name = one.first.get(), *key = other.first.get();
        return name == key || (PyUnicode_CheckExact(name) && PyUnicode_CheckExact(key) && PyUnicode_Compare(name, key) == 0);
    });
}

// The dict of a collection of tensors and of such collections. Null: left to Python.
inline Ref dict_of(PyObject* collection) {
    if (!is_plain(collection)) return Ref();
    if (Py_TYPE(collection) != bound.tensordict && !has_all_fields(collection)) return Ref();
    return changed_copy(store_of(collection), [](PyObject*, PyObject* value) {
        return Py_TYPE(value) == bound.tensor ? Ref::borrowed(value) : dict_of(value);
    });
}

// to_dict(collection)
inline Ref to_dict(const Arguments& args) { return bound.tensordict == nullptr ? Ref() : dict_of(args[0]); }

inline PyMethodDef constructor_methods[] = {QUIET_FUNCTION(fill_tensordict, 3), QUIET_FUNCTION(fill_record, MANY),
                                            QUIET_FUNCTION(from_dict, 3), QUIET_OPERATION(to_dict, 1), END_OF_METHODS};

}  // namespace tensorclass
