// lock_, unlock_, and the `with` statement on results of operations that a method undoes; see td/locking.py, td/context.py.
#pragma once

#include "dictionary.h"

namespace tensorclass {

// Contexts of collections, (blocks, undo), without open blocks: they are the same for all.
struct Undo {
    PyObject *lock = nullptr, *unlock = nullptr;                        // names of methods
    PyObject *by_lock = nullptr, *by_unlock = nullptr, *none = nullptr;  // contexts
    PyTypeObject* inverse = nullptr;
};
extern Undo undo;

// Whether a collection has only tensors: nothing else is locked with it.
inline bool is_level(PyObject* collection) {
    static PyObject* nodes = interned("_nodes");
    if (Py_TYPE(collection) != bound.tensordict &&
        _PyType_Lookup(Py_TYPE(collection), nodes) != _PyType_Lookup(bound.tensordict, nodes)) {
        return false;  // it says itself what it consists of
    }
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(store_of(collection), &position, &key, &value)) {
        if (Py_TYPE(value) != bound.tensor) return false;
    }
    return true;
}

// Note how a `with` statement undoes what was just done; `context` is the one without open blocks.
inline bool note(PyObject* collection, PyObject* context) {
    PyObject* before = slot(collection, bound.context);
    if (before == nullptr || before == undo.by_lock || before == undo.by_unlock || before == undo.none) {
        Py_XSETREF(slot(collection, bound.context), Py_NewRef(context));
        return true;
    }
    if (!PyTuple_CheckExact(before) || PyTuple_GET_SIZE(before) < 2) return false;
    PyObject* made = PyTuple_Pack(2, PyTuple_GET_ITEM(before, 0), PyTuple_GET_ITEM(context, 1));
    if (made == nullptr) return false;
    Py_XSETREF(slot(collection, bound.context), made);
    return true;
}

// lock_(self)
inline PyObject* lock(const Call& call) {
    if (!call.by_position(1, 1) || !is_tree(call.args[0])) return nullptr;
    PyObject* collection = call.args[0];
    const bool open = slot(collection, bound.lock) == Py_None;
    if (open && !is_level(collection)) return nullptr;
    if (!note(collection, open ? undo.by_unlock : undo.none)) return nullptr;
    if (open) Py_SETREF(slot(collection, bound.lock), Py_NewRef(bound.empty));
    return Py_NewRef(collection);
}

// Whether a collection is locked, not as a part of others, and has none below it.
inline bool is_locked_level(PyObject* collection) {
    PyObject* lock = slot(collection, bound.lock);
    return lock != nullptr && PyTuple_CheckExact(lock) && PyTuple_GET_SIZE(lock) == 0 && is_level(collection);
}

// unlock_(self)
inline PyObject* unlock(const Call& call) {
    if (!call.by_position(1, 1) || !is_tree(call.args[0])) return nullptr;
    PyObject* collection = call.args[0];
    const bool open = slot(collection, bound.lock) == Py_None;
    if (!open && !is_locked_level(collection)) return nullptr;
    if (!note(collection, open ? undo.none : undo.by_lock)) return nullptr;
    if (!open) Py_SETREF(slot(collection, bound.lock), Py_NewRef(Py_None));
    return Py_NewRef(collection);
}

// __enter__(self), where a method, or nothing, undoes the last operation
inline PyObject* enter(const Call& call) {
    if (!call.by_position(1, 1) || !is_tree(call.args[0])) return nullptr;
    PyObject* collection = call.args[0];
    PyObject* context = slot(collection, bound.context);
    if (context == nullptr) context = undo.none;
    if (!PyTuple_CheckExact(context) || PyTuple_GET_SIZE(context) < 2) return nullptr;
    PyObject *blocks = PyTuple_GET_ITEM(context, 0), *method = PyTuple_GET_ITEM(context, 1);
    if (Py_TYPE(method) == undo.inverse || !PyTuple_CheckExact(blocks)) return nullptr;
    Ref before(PyTuple_Pack(2, blocks, Py_None));
    Ref block(before ? PyTuple_Pack(2, method, before.get()) : nullptr);
    Ref more(block ? joined(blocks, block.get()) : nullptr);
    PyObject* after = more ? PyTuple_Pack(2, more.get(), Py_None) : nullptr;
    if (after == nullptr) return nullptr;
    Py_XSETREF(slot(collection, bound.context), after);
    return Py_NewRef(collection);
}

// __exit__(self, exc_type, exc, traceback), of a block that lock_, _unlock or nothing ends
inline PyObject* leave(const Call& call) {
    if (!call.by_position(4, 4) || !is_tensordict(call.args[0])) return nullptr;
    PyObject* collection = call.args[0];
    PyObject* context = slot(collection, bound.context);
    if (context == nullptr || !PyTuple_CheckExact(context) || PyTuple_GET_SIZE(context) < 2) return nullptr;
    PyObject* blocks = PyTuple_GET_ITEM(context, 0);
    if (!PyTuple_CheckExact(blocks) || PyTuple_GET_SIZE(blocks) == 0) return nullptr;
    PyObject* block = PyTuple_GET_ITEM(blocks, PyTuple_GET_SIZE(blocks) - 1);
    if (!PyTuple_CheckExact(block) || PyTuple_GET_SIZE(block) != 2) return nullptr;
    PyObject *method = PyTuple_GET_ITEM(block, 0), *before = PyTuple_GET_ITEM(block, 1);
    const bool open = slot(collection, bound.lock) == Py_None;
    if (method == undo.lock) {
        if (open && !is_level(collection)) return nullptr;
        if (open) Py_SETREF(slot(collection, bound.lock), Py_NewRef(bound.empty));
    } else if (method == undo.unlock) {
        if (!is_locked_level(collection)) return nullptr;
        Py_SETREF(slot(collection, bound.lock), Py_NewRef(Py_None));
    } else if (method != Py_None) {
        return nullptr;
    }
    Py_XSETREF(slot(collection, bound.context), Py_NewRef(before));
    Py_RETURN_NONE;
}

// bind_locks(Inverse)
inline PyObject* py_bind_locks(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 1 || !PyType_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "bind_locks: expected a class");
        return nullptr;
    }
    undo.inverse = reinterpret_cast<PyTypeObject*>(Py_NewRef(args[0]));
    undo.lock = interned("lock_");
    undo.unlock = interned("_unlock");
    undo.by_lock = PyTuple_Pack(2, bound.empty, undo.lock);
    undo.by_unlock = PyTuple_Pack(2, bound.empty, undo.unlock);
    undo.none = PyTuple_Pack(2, bound.empty, Py_None);
    if (undo.by_lock == nullptr || undo.by_unlock == nullptr || undo.none == nullptr) return nullptr;
    Py_RETURN_NONE;
}

inline PyMethodDef lock_methods[] = {METHOD_ANY(bind_locks), {nullptr, nullptr, 0, nullptr}};

inline const Method lock_answers[] = {
    {"TensorCollection", "lock_", answered<lock>},
    {"TensorCollection", "unlock_", answered<unlock>},
    {"TensorCollection", "__enter__", answered<enter>},
    {"TensorCollection", "__exit__", answered<leave>},
    {nullptr, nullptr, nullptr},
};

}  // namespace tensorclass
