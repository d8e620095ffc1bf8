// Constructors: TensorDict(dict, batch_size), those of records without contracts, `from_dict` and `to_dict`.
#pragma once

#include "dictionary.h"
#include "leaves.h"

namespace tensorclass {

// A batch size as the constructors take it: None, an int, a list, a tuple or a Size of ints. Null: left to Python.
inline Ref batch_size_from(PyObject* given) {
    if (given == nullptr || given == Py_None) return Ref::borrowed(bound.no_dims);
    if (Py_TYPE(given) == bound.size) {
        for (Py_ssize_t dim = 0; dim < PyTuple_GET_SIZE(given); ++dim) {
            if (!PyLong_CheckExact(PyTuple_GET_ITEM(given, dim))) return Ref();
        }
        return Ref::borrowed(given);
    }
    Sizes sizes;
    try {
        if (PyLong_CheckExact(given)) {
            sizes.push_back(as_int(given));
        } else if (PyTuple_CheckExact(given)) {
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) sizes.push_back(as_int(PyTuple_GET_ITEM(given, i)));
        } else if (PyList_CheckExact(given)) {
            for (Py_ssize_t i = 0; i < PyList_GET_SIZE(given); ++i) sizes.push_back(as_int(PyList_GET_ITEM(given, i)));
        } else {
            return Ref();
        }
        return as_size(sizes);
    } catch (const NotNative&) {
        return Ref();
    } catch (const PythonError&) {
        return Ref();
    }
}

// A new collection without device, names and lock. Null with an error set.
inline Ref made_on(PyTypeObject* cls, PyObject* store, PyObject* batch_size) {
    PyObject* made = cls->tp_alloc(cls, 0);
    if (made == nullptr) return Ref();
    slot(made, bound.store) = Py_NewRef(store);
    slot(made, bound.batch_size) = Py_NewRef(batch_size);
    slot(made, bound.device) = Py_NewRef(Py_None);
    slot(made, bound.names) = Py_NewRef(Py_None);
    slot(made, bound.lock) = Py_NewRef(Py_None);
    return Ref(made);
}

inline Ref tensordict_of(PyObject* source, PyObject* batch_size);

// A copy of a dict of tensors that fit; dicts below become TensorDicts. Null: left to Python, or an error is set.
inline Ref store_of_dict(PyObject* source, PyObject* batch_size) {
    if (PyDict_GET_SIZE(source) == 0) return Ref();  // no value shows that the batch size is valid
    Ref store(PyDict_Copy(source));
    if (!store) return Ref();
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(store.get(), &position, &key, &value)) {
        if (!PyUnicode_CheckExact(key)) return Ref();
        if (fits(value, batch_size)) continue;
        if (!PyDict_CheckExact(value)) return Ref();
        if (Py_EnterRecursiveCall(" while making a nested collection") != 0) return Ref();
        Ref below = tensordict_of(value, batch_size);
        Py_LeaveRecursiveCall();
        if (!below || PyDict_SetItem(store.get(), key, below.get()) != 0) return Ref();
    }
    return store;
}

inline Ref tensordict_of(PyObject* source, PyObject* batch_size) {
    Ref store = store_of_dict(source, batch_size);
    return store ? made_on(bound.tensordict, store.get(), batch_size) : Ref();
}

// A call of a class, as the interpreter makes it.
inline PyObject* construct_in_python(PyObject* cls, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    Ref positional(PyTuple_New(count));
    Ref keywords(names == nullptr ? nullptr : PyDict_New());
    if (!positional || (names != nullptr && !keywords)) return nullptr;
    for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i) {
        if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, i), args[count + i]) != 0) return nullptr;
    }
    return PyType_Type.tp_call(cls, positional.get(), keywords.get());
}

// Whether a class makes its instances as `object` does.
inline bool is_made_plainly(PyTypeObject* cls) {
    return cls->tp_new == PyBaseObject_Type.tp_new && (cls->tp_flags & Py_TPFLAGS_IS_ABSTRACT) == 0;
}

inline PyObject* init_name() {
    static PyObject* name = interned("__init__");
    return name;
}
inline PyObject* batch_size_name() {
    static PyObject* name = interned("batch_size");
    return name;
}

struct Constructors {
    PyObject* tensordict = nullptr;  // TensorDict.__init__
    PyObject* plan = nullptr;        // where an __init__ of a record keeps its plan
};
extern Constructors constructors;

// TensorDict(source, batch_size)
inline PyObject* new_tensordict(PyObject* cls, PyObject* const* args, size_t flags, PyObject* names) {
    const Call call{cls, args, flags, names};
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    if (answering && call.count() >= 1 && PyDict_CheckExact(args[0]) && is_made_plainly(type) &&
        _PyType_Lookup(type, init_name()) == constructors.tensordict) {
        PyObject* size = nullptr;
        bool known = true;
        if (names != nullptr) {
            size = call.count() == 1 ? call.only_keyword(batch_size_name()) : nullptr;
            known = size != nullptr;
        } else if (call.count() == 2) {
            size = args[1];
        } else {
            known = call.count() == 1;
        }
        if (known) {
            Ref batch_size = batch_size_from(size);
            Ref made = batch_size ? tensordict_of(args[0], batch_size.get()) : Ref();
            if (made || PyErr_Occurred() != nullptr) return made.release();
        }
    }
    return construct_in_python(cls, args, call.count(), names);
}

// -- records ----------------------------------------------------------------------------------------------------------

// What a field takes as it is: a tensor; an instance of just this class; or an object, which a holder keeps.
struct Field {
    PyObject* name;
    PyTypeObject* cls;     // null: a tensor
    PyTypeObject* holder;  // null: a tensor or a collection
};

struct RecordPlan {
    std::vector<Field> fields;       // in the order of the store
    std::vector<size_t> positional;  // the fields by position
};

// The attribute of a generated __init__ that keeps the plan, with the names and classes in it.
struct KeptPlan {
    PyObject_HEAD
    RecordPlan* plan;
    PyObject* fields;
};

inline PyTypeObject* plan_class() {
    static PyTypeObject cls = {PyVarObject_HEAD_INIT(nullptr, 0)};
    if (cls.tp_name != nullptr) return &cls;
    // copies of the function that are pickled by value have no plan
    static PyMethodDef methods[] = {
        {"__reduce__", [](PyObject*, PyObject*) { return Py_BuildValue("O()", Py_TYPE(Py_None)); }, METH_NOARGS, nullptr},
        {nullptr, nullptr, 0, nullptr}};
    cls.tp_name = "tensorclass.RecordPlan";
    cls.tp_basicsize = sizeof(KeptPlan);
    cls.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    cls.tp_methods = methods;
    cls.tp_traverse = [](PyObject* self, visitproc visit, void* arg) -> int {
        Py_VISIT(reinterpret_cast<KeptPlan*>(self)->fields);
        return 0;
    };
    cls.tp_clear = [](PyObject* self) -> int {
        auto* kept = reinterpret_cast<KeptPlan*>(self);
        delete kept->plan;  // it refers to what goes now
        kept->plan = nullptr;
        Py_CLEAR(kept->fields);
        return 0;
    };
    cls.tp_dealloc = [](PyObject* self) {
        PyObject_GC_UnTrack(self);
        Py_TYPE(self)->tp_clear(self);
        PyObject_GC_Del(self);
    };
    return PyType_Ready(&cls) == 0 ? &cls : nullptr;
}

inline RecordPlan* plan_of(PyTypeObject* cls) {
    PyObject* init = _PyType_Lookup(cls, init_name());
    if (init == nullptr || !PyObject_TypeCheck(init, &PyFunction_Type) || !is_made_plainly(cls)) return nullptr;
    PyObject* attributes = reinterpret_cast<PyFunctionObject*>(init)->func_dict;
    if (attributes == nullptr) return nullptr;
    PyObject* plan = PyDict_GetItemWithError(attributes, constructors.plan);
    return plan != nullptr && Py_TYPE(plan) == plan_class() ? reinterpret_cast<KeptPlan*>(plan)->plan : nullptr;
}

// The holder of an object, as `_of_rows` makes it.
inline Ref held(PyTypeObject* holder, PyObject* value, PyObject* batch_size) {
    Ref store(PyDict_New());
    Ref objects(store ? PyTuple_Pack(1, value) : nullptr);
    Ref made = objects ? made_on(holder, store.get(), batch_size) : Ref();
    if (!made) return Ref();
    slot(made.get(), leaves.objects) = objects.release();
    slot(made.get(), leaves.metadata) = Py_NewRef(Py_None);
    return made;
}

inline Ref record_of_dict(PyTypeObject* cls, PyObject* source, PyObject* batch_size);

// A record of values, one for each field, in order. Null: left to Python, or an error is set.
inline Ref record_of(PyTypeObject* cls, const RecordPlan& plan, PyObject* const* values, PyObject* batch_size,
                     bool convert) {
    Ref store(PyDict_New());
    if (!store) return Ref();
    bool sized = false;
    for (size_t i = 0; i < plan.fields.size(); ++i) {
        const Field& field = plan.fields[i];
        PyObject* value = values[i];
        Ref made;
        if (value == nullptr) return Ref();
        if (field.cls == nullptr) {
            if (!fits(value, batch_size)) return Ref();
            sized = true;
        } else if (field.holder == nullptr) {
            if (convert && PyDict_CheckExact(value)) {
                if (Py_EnterRecursiveCall(" while making a nested record") != 0) return Ref();
                made = field.cls == bound.tensordict ? tensordict_of(value, batch_size)
                                                     : record_of_dict(field.cls, value, batch_size);
                Py_LeaveRecursiveCall();
                if (!made) return Ref();
                value = made.get();
            }
            if (Py_TYPE(value) != field.cls || !is_tree(value) || has_names(value) ||
                !is_same_size(batch_size_of(value), batch_size)) {
                return Ref();
            }
            sized = true;
        } else {
            if (Py_TYPE(value) != field.cls) return Ref();
            made = held(field.holder, value, batch_size);
            if (!made) return Ref();
            value = made.get();
        }
        if (PyDict_SetItem(store.get(), field.name, value) != 0) return Ref();
    }
    return sized ? made_on(cls, store.get(), batch_size) : Ref();
}

inline Ref record_of_dict(PyTypeObject* cls, PyObject* source, PyObject* batch_size) {
    const RecordPlan* plan = plan_of(cls);
    if (plan == nullptr || PyDict_GET_SIZE(source) != static_cast<Py_ssize_t>(plan->fields.size())) return Ref();
    c10::SmallVector<PyObject*, 16> values;
    for (const Field& field : plan->fields) values.push_back(PyDict_GetItemWithError(source, field.name));
    return record_of(cls, *plan, values.data(), batch_size, true);
}

// The values of fields among the arguments of a constructor, and the batch size. False: left to Python.
inline bool arguments_of(const RecordPlan& plan, const Call& call, c10::SmallVector<PyObject*, 16>& values,
                         PyObject*& batch_size) {
    static PyObject *device = interned("device"), *dims = interned("names");
    values.resize(plan.fields.size(), nullptr);
    if (call.count() > static_cast<Py_ssize_t>(plan.positional.size())) return false;
    for (Py_ssize_t i = 0; i < call.count(); ++i) values[plan.positional[i]] = call.args[i];
    const Py_ssize_t keywords = call.names == nullptr ? 0 : PyTuple_GET_SIZE(call.names);
    size_t next = 0;
    for (Py_ssize_t i = 0; i < keywords; ++i) {
        PyObject *name = PyTuple_GET_ITEM(call.names, i), *value = call.args[call.count() + i];
        size_t tried = 0;  // keywords mostly stand in the order of the fields
        while (tried < plan.fields.size() && plan.fields[next].name != name) {
            next = next + 1 == plan.fields.size() ? 0 : next + 1;
            ++tried;
        }
        if (tried < plan.fields.size()) {
            if (values[next] != nullptr) return false;
            values[next] = value;
        } else if (name == batch_size_name()) {
            batch_size = value;
        } else if ((name != device && name != dims) || value != Py_None) {
            return false;
        }
    }
    return true;
}

// Record(*values, batch_size=..., **values)
inline PyObject* new_record(PyObject* cls, PyObject* const* args, size_t flags, PyObject* names) {
    const Call call{cls, args, flags, names};
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    const RecordPlan* plan = answering ? plan_of(type) : nullptr;
    if (plan != nullptr) {
        c10::SmallVector<PyObject*, 16> values;
        PyObject* size = nullptr;
        if (arguments_of(*plan, call, values, size)) {
            Ref batch_size = batch_size_from(size);
            Ref made = batch_size ? record_of(type, *plan, values.data(), batch_size.get(), false) : Ref();
            if (made || PyErr_Occurred() != nullptr) return made.release();
        }
    }
    return construct_in_python(cls, args, call.count(), names);
}

// answer_record(cls, init, fields, positional): make records of a class without a call of its generated __init__.
// `fields` are (name, class or None, holder or None), `positional` the positions of those that have one as arguments.
inline PyObject* py_answer_record(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 4 || !PyType_Check(args[0]) || !PyTuple_Check(args[2]) || !PyTuple_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, "answer_record: expected a class, its __init__ and two tuples");
        return nullptr;
    }
    auto plan = std::make_unique<RecordPlan>();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[2]); ++i) {
        PyObject *name, *cls, *holder;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(args[2], i), "UOO", &name, &cls, &holder)) return nullptr;
        Py_INCREF(name);
        PyUnicode_InternInPlace(&name);  // as the names of arguments are; it stays with the program
        plan->fields.push_back({name, cls == Py_None ? nullptr : reinterpret_cast<PyTypeObject*>(cls),
                                holder == Py_None ? nullptr : reinterpret_cast<PyTypeObject*>(holder)});
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[3]); ++i) {
        plan->positional.push_back(PyLong_AsSize_t(PyTuple_GET_ITEM(args[3], i)));
    }
    if (PyErr_Occurred() != nullptr) return nullptr;
    PyTypeObject* holder = plan_class();
    auto* kept = holder == nullptr ? nullptr : PyObject_GC_New(KeptPlan, holder);
    if (kept == nullptr) return nullptr;
    kept->plan = plan.release();
    kept->fields = Py_NewRef(args[2]);
    Ref owned(reinterpret_cast<PyObject*>(kept));
    PyObject_GC_Track(owned.get());
    if (PyObject_SetAttr(args[1], constructors.plan, owned.get()) != 0) return nullptr;
    auto* cls = reinterpret_cast<PyTypeObject*>(args[0]);
    cls->tp_vectorcall = new_record;
#if PY_VERSION_HEX < 0x030C0000
    // before 3.12 metaclasses that are made in Python do not take over how classes are called
    for (PyTypeObject* meta = Py_TYPE(args[0]); meta != &PyType_Type; meta = meta->tp_base) {
        if (meta->tp_call != PyType_Type.tp_call) break;
        meta->tp_vectorcall_offset = PyType_Type.tp_vectorcall_offset;
        meta->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    }
#endif
    Py_RETURN_NONE;
}

// -- dicts ------------------------------------------------------------------------------------------------------------

// from_dict(cls, input_dict, batch_size=None)
inline PyObject* from_dict(const Call& call) {
    if (call.count() != 2 || !PyType_Check(call.args[0]) || !PyDict_CheckExact(call.args[1])) return nullptr;
    PyObject* given = nullptr;
    if (call.names != nullptr && (given = call.only_keyword(batch_size_name())) == nullptr) return nullptr;
    auto* cls = reinterpret_cast<PyTypeObject*>(call.args[0]);
    Ref size = batch_size_from(given);
    if (!size) return nullptr;
    if (cls == bound.tensordict) return tensordict_of(call.args[1], size.get()).release();
    return record_of_dict(cls, call.args[1], size.get()).release();
}

// The dict of a collection of tensors and of such collections. Null: left to Python, or an error is set.
inline Ref dict_of(PyObject* collection) {
    static PyObject *method = interned("to_dict"), *specs_name = interned("_specs");
    PyTypeObject* cls = Py_TYPE(collection);
    PyObject* store = store_of(collection);
    if (cls != bound.tensordict) {
        if (_PyType_Lookup(cls, method) != _PyType_Lookup(bound.tensordict, method)) return Ref();
        PyObject* specs = _PyType_Lookup(cls, specs_name);
        if (specs == nullptr || !PyDict_CheckExact(specs) || PyDict_GET_SIZE(specs) != PyDict_GET_SIZE(store)) return Ref();
        Py_ssize_t first = 0, second = 0;
        PyObject *declared, *key;
        while (PyDict_Next(specs, &first, &declared, nullptr) && PyDict_Next(store, &second, &key, nullptr)) {
            if (declared != key && PyUnicode_Compare(declared, key) != 0) return Ref();
        }
    }
    Ref result(PyDict_Copy(store));
    if (!result) return Ref();
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(result.get(), &position, &key, &value)) {
        if (Py_TYPE(value) == bound.tensor) continue;
        if (!is_tree(value) || Py_EnterRecursiveCall(" while converting a nested collection") != 0) return Ref();
        Ref below = dict_of(value);
        Py_LeaveRecursiveCall();
        if (!below || PyDict_SetItem(result.get(), key, below.get()) != 0) return Ref();
    }
    return result;
}

// to_dict(self)
inline PyObject* to_dict(const Call& call) {
    return call.by_position(1, 1) && is_tree(call.args[0]) ? dict_of(call.args[0]).release() : nullptr;
}

inline PyMethodDef constructor_methods[] = {METHOD_ANY(answer_record), {nullptr, nullptr, 0, nullptr}};

inline const Method constructor_answers[] = {
    {"TensorCollection", "to_dict", answered<to_dict>},
    {"TensorCollection", "from_dict", answered<from_dict>},
    {nullptr, nullptr, nullptr},
};

}  // namespace tensorclass
