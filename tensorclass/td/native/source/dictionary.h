// The dict interface: reading and writing by key, collections with other keys over the same values.
#pragma once

#include "collections.h"

namespace tensorclass {

// Whether a tensor can be stored in a collection of this batch size and without a device as it is.
inline bool fits(PyObject* value, PyObject* batch_size) {
    if (!is_tensor(value)) return false;
    const c10::IntArrayRef sizes = THPVariable_Unpack(value).sizes();
    const Py_ssize_t ndim = PyTuple_GET_SIZE(batch_size);
    if (static_cast<Py_ssize_t>(sizes.size()) < ndim) return false;
    for (Py_ssize_t dim = 0; dim < ndim; ++dim) {
        PyObject* size = PyTuple_GET_ITEM(batch_size, dim);
        int overflow = 0;
        if (!PyLong_CheckExact(size) || PyLong_AsLongLongAndOverflow(size, &overflow) != sizes[dim] || overflow != 0) {
            return false;
        }
    }
    return true;
}

// -- reading and writing ----------------------------------------------------------------------------------------------

// Set a key of a collection to a tensor, if it can be stored there as it is. Null: left to Python.
inline Ref put_tensor(PyObject* collection, PyObject* key, PyObject* value) {
    const bool is_open = slot(collection, bound.lock) == Py_None && slot(collection, bound.device) == Py_None;
    if (!is_open || !PyUnicode_CheckExact(key) || !fits(value, batch_size_of(collection))) return Ref();
    put(store_of(collection), key, value);
    return Ref::borrowed(collection);
}

// set_tensor(collection, key, value): set a key of a TensorDict, nested or not, to a tensor that fits. The collection.
inline PyObject* py_set_tensor(PyObject* const* args) {
    return attempt_quietly([&] {
        PyObject *key = args[1], *value = args[2];
        if (!is_tensordict(args[0])) return Ref();
        if (!PyTuple_CheckExact(key)) return put_tensor(args[0], key, value);
        Ref node = Ref::borrowed(args[0]);
        const Py_ssize_t last = PyTuple_GET_SIZE(key) - 1;
        for (Py_ssize_t depth = 0; depth < last; ++depth) {
            PyObject* name = PyTuple_GET_ITEM(key, depth);
            if (!PyUnicode_CheckExact(name)) return Ref();
            node = lookup(store_of(node.get()), name);
            if (!node || !is_tensordict(node.get())) return Ref();
        }
        if (last < 0 || !put_tensor(node.get(), PyTuple_GET_ITEM(key, last), value)) return Ref();
        return Ref::borrowed(args[0]);
    });
}

// set_field(record, name, value): the same for a field that takes every tensor of the batch size.
inline PyObject* py_set_field(PyObject* const* args) {
    return attempt_quietly([&] { return is_plain(args[0]) ? put_tensor(args[0], args[1], args[2]) : Ref(); });
}

// -- the same values in other collections -----------------------------------------------------------------------------

// New collections at every level with the same values. Null: left to Python.
inline Ref shallow(PyObject* collection) {
    static PyObject* method = interned("_shallow");
    const Nesting level;
    const Level own(collection);
    Ref store(PyDict_Copy(store_of(collection)));
    if (!store) throw PythonError();
    for (const auto& [key, value] : Entries(store.get())) {
        if (Py_TYPE(value) == bound.tensor || !is_collection(value)) continue;
        const Ref copied = is_plain(value) ? shallow(value) : Ref(PyObject_CallMethodNoArgs(value, method));
        if (PyErr_Occurred() != nullptr) throw PythonError();
        if (!copied) return Ref();
        put(store.get(), key, copied.get());
    }
    return own.on(store.get());
}

// shallow(collection)
inline PyObject* py_shallow(PyObject* const* args) {
    return attempt_quietly([&] { return is_plain(args[0]) ? shallow(args[0]) : Ref(); });
}

// empty(collection)
inline PyObject* py_empty(PyObject* const* args) {
    return attempt_quietly([&] {
        if (!is_plain(args[0])) return Ref();
        const Level own(args[0]);
        const Ref store(PyDict_New());
        if (!store) throw PythonError();
        return own.on(store.get());
    });
}

inline PyMethodDef dictionary_methods[] = {
    OPERATION(set_tensor, 3), OPERATION(set_field, 3), OPERATION(shallow, 1), OPERATION(empty, 1), END_OF_METHODS,
};

}  // namespace tensorclass
