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

// find(collection, key): the value under a tuple of strings in nested collections; None if there is none.
inline PyObject* py_find(PyObject* const* args) {
    return attempt_quietly([&] {
        PyObject* key = args[1];
        Ref node = Ref::borrowed(args[0]);
        if (!PyTuple_CheckExact(key) || PyTuple_GET_SIZE(key) == 0) return Ref();
        for (Py_ssize_t depth = 0; depth < PyTuple_GET_SIZE(key); ++depth) {
            PyObject* name = PyTuple_GET_ITEM(key, depth);
            if (!PyUnicode_CheckExact(name) || !node || !is_plain(node.get())) return Ref();
            node = lookup(store_of(node.get()), name);
        }
        return node;
    });
}

// Set a key of a collection to a tensor, if it can be stored there as it is. Null: left to Python.
inline Ref put_tensor(PyObject* collection, PyObject* key, PyObject* value) {
    const bool is_open = slot(collection, bound.lock) == Py_None && slot(collection, bound.device) == Py_None;
    if (!is_open || !PyUnicode_CheckExact(key) || !fits(value, batch_size_of(collection))) return Ref();
    put(store_of(collection), key, value);
    return Ref::borrowed(Py_True);
}

// set_tensor(collection, key, value): set a key of a TensorDict, nested or not, to a tensor that fits. True if that is done.
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
        return last < 0 ? Ref() : put_tensor(node.get(), PyTuple_GET_ITEM(key, last), value);
    });
}

// set_field(record, name, value): the same for a field that takes every tensor of the batch size.
inline PyObject* py_set_field(PyObject* const* args) {
    return attempt_quietly([&] { return is_plain(args[0]) ? put_tensor(args[0], args[1], args[2]) : Ref(); });
}

// -- walking ----------------------------------------------------------------------------------------------------------

// The key of an entry of a nested collection: the path with a name behind it.
inline Ref joined(PyObject* path, PyObject* name) {
    const Py_ssize_t count = path == nullptr ? 0 : PyTuple_GET_SIZE(path);
    Ref key(PyTuple_New(count + 1));
    if (!key) throw PythonError();
    for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(key.get(), i, Py_NewRef(PyTuple_GET_ITEM(path, i)));
    PyTuple_SET_ITEM(key.get(), count, Py_NewRef(name));
    return key;
}

// Append the keys (or pairs of key and value) of all levels. False: left to Python.
inline bool walk(PyObject* collection, PyObject* path, bool leaves_only, bool pairs, PyObject* entries) {
    const Nesting level;
    for (const auto& [name, value] : Entries(store_of(collection))) {
        const bool nested = Py_TYPE(value) != bound.tensor && is_plain(value);
        if (!nested && !PyObject_TypeCheck(value, bound.tensor)) return false;
        if (!(nested && leaves_only)) {
            Ref entry = path == nullptr ? Ref::borrowed(name) : joined(path, name);
            if (pairs) entry = Ref(PyTuple_Pack(2, entry.get(), value));
            if (!entry || PyList_Append(entries, entry.get()) != 0) throw PythonError();
        }
        if (nested && !walk(value, joined(path, name).get(), leaves_only, pairs, entries)) return false;
    }
    return true;
}

// walk(collection, leaves_only, pairs): the list of the keys of all levels, or of pairs of key and value.
inline PyObject* py_walk(PyObject* const* args) {
    return attempt_quietly([&] {
        if (!is_plain(args[0]) || !PyBool_Check(args[1]) || !PyBool_Check(args[2])) return Ref();
        Ref entries(PyList_New(0));
        if (!entries) throw PythonError();
        return walk(args[0], nullptr, args[1] == Py_True, args[2] == Py_True, entries.get()) ? std::move(entries) : Ref();
    });
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

// select(collection, keys): a collection with keys of its first level, all of which exist.
inline PyObject* py_select(PyObject* const* args) {
    return attempt_quietly([&] {
        if (!is_plain(args[0]) || !PyTuple_CheckExact(args[1])) return Ref();
        const Level own(args[0]);
        const Ref source = Ref::borrowed(store_of(args[0])), store(PyDict_New());
        if (!store) throw PythonError();
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[1]); ++i) {
            PyObject* key = PyTuple_GET_ITEM(args[1], i);
            const Ref value = PyUnicode_CheckExact(key) ? lookup(source.get(), key) : Ref();
            if (!value) return Ref();
            put(store.get(), key, value.get());
        }
        return own.on(store.get());
    });
}

// exclude(collection, keys): a collection without keys of its first level.
inline PyObject* py_exclude(PyObject* const* args) {
    return attempt_quietly([&] {
        if (!is_plain(args[0]) || !PyTuple_CheckExact(args[1])) return Ref();
        const Level own(args[0]);
        const Ref store(PyDict_Copy(store_of(args[0])));
        if (!store) throw PythonError();
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[1]); ++i) {
            PyObject* key = PyTuple_GET_ITEM(args[1], i);
            if (!PyUnicode_CheckExact(key)) return Ref();
            if (lookup(store.get(), key) && PyDict_DelItem(store.get(), key) != 0) throw PythonError();
        }
        return own.on(store.get());
    });
}

// Add the leaves of a collection under joined keys. False: left to Python.
inline bool flatten_into(PyObject* store, PyObject* collection, PyObject* prefix, PyObject* separator) {
    const Nesting level;
    for (const auto& [key, value] : Entries(store_of(collection))) {
        if (!PyUnicode_CheckExact(key)) return false;
        const Ref name(prefix == nullptr ? Py_NewRef(key) : PyUnicode_Concat(prefix, key));
        if (!name) throw PythonError();
        if (Py_TYPE(value) != bound.tensor && is_plain(value)) {
            const Ref below(PyUnicode_Concat(name.get(), separator));
            if (!below) throw PythonError();
            if (!flatten_into(store, value, below.get(), separator)) return false;
            continue;
        }
        const Py_ssize_t before = PyDict_GET_SIZE(store);
        if (!PyObject_TypeCheck(value, bound.tensor)) return false;
        if (PyDict_SetDefault(store, name.get(), value) == nullptr) throw PythonError();
        if (PyDict_GET_SIZE(store) == before) return false;  // two keys become the same
    }
    return true;
}

// flat_store(collection, separator): the store of the collection with flat keys.
inline PyObject* py_flat_store(PyObject* const* args) {
    return attempt_quietly([&] {
        if (!is_plain(args[0]) || !PyUnicode_CheckExact(args[1])) return Ref();
        Ref store(PyDict_New());
        if (!store) throw PythonError();
        return flatten_into(store.get(), args[0], nullptr, args[1]) ? std::move(store) : Ref();
    });
}

// nested_store(collection, separator): the store of the collection with nested keys, of one new level: several separators
// in a key are left to Python.
inline PyObject* py_nested_store(PyObject* const* args) {
    return attempt_quietly([&] {
        PyObject* separator = args[1];
        if (!is_tensordict(args[0]) || !PyUnicode_CheckExact(separator)) return Ref();
        const Py_ssize_t width = PyUnicode_GET_LENGTH(separator);
        const Level own(args[0]);
        Ref store(PyDict_New());
        if (!store) throw PythonError();
        for (const auto& [key, value] : Entries(store_of(args[0]))) {
            if (width == 0 || !PyUnicode_CheckExact(key) || Py_TYPE(value) != bound.tensor) return Ref();
            const Py_ssize_t length = PyUnicode_GET_LENGTH(key);
            const Py_ssize_t split = PyUnicode_Find(key, separator, 0, length, 1);
            if (split != PyUnicode_Find(key, separator, 0, length, -1)) return Ref();  // several, or overlapping ones
            Ref into = Ref::borrowed(store.get()), name = Ref::borrowed(key);
            if (split >= 0) {
                const Ref prefix(PyUnicode_Substring(key, 0, split));
                name = Ref(PyUnicode_Substring(key, split + width, length));
                if (!prefix || !name) throw PythonError();
                Ref node = lookup(store.get(), prefix.get());
                if (!node) {
                    const Ref below(PyDict_New());
                    if (!below) throw PythonError();
                    node = own.on(below.get());
                    put(store.get(), prefix.get(), node.get());
                }
                if (Py_TYPE(node.get()) == bound.tensor) return Ref();
                into = Ref::borrowed(store_of(node.get()));
            }
            const Py_ssize_t before = PyDict_GET_SIZE(into.get());
            if (PyDict_SetDefault(into.get(), name.get(), value) == nullptr) throw PythonError();
            if (PyDict_GET_SIZE(into.get()) == before) return Ref();
        }
        return store;
    });
}

inline PyMethodDef dictionary_methods[] = {
    METHOD(find, 2),    METHOD(set_tensor, 3), METHOD(set_field, 3), METHOD(walk, 3),
    METHOD(shallow, 1), METHOD(empty, 1),      METHOD(select, 2),    METHOD(exclude, 2),
    METHOD(flat_store, 2), METHOD(nested_store, 2), END_OF_METHODS,
};

}  // namespace tensorclass
