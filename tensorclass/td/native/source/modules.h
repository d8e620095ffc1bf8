// Parameters and buffers of an nn.Module as a collection, and back; see td/module_parameters.py.
#pragma once

#include "collections.h"

#include <unordered_map>

namespace tensorclass {

// The tables of a module: plain dicts in its own dict.
struct Tables {
    Ref own;
    PyObject *parameters, *buffers, *children;

    explicit Tables(PyObject* module) : own(PyObject_GenericGetDict(module, nullptr)) {
        static PyObject* const names[] = {PyUnicode_InternFromString("_parameters"),
                                          PyUnicode_InternFromString("_buffers"),
                                          PyUnicode_InternFromString("_modules")};
        if (!own) throw PythonError();
        parameters = table(module, names[0]);
        buffers = table(module, names[1]);
        children = table(module, names[2]);
    }

private:
    PyObject* table(PyObject* module, PyObject* name) const {
        PyObject* found = PyDict_GetItemWithError(own.get(), name);
        if (found == nullptr || !PyDict_CheckExact(found)) throw NotNative();
        if (_PyType_Lookup(Py_TYPE(module), name) != nullptr) throw NotNative();  // a property, of scripted modules
        return found;
    }
};

// A collection without batch dimensions, device and names.
inline Ref node_of(PyTypeObject* cls, PyObject* store) {
    Ref made(cls->tp_alloc(cls, 0));
    if (!made) throw PythonError();
    slot(made.get(), bound.store) = Py_NewRef(store);
    slot(made.get(), bound.batch_size) = Py_NewRef(bound.no_dims);
    slot(made.get(), bound.device) = Py_NewRef(Py_None);
    slot(made.get(), bound.names) = Py_NewRef(Py_None);
    slot(made.get(), bound.lock) = Py_NewRef(Py_None);
    return made;
}

inline void check_not_nested(PyObject* value) {
    if (!THPVariable_Check(value) || THPVariable_Unpack(value).unsafeGetTensorImpl()->is_nested()) throw NotNative();
}

using Seen = std::unordered_map<PyObject*, Ref>;  // what was made for a module

// The parameters and buffers of a module. A module that is registered twice gives the same collection twice.
inline Ref tree_of(PyObject* module, bool filter_empty, PyTypeObject* cls, Seen& seen) {
    const NestedLevel level;  // a module can contain itself
    const Tables tables(module);
    Ref store(PyDict_New());
    if (!store) throw PythonError();
    PyObject *key, *value;
    for (PyObject* table : {tables.parameters, tables.buffers}) {
        Py_ssize_t position = 0;
        while (PyDict_Next(table, &position, &key, &value)) {
            if (value == Py_None) continue;
            check_not_nested(value);
            put(store.get(), key, value);
        }
    }
    Py_ssize_t position = 0;
    while (PyDict_Next(tables.children, &position, &key, &value)) {
        if (value == Py_None) continue;
        if (is_collection(value)) throw NotNative();
        const Ref name = Ref::borrowed(key), child = Ref::borrowed(value);
        const auto known = seen.find(child.get());
        const Ref below = known != seen.end() ? Ref::borrowed(known->second.get())
                                              : tree_of(child.get(), filter_empty, cls, seen);
        if (!filter_empty || PyDict_GET_SIZE(store_of(below.get())) > 0) put(store.get(), name.get(), below.get());
    }
    Ref node = node_of(cls, store.get());
    seen.emplace(module, Ref::borrowed(node.get()));
    return node;
}

// One swap: what is replaced is noted in `done`, so that it can be undone.
struct Swap {
    PyTypeObject *cls, *parameter;
    PyObject* convert;  // makes the parameter of any other value, given the replaced one
    bool wrap;          // whether tensors without a gradient become parameters
    PyObject *done, *recurrent;
    Seen seen{};

    Ref swap(PyObject* node, PyObject* module) {
        static PyObject* flat_weights = PyUnicode_InternFromString("_flat_weights");
        if (Py_TYPE(node) != cls || !PyDict_CheckExact(store_of(node))) throw NotNative();
        const NestedLevel level;  // a module can contain itself
        const Tables tables(module);
        PyObject* given = store_of(node);
        Ref old(PyDict_New());
        if (!old) throw PythonError();
        Py_ssize_t position = 0;
        PyObject *name, *put_in;
        while (PyDict_Next(given, &position, &name, &put_in)) {
            const Ref key = Ref::borrowed(name);
            Ref value = Ref::borrowed(put_in);
            PyObject* table = tables.parameters;
            PyObject* before = PyDict_GetItemWithError(table, name);
            const bool is_parameter = before != nullptr;
            if (!is_parameter) {
                table = tables.buffers;
                before = PyDict_GetItemWithError(table, name);
            }
            if (before == nullptr) {
                put(old.get(), key.get(), below(tables.children, key.get(), value.get()).get());
                continue;
            }
            const Ref kept = Ref::borrowed(before);
            if (is_parameter) {
                value = as_parameter(std::move(value), before);
            } else if (!THPVariable_Check(value.get())) {
                throw NotNative();
            }
            if (before != Py_None) {
                check_not_nested(before);
                put(old.get(), key.get(), before);
            }
            Ref entry(PyTuple_Pack(5, table, key.get(), before, value.get(), given));
            if (!entry || PyList_Append(done, entry.get()) != 0) throw PythonError();
            put(table, key.get(), value.get());
        }
        if (PyDict_Contains(tables.own.get(), flat_weights) == 1 && PyList_Append(recurrent, module) != 0) {
            throw PythonError();
        }
        Ref result = node_of(cls, old.get());
        seen.emplace(module, Ref::borrowed(result.get()));
        return result;
    }

private:
    Ref below(PyObject* children, PyObject* key, PyObject* value) {
        PyObject* child = PyDict_GetItemWithError(children, key);
        if (child == nullptr || child == Py_None || !is_collection(value)) throw NotNative();
        const auto known = seen.find(child);
        if (known != seen.end()) return Ref::borrowed(known->second.get());
        const Ref kept = Ref::borrowed(child);
        return swap(value, child);
    }

    Ref as_parameter(Ref value, PyObject* before) const {
        PyTypeObject* kind = Py_TYPE(value.get());
        if (kind == parameter) return value;
        if (kind == bound.tensor && (!wrap || THPVariable_Unpack(value.get()).requires_grad())) return value;
        PyObject* args[] = {value.get(), before};
        Ref made(PyObject_Vectorcall(convert, args, 2, nullptr));
        if (!made) throw PythonError();
        return made;
    }
};

// Put the replaced tensors back. Return those that came in between: (store, key, tensor), in order of their return.
inline Ref put_back(PyObject* done) {
    Ref changed;
    for (Py_ssize_t i = PyList_GET_SIZE(done); i-- > 0;) {
        PyObject* entry = PyList_GET_ITEM(done, i);
        PyObject *table = PyTuple_GET_ITEM(entry, 0), *key = PyTuple_GET_ITEM(entry, 1);
        PyObject* now = PyDict_GetItemWithError(table, key);
        if (now != nullptr && now != Py_None && now != PyTuple_GET_ITEM(entry, 3)) {
            if (!changed) changed = Ref(PyList_New(0));
            Ref found(PyTuple_Pack(3, PyTuple_GET_ITEM(entry, 4), key, now));
            if (!changed || !found || PyList_Append(changed.get(), found.get()) != 0) throw PythonError();
        }
        put(table, key, PyTuple_GET_ITEM(entry, 2));
    }
    return changed ? std::move(changed) : Ref::borrowed(bound.empty);
}

// module_tree(module, filter_empty, TensorDict): the parameters and buffers of a module, or None.
inline PyObject* py_module_tree(PyObject*, PyObject* const* args, Py_ssize_t) {
    if (is_collection(args[0])) Py_RETURN_NONE;
    return attempt([&] {
        Seen seen;
        return tree_of(args[0], args[1] == Py_True, reinterpret_cast<PyTypeObject*>(args[2]), seen);
    });
}

// swap_module(collection, module, TensorDict, Parameter, convert, wrap, done, recurrent): the replaced values, or None.
inline PyObject* py_swap_module(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 8 || Py_TYPE(args[0]) != reinterpret_cast<PyTypeObject*>(args[2])) Py_RETURN_NONE;
    return attempt([&] {
        Swap swap{reinterpret_cast<PyTypeObject*>(args[2]),
                  reinterpret_cast<PyTypeObject*>(args[3]),
                  args[4],
                  args[5] == Py_True,
                  args[6],
                  args[7]};
        try {
            return swap.swap(args[0], args[1]);
        } catch (...) {
            PyObject *type, *error, *traceback;
            PyErr_Fetch(&type, &error, &traceback);
            put_back(swap.done);
            for (PyObject* noted : {swap.done, swap.recurrent}) PyList_SetSlice(noted, 0, PY_SSIZE_T_MAX, nullptr);
            PyErr_Restore(type, error, traceback);
            throw;
        }
    });
}

// unswap_module(done): put the replaced tensors back, and return those that came in between.
inline PyObject* py_unswap_module(PyObject*, PyObject* const* args, Py_ssize_t) {
    return attempt([&] { return put_back(args[0]); });
}

inline PyMethodDef module_methods[] = {
    METHOD(module_tree), METHOD(swap_module), METHOD(unswap_module), {nullptr, nullptr, 0, nullptr}};

}  // namespace tensorclass
