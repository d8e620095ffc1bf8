// Pytrees of dicts, lists, tuples and tensors: `from_pytree` and `to_pytree`; see convert/python/pytree_converter.py.
#pragma once

#include "constructing.h"

namespace tensorclass {

// What `bind_trees` hands over, once the converter is imported.
struct Trees {
    PyObject* key = nullptr;  // of the recorded node
    PyObject *dict = nullptr, *list = nullptr, *tuple = nullptr;  // the nodes whose leaves and keys are stored as they are
};
extern Trees trees;

// The key of an item of a list.
inline Ref item_key(Py_ssize_t position) {
    static PyObject* known[32] = {};
    if (position >= 32) return Ref(PyUnicode_FromFormat("%zd", position));
    if (known[position] == nullptr) known[position] = PyUnicode_FromFormat("%zd", position);
    return known[position] == nullptr ? Ref() : Ref::borrowed(known[position]);
}

inline Ref tree_of(PyObject* tree);

// Store a child of a node. False: left to Python, or an error is set.
inline bool add_child(PyObject* store, PyObject* key, PyObject* child) {
    if (is_tensor(child)) return PyDict_SetItem(store, key, child) == 0;
    if (Py_EnterRecursiveCall(" while converting a nested tree") != 0) return false;
    Ref below = tree_of(child);
    Py_LeaveRecursiveCall();
    return below && PyDict_SetItem(store, key, below.get()) == 0;
}

// The TensorDict of a dict, list or tuple. Null: left to Python, or an error is set.
inline Ref tree_of(PyObject* tree) {
    PyObject* node = nullptr;
    Ref store(PyDict_New());
    if (!store) return Ref();
    if (PyDict_CheckExact(tree)) {
        node = trees.dict;
        Py_ssize_t position = 0;
        PyObject *key, *child;
        while (PyDict_Next(tree, &position, &key, &child)) {
            if (!PyUnicode_CheckExact(key) || !add_child(store.get(), key, child)) return Ref();
        }
        const int taken = PyDict_Contains(store.get(), trees.key);
        if (taken != 0) return Ref();
    } else if (PyList_CheckExact(tree) || PyTuple_CheckExact(tree)) {
        const bool is_list = PyList_CheckExact(tree);
        node = is_list ? trees.list : trees.tuple;
        for (Py_ssize_t i = 0; i < Py_SIZE(tree); ++i) {
            Ref key = item_key(i);
            PyObject* child = is_list ? PyList_GET_ITEM(tree, i) : PyTuple_GET_ITEM(tree, i);
            if (!key || !add_child(store.get(), key.get(), child)) return Ref();
        }
    } else {
        return Ref();
    }
    Ref holder = held(leaves.object, node, bound.no_dims);
    if (!holder || PyDict_SetItem(store.get(), trees.key, holder.get()) != 0) return Ref();
    return made_on(bound.tensordict, store.get(), bound.no_dims);
}

// from_pytree(cls, pytree)
inline PyObject* from_pytree(const Call& call) {
    if (!call.by_position(2, 2) || trees.key == nullptr || leaves.object == nullptr) return nullptr;
    if (call.args[0] != reinterpret_cast<PyObject*>(bound.tensordict)) return nullptr;
    return tree_of(call.args[1]).release();
}

// The node that a TensorDict records; null: none, or one that Python knows.
inline PyObject* node_of(PyObject* collection) {
    PyObject* holder = PyDict_GetItemWithError(store_of(collection), trees.key);
    if (holder == nullptr || !is_object(holder)) return nullptr;
    PyObject* objects = slot(holder, leaves.objects);
    const bool is_one = objects != nullptr && PyTuple_CheckExact(objects) && PyTuple_GET_SIZE(objects) == 1;
    return is_one ? PyTuple_GET_ITEM(objects, 0) : nullptr;
}

inline Ref restored(PyObject* collection);

inline Ref restored_child(PyObject* child) {
    if (Py_TYPE(child) == bound.tensor) return Ref::borrowed(child);
    if (!is_tensordict(child) || Py_EnterRecursiveCall(" while restoring a nested tree") != 0) return Ref();
    Ref below = restored(child);
    Py_LeaveRecursiveCall();
    return below;
}

// The dict, list or tuple of a TensorDict. Null: left to Python, or an error is set.
inline Ref restored(PyObject* collection) {
    PyObject* node = node_of(collection);
    PyObject* store = store_of(collection);
    if (node == nullptr) return Ref();
    if (node == trees.dict) {
        Ref result(PyDict_New());
        Py_ssize_t position = 0;
        PyObject *key, *child;
        while (result && PyDict_Next(store, &position, &key, &child)) {
            if (is_object(child)) {
                if (child != PyDict_GetItemWithError(store, trees.key)) return Ref();
                continue;
            }
            Ref value = restored_child(child);
            if (!value || PyDict_SetItem(result.get(), key, value.get()) != 0) return Ref();
        }
        return result;
    }
    if (node != trees.list && node != trees.tuple) return Ref();
    const Py_ssize_t count = PyDict_GET_SIZE(store) - 1;
    Ref result(node == trees.list ? PyList_New(count) : PyTuple_New(count));
    for (Py_ssize_t i = 0; result && i < count; ++i) {
        Ref key = item_key(i);
        PyObject* child = key ? PyDict_GetItemWithError(store, key.get()) : nullptr;
        Ref value = child != nullptr ? restored_child(child) : Ref();
        if (!value) return Ref();
        if (node == trees.list) {
            PyList_SET_ITEM(result.get(), i, value.release());
        } else {
            PyTuple_SET_ITEM(result.get(), i, value.release());
        }
    }
    return result;
}

// Whether a value has a shape that begins with a batch size: a tensor, or a plain collection with values.
inline bool begins_with(PyObject* value, const Sizes& size) {
    if (is_tensor(value)) {
        const c10::IntArrayRef own = THPVariable_Unpack(value).sizes();
        return own.size() >= size.size() && std::equal(size.begin(), size.end(), own.begin());
    }
    if (!is_collection(value) || !is_plain(value) || PyDict_GET_SIZE(store_of(value)) == 0) return false;
    const Sizes own = sizes_of(batch_size_of(value));
    return own.size() >= size.size() && std::equal(size.begin(), size.end(), own.begin());
}

// unflattened(cls, keys, values, device, batch_size, names): a node of torch's pytrees whose values have kept their batch
// size; or None.
inline PyObject* py_unflattened(PyObject*, PyObject* const* args, Py_ssize_t) {
    PyObject *keys = args[1], *values = args[2];
    if (_PyType_Lookup(reinterpret_cast<PyTypeObject*>(args[0]), bound.is_plain) != Py_True) Py_RETURN_NONE;
    if (!PyTuple_CheckExact(keys) || !PyList_CheckExact(values) || Py_TYPE(args[4]) != bound.size) Py_RETURN_NONE;
    const Py_ssize_t count = PyTuple_GET_SIZE(keys);
    if (count == 0 || PyList_GET_SIZE(values) != count) Py_RETURN_NONE;
    return attempt([&] {
        const Sizes size = sizes_of(args[4]);
        Ref store(PyDict_New());
        if (!store) throw PythonError();
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyObject* value = PyList_GET_ITEM(values, i);
            if (!begins_with(value, size)) return Ref::borrowed(Py_None);
            put(store.get(), PyTuple_GET_ITEM(keys, i), value);
        }
        return make_of(reinterpret_cast<PyTypeObject*>(args[0]), store.get(), args[4], args[3], args[5]);
    });
}

// to_pytree(self)
inline PyObject* to_pytree(const Call& call) {
    if (!call.by_position(1, 1) || trees.key == nullptr || !is_tensordict(call.args[0])) return nullptr;
    return restored(call.args[0]).release();
}

// bind_trees(key, dict, list, tuple): the key of the recorded node, and the nodes of the three types.
inline PyObject* py_bind_trees(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 4 || !PyUnicode_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "bind_trees: expected a key and three nodes");
        return nullptr;
    }
    trees = {Py_NewRef(args[0]), Py_NewRef(args[1]), Py_NewRef(args[2]), Py_NewRef(args[3])};
    Py_RETURN_NONE;
}

inline PyMethodDef tree_methods[] = {METHOD_ANY(bind_trees), METHOD_ANY(unflattened), {nullptr, nullptr, 0, nullptr}};

inline const Method tree_answers[] = {
    {"TensorCollection", "from_pytree", answered<from_pytree>},
    {"TensorCollection", "to_pytree", answered<to_pytree>},
    {nullptr, nullptr, nullptr},
};

}  // namespace tensorclass
