// Parameters and buffers of an nn.Module as a collection, and back; see td/module_parameters.py.
#pragma once

#include "collections.h"

#include <unordered_map>

namespace tensorclass {

// The tables of a module: plain dicts in its own dict.
struct Tables {
    Ref own, parameters, buffers, children;

    explicit Tables(PyObject* module) : own(PyObject_GenericGetDict(module, nullptr)) {
        static PyObject* const names[] = {interned("_parameters"), interned("_buffers"), interned("_modules")};
        if (!own) throw PythonError();
        parameters = table(module, names[0]);
        buffers = table(module, names[1]);
        children = table(module, names[2]);
    }

private:
    Ref table(PyObject* module, PyObject* name) const {
        Ref found = lookup(own.get(), name);
        if (!found || !PyDict_CheckExact(found.get())) throw NotNative();
        if (_PyType_Lookup(Py_TYPE(module), name) != nullptr) throw NotNative();  // a property, of scripted modules
        return found;
    }
};

// A collection without batch dimensions, device and names.
inline Ref node_of(PyTypeObject* cls, PyObject* store) { return make_of(cls, store, bound.no_dims, Py_None, Py_None); }

inline void check_not_nested(PyObject* value) {
    if (!THPVariable_Check(value) || THPVariable_Unpack(value).unsafeGetTensorImpl()->is_nested()) throw NotNative();
}

// What was made for modules, which stay as long as this does.
class Seen {
public:
    void add(PyObject* module, const Ref& made) {
        modules_.push_back(Ref::borrowed(module));
        made_.emplace(module, Ref::borrowed(made.get()));
    }
    PyObject* find(PyObject* module) const {
        const auto found = made_.find(module);
        return found == made_.end() ? nullptr : found->second.get();
    }

private:
    std::vector<Ref> modules_;
    std::unordered_map<PyObject*, Ref> made_;
};

// The parameters and buffers of a module. A module that is registered twice gives the same collection twice.
inline Ref tree_of(PyObject* module, bool filter_empty, PyTypeObject* cls, Seen& seen) {
    const Nesting level;  // a module can contain itself
    const Tables tables(module);
    Ref store(PyDict_New());
    if (!store) throw PythonError();
    for (const Ref* table : {&tables.parameters, &tables.buffers}) {
        for (const auto& [key, value] : Entries(table->get())) {
            if (value == Py_None) continue;
            check_not_nested(value);
            put(store.get(), key, value);
        }
    }
    for (const auto& [name, child] : Entries(tables.children.get())) {
        if (child == Py_None) continue;
        if (is_collection(child)) throw NotNative();
        PyObject* known = seen.find(child);
        const Ref below = known != nullptr ? Ref::borrowed(known) : tree_of(child, filter_empty, cls, seen);
        if (!filter_empty || PyDict_GET_SIZE(store_of(below.get())) > 0) put(store.get(), name, below.get());
    }
    Ref node = node_of(cls, store.get());
    seen.add(module, node);
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
        static PyObject* flat_weights = interned("_flat_weights");
        const Nesting level;  // a module can contain itself
        if (Py_TYPE(node) != cls || store_of(node) == nullptr || !PyDict_CheckExact(store_of(node))) throw NotNative();
        const Tables tables(module);
        const Ref given = Ref::borrowed(store_of(node));
        Ref old(PyDict_New());
        if (!old) throw PythonError();
        for (const auto& [key, put_in] : Entries(given.get())) {
            Ref value = Ref::borrowed(put_in);
            PyObject* table = tables.parameters.get();
            Ref before = lookup(table, key);
            const bool is_parameter = static_cast<bool>(before);
            if (!is_parameter) {
                table = tables.buffers.get();
                before = lookup(table, key);
            }
            if (!before) {
                put(old.get(), key, below(tables.children.get(), key, value.get()).get());
                continue;
            }
            if (is_parameter) {
                value = as_parameter(std::move(value), before.get());
            } else if (!THPVariable_Check(value.get())) {
                throw NotNative();
            }
            if (before.get() != Py_None) {
                check_not_nested(before.get());
                put(old.get(), key, before.get());
            }
            const Ref entry(PyTuple_Pack(5, table, key, before.get(), value.get(), given.get()));
            if (!entry || PyList_Append(done, entry.get()) != 0) throw PythonError();
            put(table, key, value.get());
        }
        if (PyDict_Contains(tables.own.get(), flat_weights) == 1 && PyList_Append(recurrent, module) != 0) {
            throw PythonError();
        }
        Ref result = node_of(cls, old.get());
        seen.add(module, result);
        return result;
    }

private:
    Ref below(PyObject* children, PyObject* key, PyObject* value) {
        const Ref child = lookup(children, key);
        if (!child || child.get() == Py_None || !is_collection(value)) throw NotNative();
        PyObject* known = seen.find(child.get());
        return known != nullptr ? Ref::borrowed(known) : swap(value, child.get());
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
    const Items entries(done);
    for (size_t i = entries.size(); i-- > 0;) {
        PyObject* entry = entries[i];
        if (!PyTuple_CheckExact(entry) || PyTuple_GET_SIZE(entry) != 5) throw NotNative();
        PyObject *table = PyTuple_GET_ITEM(entry, 0), *key = PyTuple_GET_ITEM(entry, 1);
        if (!PyDict_CheckExact(table)) throw NotNative();
        const Ref now = lookup(table, key);
        if (now && now.get() != Py_None && now.get() != PyTuple_GET_ITEM(entry, 3)) {
            if (!changed) changed = Ref(PyList_New(0));
            const Ref found(PyTuple_Pack(3, PyTuple_GET_ITEM(entry, 4), key, now.get()));
            if (!changed || !found || PyList_Append(changed.get(), found.get()) != 0) throw PythonError();
        }
        put(table, key, PyTuple_GET_ITEM(entry, 2));
    }
    return changed ? std::move(changed) : Ref::borrowed(bound.empty);
}

// Whether a class is TensorDict: its instances get slots that are set here.
inline bool makes_nodes(PyObject* cls) { return cls == reinterpret_cast<PyObject*>(bound.tensordict); }

// module_tree(module, filter_empty, TensorDict): the parameters and buffers of a module, or None.
inline PyObject* py_module_tree(PyObject* const* args) {
    if (is_collection(args[0]) || !makes_nodes(args[2])) Py_RETURN_NONE;
    return attempt([&] {
        Seen seen;
        return tree_of(args[0], args[1] == Py_True, reinterpret_cast<PyTypeObject*>(args[2]), seen);
    });
}

// swap_module(collection, module, TensorDict, Parameter, convert, wrap, done, recurrent): the replaced values, or None.
inline PyObject* py_swap_module(PyObject* const* args) {
    if (!makes_nodes(args[2]) || Py_TYPE(args[0]) != bound.tensordict || !PyType_Check(args[3])) Py_RETURN_NONE;
    if (!PyList_CheckExact(args[6]) || !PyList_CheckExact(args[7])) Py_RETURN_NONE;
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
inline PyObject* py_unswap_module(PyObject* const* args) {
    if (!PyList_CheckExact(args[0])) Py_RETURN_NONE;
    return attempt([&] { return put_back(args[0]); });
}

inline PyMethodDef module_methods[] = {
    METHOD(module_tree, 3), METHOD(swap_module, 8), METHOD(unswap_module, 1), END_OF_METHODS};

}  // namespace tensorclass
