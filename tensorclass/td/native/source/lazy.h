// Lazy stacks: making one of parts that are alike, reading and writing a key, and the plain collection of all values.
#pragma once

#include "joining.h"

namespace tensorclass {

// What `bind_lazy` hands over from Python.
struct Lazy {
    PyTypeObject* parts = nullptr;  // the store of a lazy stack
    PyObject* stacked = nullptr;    // stacks nested collections lazily
    PyObject* class_name = nullptr;  // the attribute of a class that is the class of its lazy stacks
    Py_ssize_t items = 0, dim = 0, name = 0, stacked_slot = 0, forms = 0, hook_in = 0, hook_out = 0;
};
extern Lazy lazy;

// Whether an object is a plain collection of the class, batch size and device of the first part, without names.
inline bool is_part_like(PyObject* part, PyObject* first) {
    if (Py_TYPE(part) != Py_TYPE(first) || !is_plain(part) || has_names(part) || has_names(first)) return false;
    PyObject *size = batch_size_of(part), *wanted = batch_size_of(first);
    return is_same_size(size, wanted) && is_same_device(slot(part, bound.device), slot(first, bound.device));
}

// Whether nothing but tensors lies in a tree, so that it cannot hold a lazy stack.
inline bool holds_only_tensors(PyObject* tree) {
    const Nesting level;
    for (const auto& [key, value] : Entries(store_of(tree))) {
        if (!is_tensor(value) && !(is_plain(value) && holds_only_tensors(value))) return false;
    }
    return true;
}

// The store of a lazy stack; with the forms and hooks of another one, if that is not None.
inline Ref parts_like(PyObject* items, int64_t dim, PyObject* like) {
    const bool is_new = like == Py_None;
    Ref position = as_long(dim), forms(is_new ? PyDict_New() : Py_XNewRef(slot(like, lazy.forms)));
    if (!forms && is_new) throw PythonError();
    if (!forms) throw NotNative();
    Ref hook_in = Ref::borrowed(is_new ? Py_None : slot(like, lazy.hook_in)),
        hook_out = Ref::borrowed(is_new ? Py_None : slot(like, lazy.hook_out));
    Ref made(lazy.parts->tp_alloc(lazy.parts, 0));
    if (!made) throw PythonError();
    slot(made.get(), lazy.items) = Py_NewRef(items);
    slot(made.get(), lazy.dim) = position.release();
    slot(made.get(), lazy.name) = Py_NewRef(Py_None);
    slot(made.get(), lazy.stacked_slot) = Py_NewRef(lazy.stacked);
    slot(made.get(), lazy.forms) = forms.release();
    slot(made.get(), lazy.hook_in) = hook_in.release();
    slot(made.get(), lazy.hook_out) = hook_out.release();
    return made;
}

// lazily(parts, dim, like): the lazy stack of plain collections of one class, batch size and device, without names; with the
// forms and hooks of another store, if that is not None. None for others.
inline PyObject* py_lazily(PyObject* const* args) {
    return attempt_quietly([&] {
        PyObject* like = args[2];
        if (!PyList_CheckExact(args[0]) || PyList_GET_SIZE(args[0]) == 0 || lazy.parts == nullptr) return Ref();
        if (like != Py_None && Py_TYPE(like) != lazy.parts) return Ref();
        const Items parts(args[0]);
        if (!is_plain(parts[0])) return Ref();  // only now its class is one that was made in Python, with a dict of its own
        PyTypeObject* of = Py_TYPE(parts[0]);
        const Ref cls = lookup(of->tp_dict, lazy.class_name);
        if (!cls || !PyType_Check(cls.get())) return Ref();
        bool locked = true;
        for (PyObject* part : parts) {
            if (!is_plain(parts[0]) || !is_part_like(part, parts[0])) return Ref();
            locked = locked && slot(part, bound.lock) != Py_None;
        }
        Sizes size = sizes_of(batch_size_of(parts[0]));
        const int64_t dim = as_int(args[1]);
        if (dim < 0 || dim > static_cast<int64_t>(size.size())) return Ref();
        size.insert(size.begin() + dim, static_cast<int64_t>(parts.size()));
        const Ref device = Ref::borrowed(slot(parts[0], bound.device));
        const Ref store = parts_like(args[0], dim, like), batch_size = as_size(size);
        auto* type = reinterpret_cast<PyTypeObject*>(cls.get());
        Ref made = make_of(type, store.get(), batch_size.get(), device.get(), Py_None);
        if (locked) replace(slot(made.get(), bound.lock), bound.empty);
        return made;
    });
}

// append_part(parts, part, batch_size, dim): append a part that is like the first, and holds only tensors. The batch size of the
// lazy stack afterwards; None, with nothing done, for others.
inline PyObject* py_append_part(PyObject* const* args) {
    return attempt_quietly([&] {
        PyObject* parts = args[0];
        if (!PyList_CheckExact(parts) || PyList_GET_SIZE(parts) == 0) return Ref();
        const Ref first = Ref::borrowed(PyList_GET_ITEM(parts, 0));
        if (!is_plain(first.get()) || !is_part_like(args[1], first.get()) || !holds_only_tensors(args[1])) return Ref();
        Sizes size = sizes_of(args[2]);
        const int64_t dim = as_int(args[3]);
        if (dim < 0 || dim >= static_cast<int64_t>(size.size())) return Ref();
        size[dim] = PyList_GET_SIZE(parts) + 1;
        Ref made = as_size(size);
        if (size[dim] != PyList_GET_SIZE(parts) + 1) return Ref();  // other code ran meanwhile
        if (PyList_Append(parts, args[1]) != 0) throw PythonError();
        return made;
    });
}

// stack_key(parts, key, dim): the tensors of the parts under a key, stacked; None for other values.
inline PyObject* py_stack_key(PyObject* const* args) {
    if (!PyList_CheckExact(args[0]) || PyList_GET_SIZE(args[0]) == 0 || !PyUnicode_CheckExact(args[1])) Py_RETURN_NONE;
    return attempt([&] {
        std::vector<Ref> values;
        std::vector<Column> columns(1);
        for (PyObject* part : Items(args[0])) {
            if (!is_plain(part)) throw NotNative();
            values.push_back(lookup(store_of(part), args[1]));
            if (!values.back() || !is_tensor(values.back().get())) throw NotNative();
            columns[0].push_back(&THPVariable_Unpack(values.back().get()));
        }
        return wrap(std::move(joined(columns, as_int(args[2]), true)[0]));
    });
}

// set_key(parts, key, value, dim, batch_size): set the rows of a tensor in the parts. True if that is done.
inline PyObject* py_set_key(PyObject* const* args) {
    PyObject* key = args[1];
    if (!PyList_CheckExact(args[0]) || !PyUnicode_CheckExact(key) || !is_tensor(args[2])) Py_RETURN_NONE;
    return attempt([&] {
        std::vector<Ref> stores;
        for (PyObject* part : Items(args[0])) {
            if (!is_plain(part) || slot(part, bound.device) != Py_None) throw NotNative();
            stores.push_back(Ref::borrowed(store_of(part)));
        }
        const at::Tensor value = THPVariable_Unpack(args[2]);
        const int64_t dim = as_int(args[3]);
        const Sizes size = sizes_of(args[4]);
        if (dim < 0 || dim >= value.dim() || value.dim() < static_cast<int64_t>(size.size())) throw NotNative();
        if (value.size(dim) != static_cast<int64_t>(stores.size())) throw NotNative();
        if (!std::equal(size.begin(), size.end(), value.sizes().begin())) throw NotNative();
        Tensors rows = at::unbind(value, dim);
        std::vector<Ref> wrapped;  // all of them before the first is set
        for (at::Tensor& row : rows) wrapped.push_back(wrap(std::move(row)));
        for (size_t i = 0; i < stores.size(); ++i) put(stores[i].get(), key, wrapped[i].get());
        return Ref::borrowed(Py_True);
    });
}

// densify(parts, dim): the plain collection of all values of parts that are alike.
inline PyObject* py_densify(PyObject* const* args) {
    return join(args[0], args[1], true, true);
}

// bind_lazy(Parts, lazily, name): the store of lazy stacks, the function that makes them in Python, and the attribute
// of a class that is the class of its lazy stacks.
inline PyObject* py_bind_lazy(PyObject* const* args) {
    if (!PyType_Check(args[0]) || !PyUnicode_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "bind_lazy: expected Parts, lazily and a name");
        return nullptr;
    }
    try {
        lazy.items = offset_of(args[0], "items_");
        lazy.dim = offset_of(args[0], "dim");
        lazy.name = offset_of(args[0], "name");
        lazy.stacked_slot = offset_of(args[0], "stacked");
        lazy.forms = offset_of(args[0], "forms");
        lazy.hook_in = offset_of(args[0], "hook_in");
        lazy.hook_out = offset_of(args[0], "hook_out");
    } catch (const PythonError&) {
        return nullptr;
    }
    lazy.stacked = Py_NewRef(args[1]);
    lazy.class_name = Py_NewRef(args[2]);
    lazy.parts = reinterpret_cast<PyTypeObject*>(Py_NewRef(args[0]));
    Py_RETURN_NONE;
}

inline PyMethodDef lazy_methods[] = {
    METHOD(bind_lazy, 3), METHOD(lazily, 3), METHOD(append_part, 4), METHOD(stack_key, 3), METHOD(set_key, 5),
    METHOD(densify, 2),
    END_OF_METHODS,
};

}  // namespace tensorclass
