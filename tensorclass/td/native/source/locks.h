// lock_ and unlock_ of collections of tensors; see td/locking.py, td/context.py.
#pragma once

#include "collections.h"

namespace tensorclass {

// Contexts of collections, (blocks, undo), without open blocks: they are the same for all.
struct Undo {
    PyObject *by_lock = nullptr, *by_unlock = nullptr, *none = nullptr;
};
extern Undo undo;

// Whether a collection has only tensors: nothing else is locked with it.
inline bool is_level(PyObject* collection) {
    static PyObject* nodes = interned("_nodes");
    if (Py_TYPE(collection) != bound.tensordict &&
        _PyType_Lookup(Py_TYPE(collection), nodes) != _PyType_Lookup(bound.tensordict, nodes)) {
        return false;  // it says itself what it consists of
    }
    for (const auto& [key, value] : Entries(store_of(collection))) {
        if (Py_TYPE(value) != bound.tensor) return false;
    }
    return true;
}

// The context of a collection after an operation, with the blocks that are open now. Null: left to Python.
inline Ref context_after(PyObject* collection, PyObject* context) {
    PyObject* before = slot(collection, bound.context);
    if (before == nullptr) return Ref::borrowed(context);
    if (!PyTuple_CheckExact(before) || PyTuple_GET_SIZE(before) < 2) return Ref();
    const Ref blocks = Ref::borrowed(PyTuple_GET_ITEM(before, 0));
    if (blocks.get() == bound.empty) return Ref::borrowed(context);
    Ref made(PyTuple_Pack(2, blocks.get(), PyTuple_GET_ITEM(context, 1)));
    if (!made) throw PythonError();
    return made;
}

// lock_keys(collection, lock): lock a collection of tensors, or unlock one that is no part of another. True if that is done.
inline PyObject* py_lock_keys(PyObject* const* args) {
    return attempt_quietly([&] {
        PyObject* collection = args[0];
        if (!is_plain(collection) || !PyBool_Check(args[1]) || undo.none == nullptr || bound.tensordict == nullptr) return Ref();
        const bool lock = args[1] == Py_True, changes = (slot(collection, bound.lock) == Py_None) == lock;
        const Ref context = context_after(collection, !changes ? undo.none : lock ? undo.by_unlock : undo.by_lock);
        if (!context || (changes && !is_level(collection))) return Ref();
        PyObject* before = slot(collection, bound.lock);
        if ((before == Py_None) != (changes == lock)) return Ref();  // other code ran meanwhile
        if (changes && !lock && (!PyTuple_CheckExact(before) || PyTuple_GET_SIZE(before) != 0)) return Ref();
        replace(slot(collection, bound.context), context.get());
        if (changes) replace(slot(collection, bound.lock), lock ? bound.empty : Py_None);
        return Ref::borrowed(Py_True);
    });
}

// bind_locks(by_lock, by_unlock, none): the contexts.
inline PyObject* py_bind_locks(PyObject* const* args) {
    for (Py_ssize_t i = 0; i < 3; ++i) {
        if (PyTuple_CheckExact(args[i]) && PyTuple_GET_SIZE(args[i]) == 2) continue;
        PyErr_SetString(PyExc_TypeError, "bind_locks: expected three pairs");
        return nullptr;
    }
    undo = {Py_NewRef(args[0]), Py_NewRef(args[1]), Py_NewRef(args[2])};
    Py_RETURN_NONE;
}

inline PyMethodDef lock_methods[] = {
    METHOD(bind_locks, 3), METHOD(lock_keys, 2), END_OF_METHODS};

}  // namespace tensorclass
