// The dict interface: reading and writing by key, collections with other keys over the same values.
#pragma once

#include "collections.h"

namespace tensorclass {

// Set a key of a collection to a tensor, if it can be stored there as it is. Null: left to Python.
inline Ref put_tensor(PyObject* collection, PyObject* key, PyObject* value) {
    const bool is_open = !is_locked(collection) && slot(collection, bound.device) == Py_None;
    if (!is_open || !PyUnicode_CheckExact(key) || !fits(value, batch_size_of(collection))) return Ref();
    put(store_of(collection), key, value);
    return Ref::borrowed(collection);
}

// set_tensor(collection, key, value): set a key of a TensorDict, nested or not, to a tensor that fits. The collection.
inline Ref set_tensor(const Arguments& args) {
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
    const bool done = last >= 0 && put_tensor(node.get(), PyTuple_GET_ITEM(key, last), value);
    return done ? Ref::borrowed(args[0]) : Ref();
}

// set_field(record, name, value): the same for a field that takes every tensor of the batch size.
inline Ref set_field(const Arguments& args) { return put_tensor(args[0], args[1], args[2]); }

// shallow(collection): new collections at every level with the same values.
inline Ref shallow_copy(PyObject* collection) {
    const Level own(collection);
    Ref store = changed_copy(store_of(collection), [](PyObject*, PyObject* value) {
        static PyObject* method = interned("_shallow");
        if (Py_TYPE(value) == bound.tensor || !is_collection(value)) return Ref::borrowed(value);
        return is_plain(value) ? shallow_copy(value) : owned(PyObject_CallMethodNoArgs(value, method));
    });
    return own.same(std::move(store));
}
inline Ref shallow(const Arguments& args) { return shallow_copy(args[0]); }

// empty(collection)
inline Ref empty(const Arguments& args) { return Level(args[0]).same(owned(PyDict_New())); }

inline PyMethodDef dictionary_methods[] = {QUIET_FUNCTION(set_tensor, 3), QUIET_OPERATION(set_field, 3),
                                           QUIET_OPERATION(shallow, 1), QUIET_OPERATION(empty, 1), END_OF_METHODS};

}  // namespace tensorclass
