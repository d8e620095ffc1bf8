// Leaves whose rows are described by one tensor, or by none: one object, a stack of objects (codes), text and ragged
// rows (spans). An index acts on that tensor; the objects and the items are shared.
#pragma once

#include "collections.h"

#include <optional>

namespace tensorclass {

struct Leaves {
    PyTypeObject *object = nullptr, *stack = nullptr;  // NonTensorData, NonTensorStack
    PyTypeObject *text = nullptr, *ragged = nullptr;
    PyObject *codes = nullptr, *spans = nullptr;  // the keys of the tensors
    Py_ssize_t objects = 0, metadata = 0;         // slots of NonTensorData and NonTensorStack
    Py_ssize_t items = 0, is_compact = 0, room = 0;  // slots of columns
    PyTypeObject* list = nullptr;                 // LinkedList
    Py_ssize_t check = 0, depth = 0, place = 0, td = 0;
};
extern Leaves leaves;

inline bool is_object(PyObject* value) { return leaves.object != nullptr && Py_TYPE(value) == leaves.object; }
inline bool is_stack(PyObject* value) { return leaves.stack != nullptr && Py_TYPE(value) == leaves.stack; }
inline bool is_column(PyObject* value) {
    return leaves.spans != nullptr && (Py_TYPE(value) == leaves.text || Py_TYPE(value) == leaves.ragged);
}

inline bool is_made(PyObject* leaf) {
    return store_of(leaf) != nullptr && PyDict_CheckExact(store_of(leaf)) && batch_size_of(leaf) != nullptr &&
           slot(leaf, bound.device) != nullptr && slot(leaf, bound.names) != nullptr;
}

// The tensor of a leaf; null where it is no plain one.
inline PyObject* tensor_of(PyObject* leaf, PyObject* key) {
    PyObject* value = PyDict_GetItemWithError(store_of(leaf), key);
    return value != nullptr && is_tensor(value) ? value : nullptr;
}

inline void share(PyObject* to, PyObject* from, Py_ssize_t offset) {
    Py_XSETREF(slot(to, offset), Py_XNewRef(slot(from, offset)));
}

// The tensor behind a leaf as the only value of a new store.
inline Ref store_with(PyObject* key, at::Tensor tensor) {
    Ref store(PyDict_New());
    if (!store) throw PythonError();
    put(store.get(), key, wrap(std::move(tensor)).get());
    return store;
}

inline Ref object_like(PyObject* leaf, PyObject* batch_size) {
    Ref store(PyDict_New());
    if (!store) throw PythonError();
    Ref made = make(leaf, store.get(), batch_size, Py_None);
    share(made.get(), leaf, leaves.objects);
    share(made.get(), leaf, leaves.metadata);
    return made;
}

inline Ref object_of(PyObject* object, PyObject* batch_size, PyObject* device, PyObject* names) {
    Ref objects(PyTuple_Pack(1, object));
    Ref store(PyDict_New());
    Ref made(leaves.object->tp_alloc(leaves.object, 0));
    if (!objects || !store || !made) throw PythonError();
    slot(made.get(), bound.store) = store.release();
    slot(made.get(), bound.batch_size) = Py_NewRef(batch_size);
    slot(made.get(), bound.device) = Py_NewRef(device);
    slot(made.get(), bound.names) = Py_NewRef(names);
    slot(made.get(), bound.lock) = Py_NewRef(Py_None);
    slot(made.get(), leaves.objects) = objects.release();
    slot(made.get(), leaves.metadata) = Py_NewRef(Py_None);
    return made;
}

// The object at one code, without batch dimensions.
inline Ref object_at(PyObject* stack, int64_t code) {
    Ref object(PySequence_GetItem(slot(stack, leaves.objects), code));
    if (!object) throw PythonError();
    return object_of(object.get(), bound.no_dims, slot(stack, bound.device), Py_None);
}

inline Ref stack_of(PyObject* objects, at::Tensor codes, PyObject* device, PyObject* metadata) {
    const Ref size = as_size(codes.sizes());
    Ref store = store_with(leaves.codes, std::move(codes));
    Ref made(leaves.stack->tp_alloc(leaves.stack, 0));
    if (!made) throw PythonError();
    slot(made.get(), bound.store) = store.release();
    slot(made.get(), bound.batch_size) = Py_NewRef(size.get());
    slot(made.get(), bound.device) = Py_NewRef(device);
    slot(made.get(), bound.names) = Py_NewRef(Py_None);
    slot(made.get(), bound.lock) = Py_NewRef(Py_None);
    slot(made.get(), leaves.objects) = Py_NewRef(objects);
    slot(made.get(), leaves.metadata) = Py_XNewRef(metadata);
    return made;
}

// A stack of the same objects with other codes; one object where these have no dimensions.
inline Ref stack_like(PyObject* stack, at::Tensor codes) {
    if (codes.dim() == 0) {
        if (!has_own_memory(codes)) throw NotNative();
        return object_at(stack, *codes.const_data_ptr<int64_t>());
    }
    return stack_of(slot(stack, leaves.objects), std::move(codes), slot(stack, bound.device),
                    slot(stack, leaves.metadata));
}

// A column over the same items with other spans.
inline Ref column_like(PyObject* column, at::Tensor spans) {
    Ref size = as_size(spans.sizes().slice(0, spans.dim() - 1));
    Ref store = store_with(leaves.spans, std::move(spans));
    Ref made = make(column, store.get(), size.get(), Py_None);
    share(made.get(), column, leaves.items);
    slot(made.get(), leaves.is_compact) = Py_NewRef(Py_False);
    slot(made.get(), leaves.room) = Py_NewRef(Py_None);
    return made;
}

// A leaf indexed by what applies an index to tensors; null for other leaves, and those with names.
template <class By>
Ref leaf_at(PyObject* leaf, const By& by) {
    const bool object = is_object(leaf), stack = !object && is_stack(leaf);
    if (!object && !stack && !is_column(leaf)) return Ref();
    if (!is_made(leaf) || has_names(leaf)) return Ref();
    if (object) return object_like(leaf, by.size(leaf).get());
    PyObject* tensor = tensor_of(leaf, stack ? leaves.codes : leaves.spans);
    if (tensor == nullptr || !by.takes(THPVariable_Unpack(tensor))) return Ref();
    const at::Tensor given = THPVariable_Unpack(tensor);
    return stack ? stack_like(leaf, by(given)) : column_like(leaf, by.rows(given));
}

// Lists of the objects of a stack. Each is linked to the stack: items that are assigned are written there.
class Lists {
public:
    Lists(PyObject* stack, PyObject* check, const at::Tensor& codes)
        : stack_(stack), check_(check), objects_(slot(stack, leaves.objects)), sizes_(codes.sizes()),
          strides_(codes.strides()) {}

    Ref made(const int64_t* codes, size_t dim, PyObject* place) const {
        const int64_t count = sizes_[dim], stride = strides_[dim];
        Ref items(PyList_New(count));
        if (!items) throw PythonError();
        for (int64_t i = 0; i < count; ++i) {
            PyList_SET_ITEM(items.get(), i, dim + 1 == sizes_.size()
                                                ? Py_NewRef(object(codes[i * stride]))
                                                : below(codes + i * stride, dim + 1, place, i).release());
        }
        Ref list(leaves.list->tp_alloc(leaves.list, 0));
        if (!list) throw PythonError();
        take_items(list.get(), items.get());
        slot(list.get(), leaves.td) = Py_NewRef(stack_);
        slot(list.get(), leaves.depth) = PyLong_FromSize_t(sizes_.size() - dim);
        slot(list.get(), leaves.place) = Py_NewRef(place);
        slot(list.get(), leaves.check) = Py_NewRef(check_);
        return list;
    }

private:
    PyObject* object(int64_t code) const {
        if (code < 0 || code >= PyTuple_GET_SIZE(objects_)) throw NotNative();
        return PyTuple_GET_ITEM(objects_, code);
    }

    Ref below(const int64_t* codes, size_t dim, PyObject* place, int64_t at) const {
        const Py_ssize_t count = PyTuple_GET_SIZE(place);
        Ref longer(PyTuple_New(count + 1));
        if (!longer) throw PythonError();
        for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(longer.get(), i, Py_NewRef(PyTuple_GET_ITEM(place, i)));
        PyTuple_SET_ITEM(longer.get(), count, PyLong_FromLongLong(at));
        return made(codes, dim, longer.get());
    }

    // Move the items of a plain list into a new list of a subclass, which has none.
    static void take_items(PyObject* list, PyObject* plain) {
        auto* to = reinterpret_cast<PyListObject*>(list);
        auto* from = reinterpret_cast<PyListObject*>(plain);
        std::swap(to->ob_item, from->ob_item);
        std::swap(to->allocated, from->allocated);
        Py_SET_SIZE(to, Py_SIZE(from));
        Py_SET_SIZE(from, 0);
    }

    PyObject *stack_, *check_, *objects_;
    c10::IntArrayRef sizes_, strides_;
};

// linked_lists(stack, check): the objects of a NonTensorStack as a LinkedList with this check, or None.
inline PyObject* py_linked_lists(PyObject*, PyObject* const* args, Py_ssize_t) {
    PyObject* stack = args[0];
    if (!is_stack(stack) || !is_made(stack) || !PyTuple_CheckExact(slot(stack, leaves.objects))) Py_RETURN_NONE;
    return attempt([&] {
        PyObject* tensor = tensor_of(stack, leaves.codes);
        if (tensor == nullptr) throw NotNative();
        const at::Tensor codes = THPVariable_Unpack(tensor);
        if (codes.dim() == 0 || codes.scalar_type() != at::kLong || !has_own_memory(codes)) throw NotNative();
        return Lists(stack, args[1], codes).made(codes.const_data_ptr<int64_t>(), 0, bound.empty);
    });
}

// The stacks, or objects, at the positions of a dimension of a stack, as a tuple; null for other leaves.
inline Ref unbound(PyObject* stack, int64_t dim) {
    if (!is_stack(stack) || !is_made(stack) || has_names(stack)) return Ref();
    PyObject* tensor = tensor_of(stack, leaves.codes);
    if (tensor == nullptr) return Ref();
    std::vector<at::Tensor> codes = at::unbind(THPVariable_Unpack(tensor), dim);
    Ref rows(PyTuple_New(static_cast<Py_ssize_t>(codes.size())));
    if (!rows) throw PythonError();
    for (size_t i = 0; i < codes.size(); ++i) {
        PyTuple_SET_ITEM(rows.get(), static_cast<Py_ssize_t>(i), stack_like(stack, std::move(codes[i])).release());
    }
    return rows;
}

// object_of(object, batch size, device, names): NonTensorData. Nothing is checked.
inline PyObject* py_object_of(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (leaves.object == nullptr || count != 4) Py_RETURN_NONE;
    try {
        return object_of(args[0], args[1], args[2], args[3]).release();
    } catch (const PythonError&) {
        return nullptr;
    }
}

// unbind_stack(stack, dim): the stacks, or objects, at the positions of a dimension, which is in range; or None.
inline PyObject* py_unbind_stack(PyObject*, PyObject* const* args, Py_ssize_t) {
    return attempt([&] {
        Ref rows = unbound(args[0], as_int(args[1]));
        return rows ? std::move(rows) : Ref::borrowed(Py_None);
    });
}

// Whether all objects of a tuple are equal. Nothing: some are no strings, which are compared in Python.
inline std::optional<bool> all_equal(PyObject* objects) {
    PyObject* first = PyTuple_GET_ITEM(objects, 0);
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(objects); ++i) {
        PyObject* object = PyTuple_GET_ITEM(objects, i);
        if (object == first) continue;
        if (!PyUnicode_CheckExact(object) || !PyUnicode_CheckExact(first)) return std::nullopt;
        const int order = PyUnicode_Compare(object, first);
        if (order == -1 && PyErr_Occurred() != nullptr) throw PythonError();
        if (order != 0) return false;
    }
    return true;
}

// Codes that count along one dimension and are the same along the others.
inline at::Tensor codes_along(int64_t dim, const Sizes& size) {
    if (c10::impl::TorchDispatchModeTLS::stack_len() > 0) throw NotNative();
    Sizes strides(size.size(), 0);
    strides[dim] = 1;
    at::Tensor codes = at::empty_strided(size, strides, at::kLong);
    int64_t* data = codes.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < (codes.numel() > 0 ? size[dim] : 0); ++i) data[i] = i;
    return codes;
}

// Single objects in a list, stacked along a dimension: one object, if all are equal; null for other leaves.
inline Ref stacked(PyObject* list, int64_t dim) {
    static PyObject* captures = PyUnicode_InternFromString("_captures");
    const Py_ssize_t count = PyList_GET_SIZE(list);
    PyObject* first = PyList_GET_ITEM(list, 0);
    const Ref objects(PyTuple_New(count));
    if (!objects) throw PythonError();
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* leaf = PyList_GET_ITEM(list, i);
        if (!is_object(leaf) || !is_made(leaf) || has_names(leaf)) return Ref();
        PyObject* held = slot(leaf, leaves.objects);
        if (!PyTuple_CheckExact(held) || PyTuple_GET_SIZE(held) != 1) return Ref();
        if (batch_size_of(leaf) != batch_size_of(first) &&
            PyObject_RichCompareBool(batch_size_of(leaf), batch_size_of(first), Py_EQ) != 1) {
            return Ref();
        }
        PyTuple_SET_ITEM(objects.get(), i, Py_NewRef(PyTuple_GET_ITEM(held, 0)));
    }
    Sizes size = sizes_of(batch_size_of(first));
    if (dim > static_cast<int64_t>(size.size())) return Ref();
    size.insert(size.begin() + dim, count);
    const std::optional<bool> equal = all_equal(objects.get());
    if (!equal) return Ref();
    if (*equal) {
        const Ref one(PyObject_CallMethodNoArgs(first, captures));
        if (!one) throw PythonError();
        if (one.get() == Py_True) return object_like(first, as_size(size).get());
    }
    return stack_of(objects.get(), codes_along(dim, size), slot(first, bound.device), Py_None);
}

inline PyTypeObject* as_type(PyObject* cls) {
    if (!PyType_Check(cls)) throw NotNative();
    return reinterpret_cast<PyTypeObject*>(Py_NewRef(cls));
}

// bind_objects(NonTensorData, NonTensorStack, LinkedList, key of the codes)
inline PyObject* py_bind_objects(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 4) Py_RETURN_NONE;
    return attempt([&] {
        leaves.objects = offset_of(args[0], "_objects");
        leaves.metadata = offset_of(args[0], "_metadata");
        leaves.check = offset_of(args[2], "_check");
        leaves.depth = offset_of(args[2], "_depth");
        leaves.place = offset_of(args[2], "_place");
        leaves.td = offset_of(args[2], "_td");
        leaves.list = as_type(args[2]);
        leaves.codes = Py_NewRef(args[3]);
        leaves.object = as_type(args[0]);
        leaves.stack = as_type(args[1]);
        return Ref::borrowed(Py_None);
    });
}

// bind_column(class, key of the spans, whether it is Text; else it is Ragged)
inline PyObject* py_bind_column(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 3) Py_RETURN_NONE;
    return attempt([&] {
        leaves.items = offset_of(args[0], "_items");
        leaves.is_compact = offset_of(args[0], "_is_compact");
        leaves.room = offset_of(args[0], "_room");
        leaves.spans = Py_NewRef(args[1]);
        (args[2] == Py_True ? leaves.text : leaves.ragged) = as_type(args[0]);
        return Ref::borrowed(Py_None);
    });
}

inline PyMethodDef leaf_methods[] = {
    METHOD(bind_objects), METHOD(bind_column), METHOD(object_of), METHOD(linked_lists), METHOD(unbind_stack),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace tensorclass
