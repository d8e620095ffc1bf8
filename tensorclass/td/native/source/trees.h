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
    PyObject* key = position < 32 ? Py_XNewRef(known[position]) : nullptr;
    if (key == nullptr) key = PyUnicode_FromFormat("%zd", position);
    if (key == nullptr) throw PythonError();
    if (position < 32 && known[position] == nullptr) known[position] = Py_NewRef(key);
    return Ref(key);
}

inline Ref tree_of(PyObject* tree);

// Store a child of a node. False: left to Python.
inline bool add_child(PyObject* store, PyObject* key, PyObject* child) {
    const Ref below = is_tensor(child) ? Ref::borrowed(child) : tree_of(child);
    if (below) put(store, key, below.get());
    return static_cast<bool>(below);
}

// The TensorDict of a dict, list or tuple. Null: left to Python.
inline Ref tree_of(PyObject* tree) {
    const Nesting level;
    const bool is_list = PyList_CheckExact(tree), is_tuple = PyTuple_CheckExact(tree), is_dict = PyDict_CheckExact(tree);
    if (!(is_list || is_tuple || is_dict)) return Ref();
    const Ref store(PyDict_New());
    if (!store) throw PythonError();
    if (is_dict) {
        for (const auto& [key, child] : Entries(tree)) {
            if (!PyUnicode_CheckExact(key) || !add_child(store.get(), key, child)) return Ref();
        }
        if (lookup(store.get(), trees.key)) return Ref();
    } else {
        const Ref items(PySequence_List(tree));
        if (!items) throw PythonError();
        const Items children(items.get());
        for (size_t i = 0; i < children.size(); ++i) {
            if (!add_child(store.get(), item_key(i).get(), children[i])) return Ref();
        }
    }
    const Ref holder = held(leaves.object, is_dict ? trees.dict : is_list ? trees.list : trees.tuple, bound.no_dims);
    if (!holder) return Ref();
    put(store.get(), trees.key, holder.get());
    return made_on(bound.tensordict, store.get(), bound.no_dims);
}

// from_pytree(tree)
inline PyObject* py_from_pytree(PyObject* const* args) {
    return attempt_quietly([&] {
        return trees.key == nullptr || leaves.object == nullptr || bound.tensordict == nullptr ? Ref() : tree_of(args[0]);
    });
}

// The node that a TensorDict records; null: none, or one that Python knows.
inline Ref node_of(PyObject* collection) {
    const Ref holder = lookup(store_of(collection), trees.key);
    if (!holder || !is_object(holder.get())) return Ref();
    PyObject* objects = slot(holder.get(), leaves.objects);
    const bool is_one = objects != nullptr && PyTuple_CheckExact(objects) && PyTuple_GET_SIZE(objects) == 1;
    return is_one ? Ref::borrowed(PyTuple_GET_ITEM(objects, 0)) : Ref();
}

inline Ref restored(PyObject* collection);

inline Ref restored_child(PyObject* child) {
    return Py_TYPE(child) == bound.tensor ? Ref::borrowed(child) : is_tensordict(child) ? restored(child) : Ref();
}

// The dict, list or tuple of a TensorDict. Null: left to Python.
inline Ref restored(PyObject* collection) {
    const Nesting level;
    const Ref node = node_of(collection);
    if (!node) return Ref();
    const Ref store = Ref::borrowed(store_of(collection));
    if (node.get() == trees.dict) {
        Ref result(PyDict_New());
        if (!result) throw PythonError();
        for (const auto& [key, child] : Entries(store.get())) {
            if (PyUnicode_CheckExact(key) && PyUnicode_Compare(key, trees.key) == 0) continue;
            const Ref value = restored_child(child);
            if (!value) return Ref();
            put(result.get(), key, value.get());
        }
        return result;
    }
    if (node.get() != trees.list && node.get() != trees.tuple) return Ref();
    const Py_ssize_t count = PyDict_GET_SIZE(store.get()) - 1;
    Ref result(PyList_New(0));
    if (!result) throw PythonError();
    for (Py_ssize_t i = 0; i < count; ++i) {
        const Ref child = lookup(store.get(), item_key(i).get());
        const Ref value = child ? restored_child(child.get()) : Ref();
        if (!value) return Ref();
        if (PyList_Append(result.get(), value.get()) != 0) throw PythonError();
    }
    if (node.get() == trees.tuple) result = Ref(PyList_AsTuple(result.get()));
    if (!result) throw PythonError();
    return result;
}

// Whether a value has a shape that begins with a batch size: a tensor, or a plain collection with values.
inline bool begins_with(PyObject* value, const Sizes& size) {
    if (is_tensor(value)) {
        const c10::IntArrayRef own = THPVariable_Unpack(value).sizes();
        return own.size() >= size.size() && std::equal(size.begin(), size.end(), own.begin());
    }
    if (!is_plain(value) || PyDict_GET_SIZE(store_of(value)) == 0) return false;
    const Sizes own = sizes_of(batch_size_of(value));
    return own.size() >= size.size() && std::equal(size.begin(), size.end(), own.begin());
}

// unflattened(cls, keys, values, device, batch_size, names): a node of torch's pytrees whose values have kept their batch
// size; or None.
inline PyObject* py_unflattened(PyObject* const* args) {
    return attempt_quietly([&] {
        PyObject *keys = args[1], *values = args[2];
        if (!PyType_Check(args[0]) || !PyTuple_CheckExact(keys) || !PyList_CheckExact(values)) return Ref();
        auto* cls = reinterpret_cast<PyTypeObject*>(args[0]);
        if (Py_TYPE(args[4]) != bound.size || _PyType_Lookup(cls, bound.is_plain) != Py_True) return Ref();
        if (!PyType_IsSubtype(cls, bound.collection)) return Ref();
        const Sizes size = sizes_of(args[4]);
        const Items kept(values);
        const Py_ssize_t count = PyTuple_GET_SIZE(keys);
        const Ref store(PyDict_New());
        if (!store) throw PythonError();
        if (count == 0 || static_cast<Py_ssize_t>(kept.size()) != count) return Ref();
        for (Py_ssize_t i = 0; i < count; ++i) {
            if (!begins_with(kept[i], size)) return Ref();
            put(store.get(), PyTuple_GET_ITEM(keys, i), kept[i]);
        }
        return make_of(cls, store.get(), args[4], args[3], args[5]);
    });
}

// to_pytree(collection)
inline PyObject* py_to_pytree(PyObject* const* args) {
    return attempt_quietly([&] { return trees.key != nullptr && is_tensordict(args[0]) ? restored(args[0]) : Ref(); });
}

// bind_trees(key, dict, list, tuple): the key of the recorded node, and the nodes of the three types.
inline PyObject* py_bind_trees(PyObject* const* args) {
    if (!PyUnicode_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "bind_trees: expected a key and three nodes");
        return nullptr;
    }
    trees = {Py_NewRef(args[0]), Py_NewRef(args[1]), Py_NewRef(args[2]), Py_NewRef(args[3])};
    Py_RETURN_NONE;
}

inline PyMethodDef tree_methods[] = {
    METHOD(bind_trees, 4), METHOD(from_pytree, 1), METHOD(to_pytree, 1), METHOD(unflattened, 6),
    END_OF_METHODS,
};

}  // namespace tensorclass
