// Lazy stacks: making one of parts that are alike, reading and writing a key, and the plain collection of all values.
#pragma once

#include "collections.h"
#include "joining.h"
#include "methods.h"

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
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(store_of(tree), &position, &key, &value)) {
        if (!is_tensor(value) && !(is_collection(value) && is_plain(value) && holds_only_tensors(value))) return false;
    }
    return true;
}

// The store of a lazy stack; with the forms and hooks of another one, if that is not None.
inline Ref parts_like(PyObject* items, int64_t dim, PyObject* like) {
    Ref made(lazy.parts->tp_alloc(lazy.parts, 0));
    Ref position(PyLong_FromLongLong(dim));
    Ref forms(like == Py_None ? PyDict_New() : Py_NewRef(slot(like, lazy.forms)));
    if (!made || !position || !forms) throw PythonError();
    slot(made.get(), lazy.items) = Py_NewRef(items);
    slot(made.get(), lazy.dim) = position.release();
    slot(made.get(), lazy.name) = Py_NewRef(Py_None);
    slot(made.get(), lazy.stacked_slot) = Py_NewRef(lazy.stacked);
    slot(made.get(), lazy.forms) = forms.release();
    slot(made.get(), lazy.hook_in) = Py_NewRef(like == Py_None ? Py_None : slot(like, lazy.hook_in));
    slot(made.get(), lazy.hook_out) = Py_NewRef(like == Py_None ? Py_None : slot(like, lazy.hook_out));
    return made;
}

// The lazy stack of plain collections of one class, batch size and device, without names; None for others.
inline PyObject* made_lazily(PyObject* parts, PyObject* dim_, PyObject* like) {
    if (!PyList_CheckExact(parts) || PyList_GET_SIZE(parts) == 0 || lazy.parts == nullptr) Py_RETURN_NONE;
    if (like != Py_None && Py_TYPE(like) != lazy.parts) Py_RETURN_NONE;
    PyObject* first = PyList_GET_ITEM(parts, 0);
    if (!is_collection(first)) Py_RETURN_NONE;
    PyObject* cls = PyDict_GetItemWithError(Py_TYPE(first)->tp_dict, lazy.class_name);
    if (cls == nullptr) Py_RETURN_NONE;
    bool locked = true;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parts); ++i) {
        PyObject* part = PyList_GET_ITEM(parts, i);
        if (!is_part_like(part, first)) Py_RETURN_NONE;
        locked = locked && slot(part, bound.lock) != Py_None;
    }
    return attempt([&] {
        Sizes size = sizes_of(batch_size_of(first));
        const int64_t dim = as_int(dim_);
        if (dim < 0 || dim > static_cast<int64_t>(size.size())) throw NotNative();
        size.insert(size.begin() + dim, PyList_GET_SIZE(parts));
        auto* type = reinterpret_cast<PyTypeObject*>(cls);
        Ref store = parts_like(parts, dim, like), batch_size = as_size(size), made(type->tp_alloc(type, 0));
        if (!made) throw PythonError();
        slot(made.get(), bound.store) = store.release();
        slot(made.get(), bound.batch_size) = batch_size.release();
        slot(made.get(), bound.device) = Py_NewRef(slot(first, bound.device));
        slot(made.get(), bound.names) = Py_NewRef(Py_None);
        slot(made.get(), bound.lock) = Py_NewRef(locked ? bound.empty : Py_None);
        return made;
    });
}

// lazily(parts, dim, like): a lazy stack, with the forms and hooks of another store, if that is not None.
inline PyObject* py_lazily(PyObject*, PyObject* const* args, Py_ssize_t) {
    return made_lazily(args[0], args[1], args[2]);
}

// Append a part that is like the first, and holds only tensors. The batch size of the lazy stack afterwards; None, with
// nothing done, for others.
inline PyObject* appended(PyObject* parts, PyObject* part, PyObject* batch_size, PyObject* dim_) {
    if (!PyList_CheckExact(parts) || PyList_GET_SIZE(parts) == 0 || !is_collection(part)) Py_RETURN_NONE;
    PyObject* first = PyList_GET_ITEM(parts, 0);
    if (!is_collection(first) || !is_part_like(part, first) || !holds_only_tensors(part)) Py_RETURN_NONE;
    return attempt([&] {
        Sizes size = sizes_of(batch_size);
        const int64_t dim = as_int(dim_);
        if (dim < 0 || dim >= static_cast<int64_t>(size.size())) throw NotNative();
        size[dim] = PyList_GET_SIZE(parts) + 1;
        Ref made = as_size(size);
        if (PyList_Append(parts, part) != 0) throw PythonError();
        return made;
    });
}

// The tensors of the parts under a key, stacked; None for other values.
inline PyObject* stacked_key(PyObject* parts, PyObject* key, PyObject* dim) {
    if (!PyList_CheckExact(parts) || PyList_GET_SIZE(parts) == 0 || !PyUnicode_CheckExact(key)) Py_RETURN_NONE;
    std::vector<Column> columns(1);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parts); ++i) {
        PyObject* part = PyList_GET_ITEM(parts, i);
        if (!is_collection(part) || !is_plain(part)) Py_RETURN_NONE;
        PyObject* value = PyDict_GetItemWithError(store_of(part), key);
        if (value == nullptr || !is_tensor(value)) Py_RETURN_NONE;
        columns[0].push_back(&THPVariable_Unpack(value));
    }
    return attempt([&] { return wrap(std::move(joined(columns, as_int(dim), true)[0])); });
}

// stack_key(parts, key, dim)
inline PyObject* py_stack_key(PyObject*, PyObject* const* args, Py_ssize_t) {
    return stacked_key(args[0], args[1], args[2]);
}

// set_key(parts, key, value, dim, batch_size): set the rows of a tensor in the parts. True if that is done.
inline PyObject* py_set_key(PyObject*, PyObject* const* args, Py_ssize_t) {
    PyObject *parts = args[0], *key = args[1];
    if (!PyList_CheckExact(parts) || !PyUnicode_CheckExact(key) || !is_tensor(args[2])) Py_RETURN_NONE;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parts); ++i) {
        PyObject* part = PyList_GET_ITEM(parts, i);
        if (!is_collection(part) || !is_plain(part) || slot(part, bound.device) != Py_None) Py_RETURN_NONE;
    }
    return attempt([&] {
        const at::Tensor& value = THPVariable_Unpack(args[2]);
        const int64_t dim = as_int(args[3]);
        const Sizes size = sizes_of(args[4]);
        const size_t count = static_cast<size_t>(PyList_GET_SIZE(parts));
        if (value.dim() < static_cast<int64_t>(size.size()) || value.size(dim) != static_cast<int64_t>(count)) {
            throw NotNative();
        }
        if (!std::equal(size.begin(), size.end(), value.sizes().begin())) throw NotNative();
        Tensors rows = at::unbind(value, dim);
        std::vector<Ref> wrapped;  // all of them before the first is set
        for (at::Tensor& row : rows) wrapped.push_back(wrap(std::move(row)));
        if (static_cast<size_t>(PyList_GET_SIZE(parts)) != count) throw NotNative();
        for (size_t i = 0; i < count; ++i) {
            put(store_of(PyList_GET_ITEM(parts, static_cast<Py_ssize_t>(i))), key, wrapped[i].get());
        }
        return Ref::borrowed(Py_True);
    });
}

// densify(parts, dim): the plain collection of all values of parts that are alike.
inline PyObject* py_densify(PyObject*, PyObject* const* args, Py_ssize_t) {
    return join(args[0], args[1], true, true);
}

// -- answers (see methods.h) ------------------------------------------------------------------------------------------

// A lazy stack as its methods see it. Without parts: null `items`.
struct LazyStack {
    PyObject *items = nullptr, *dim = nullptr, *store = nullptr;

    explicit LazyStack(PyObject* stack) {
        if (lazy.parts == nullptr || !is_collection(stack) || batch_size_of(stack) == nullptr) return;
        PyObject* parts = store_of(stack);
        if (parts == nullptr || Py_TYPE(parts) != lazy.parts) return;
        PyObject *list = slot(parts, lazy.items), *position = slot(parts, lazy.dim);
        if (list == nullptr || !PyList_CheckExact(list) || position == nullptr || !PyLong_CheckExact(position)) return;
        if (slot(parts, lazy.forms) == nullptr || slot(parts, lazy.hook_out) == nullptr) return;
        if (PyList_GET_SIZE(list) == 0) return;
        items = list;
        dim = position;
        store = parts;
    }
    bool reads_plainly() const {
        PyObject* forms = slot(store, lazy.forms);
        return slot(store, lazy.hook_out) == Py_None && PyDict_CheckExact(forms) && PyDict_GET_SIZE(forms) == 0;
    }
    bool has_name() const { return slot(store, lazy.name) != Py_None; }
};

// A result; null, which leaves the call to Python, for None.
inline PyObject* unless_none(PyObject* result) {
    if (result != Py_None) return result;
    Py_DECREF(result);
    return nullptr;
}

// __getitem__(self, index): a key, a part, or a slice of parts.
inline PyObject* lazy_getitem(const Call& call) {
    if (!call.by_position(2, 2)) return nullptr;
    const LazyStack stack(call.args[0]);
    PyObject* index = call.args[1];
    if (stack.items == nullptr) return nullptr;
    if (PyUnicode_CheckExact(index)) {
        return stack.reads_plainly() ? unless_none(stacked_key(stack.items, index, stack.dim)) : nullptr;
    }
    if (PyLong_AsLong(stack.dim) != 0) return nullptr;
    if (PyLong_CheckExact(index)) {
        int overflow = 0;
        const long position = PyLong_AsLongAndOverflow(index, &overflow);
        if (overflow != 0 || position < 0 || position >= PyList_GET_SIZE(stack.items)) return nullptr;
        return Py_NewRef(PyList_GET_ITEM(stack.items, position));
    }
    if (!PySlice_Check(index) || stack.has_name()) return nullptr;
    const Ref chosen(PyObject_GetItem(stack.items, index));
    if (!chosen) {
        PyErr_Clear();  // Python raises it again
        return nullptr;
    }
    return unless_none(made_lazily(chosen.get(), stack.dim, stack.store));
}

// append(self, part)
inline PyObject* lazy_append(const Call& call) {
    if (!call.by_position(2, 2)) return nullptr;
    PyObject* self = call.args[0];
    const LazyStack stack(self);
    if (stack.items == nullptr) return nullptr;
    if (slot(self, bound.lock) != Py_None || slot(self, bound.device) != Py_None) return nullptr;
    PyObject* size = unless_none(appended(stack.items, call.args[1], batch_size_of(self), stack.dim));
    if (size == nullptr) return nullptr;
    Py_SETREF(slot(self, bound.batch_size), size);
    return Py_NewRef(Py_None);
}

// unbind(self, dim=0): the parts.
inline PyObject* lazy_unbind(const Call& call) {
    if (!call.by_position(1, 2)) return nullptr;
    const LazyStack stack(call.args[0]);
    if (stack.items == nullptr || (call.count() == 2 && !PyLong_CheckExact(call.args[1]))) return nullptr;
    int overflow = 0;
    const long dim = call.count() == 2 ? PyLong_AsLongAndOverflow(call.args[1], &overflow) : 0;
    return overflow == 0 && dim == PyLong_AsLong(stack.dim) ? PyList_AsTuple(stack.items) : nullptr;
}

inline const Method lazy_answers[] = {
    {"LazyRows", "__getitem__", answered<lazy_getitem>},
    {"LazyParts", "append", answered<lazy_append>},
    {"LazyShaping", "unbind", answered<lazy_unbind>},
    {nullptr, nullptr, nullptr},
};

// bind_lazy(Parts, lazily, name): the store of lazy stacks, the function that makes them in Python, and the attribute
// of a class that is the class of its lazy stacks.
inline PyObject* py_bind_lazy(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 3 || !PyType_Check(args[0]) || !PyUnicode_Check(args[2])) {
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
    METHOD_ANY(bind_lazy), METHOD_ANY(lazily), METHOD_ANY(stack_key), METHOD_ANY(set_key), METHOD_ANY(densify),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace tensorclass
