// Leaves whose rows are described by one tensor, or by none: one object, a stack of objects (codes), text and ragged
// rows (spans). An index acts on that tensor; the objects and the items are shared.
#pragma once

#include "tensors.h"

namespace tensorclass {

struct Leaves {
    PyTypeObject *object, *stack;    // NonTensorData, NonTensorStack
    PyTypeObject *text, *ragged;
    PyObject *codes, *spans;         // the keys of the tensors
    Py_ssize_t objects, metadata;    // slots of NonTensorData and NonTensorStack
    Py_ssize_t items, is_compact, room;  // slots of columns
};
inline Leaves leaves{};

inline bool is_object(PyObject* value) { return leaves.object != nullptr && Py_TYPE(value) == leaves.object; }
inline bool is_stack(PyObject* value) { return leaves.stack != nullptr && Py_TYPE(value) == leaves.stack; }
inline bool is_column(PyObject* value) {
    return leaves.spans != nullptr && (Py_TYPE(value) == leaves.text || Py_TYPE(value) == leaves.ragged);
}

inline Ref slot_of(PyObject* leaf, Py_ssize_t offset) { return Ref::borrowed(slot(leaf, offset)); }

// The tensor behind a leaf as the only value of a new store.
inline Ref store_with(PyObject* key, at::Tensor tensor) {
    Ref store = owned(PyDict_New());
    put(store.get(), key, wrap(std::move(tensor)).get());
    return store;
}

// A leaf that holds objects; without codes it is one object.
inline Ref holder(PyTypeObject* cls, Ref objects, Ref metadata, Ref batch_size, Ref device, Ref store = Ref()) {
    if (!store) store = owned(PyDict_New());
    Ref made = make(cls, std::move(store), std::move(batch_size), std::move(device));
    slot(made.get(), leaves.objects) = objects.release();
    slot(made.get(), leaves.metadata) = metadata.release();
    return made;
}
inline Ref object_like(PyObject* leaf, Ref batch_size) {
    return holder(Py_TYPE(leaf), slot_of(leaf, leaves.objects), slot_of(leaf, leaves.metadata), std::move(batch_size),
                  slot_of(leaf, bound.device));
}
inline Ref stack_of(Ref objects, Ref metadata, at::Tensor codes, Ref device) {
    Ref size = as_size(codes.sizes());
    return holder(leaves.stack, std::move(objects), std::move(metadata), std::move(size), std::move(device),
                  store_with(leaves.codes, std::move(codes)));
}

// A stack of the same objects with other codes; one object where these have no dimensions.
inline Ref stack_like(PyObject* stack, at::Tensor codes) {
    Ref objects = slot_of(stack, leaves.objects), device = slot_of(stack, bound.device);
    if (!objects) throw NotNative();
    if (codes.dim() > 0) {
        return stack_of(std::move(objects), slot_of(stack, leaves.metadata), std::move(codes), std::move(device));
    }
    if (!has_own_memory(codes) || codes.scalar_type() != at::kLong) throw NotNative();
    const Ref object = owned(PySequence_GetItem(objects.get(), read_once(codes.const_data_ptr<int64_t>())));
    return holder(leaves.object, owned(PyTuple_Pack(1, object.get())), none(), Ref::borrowed(bound.no_dims),
                  std::move(device));
}

// A column over the same items with other spans.
inline Ref column_like(PyObject* column, at::Tensor spans) {
    if (spans.dim() == 0) throw NotNative();
    Ref size = as_size(spans.sizes().slice(0, spans.dim() - 1)), store = store_with(leaves.spans, std::move(spans));
    Ref made = make(Py_TYPE(column), std::move(store), std::move(size), slot_of(column, bound.device));
    slot(made.get(), leaves.items) = slot_of(column, leaves.items).release();
    slot(made.get(), leaves.is_compact) = Py_NewRef(Py_False);
    slot(made.get(), leaves.room) = Py_NewRef(Py_None);
    return made;
}

// A leaf indexed by what applies an index to tensors; null for other leaves, and those with names.
template <class By>
Ref leaf_at(PyObject* leaf, const By& by) {
    const bool object = is_object(leaf), stack = !object && is_stack(leaf);
    if ((!object && !stack && !is_column(leaf)) || !is_made(leaf) || has_names(leaf)) return Ref();
    if (object) return object_like(leaf, by.size(batch_size_of(leaf)));
    const Ref value = lookup(store_of(leaf), stack ? leaves.codes : leaves.spans);
    if (!value || !is_tensor(value.get()) || !by.takes(THPVariable_Unpack(value.get()))) return Ref();
    const at::Tensor given = THPVariable_Unpack(value.get());
    return stack ? stack_like(leaf, by(given)) : column_like(leaf, by.rows(given));
}

// Whether all objects of a tuple are equal strings. Nothing: some are neither strings nor the same object.
inline std::optional<bool> all_equal(PyObject* objects) {
    PyObject* first = PyTuple_GET_ITEM(objects, 0);
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(objects); ++i) {
        PyObject* object = PyTuple_GET_ITEM(objects, i);
        if (object == first) continue;
        if (!PyUnicode_CheckExact(object) || !PyUnicode_CheckExact(first)) return std::nullopt;
        if (PyUnicode_Compare(object, first) != 0) return false;
    }
    return true;
}

// Codes that count along one dimension and are the same along the others.
inline at::Tensor codes_along(int64_t dim, const Sizes& size) {
    if (has_dispatch_mode()) throw NotNative();
    Sizes strides(size.size(), 0);
    strides[dim] = 1;
    at::Tensor codes = at::empty_strided(size, strides, at::kLong);
    int64_t* data = codes.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < (codes.numel() > 0 ? size[dim] : 0); ++i) data[i] = i;
    return codes;
}

// Single objects, stacked along a dimension: one object, if all are equal; null for other leaves.
inline Ref stacked(Refs list, int64_t dim) {
    static PyObject* captures = interned("_captures");
    PyObject* first = list[0].get();
    Ref objects = owned(PyTuple_New(static_cast<Py_ssize_t>(list.size())));
    if (!is_object(first) || !is_made(first)) return Ref();
    Sizes size = sizes_of(batch_size_of(first));
    for (size_t i = 0; i < list.size(); ++i) {
        PyObject* leaf = list[i].get();
        if (!is_object(leaf) || !is_made(leaf) || has_names(leaf)) return Ref();
        PyObject* held = slot(leaf, leaves.objects);
        if (held == nullptr || !PyTuple_CheckExact(held) || PyTuple_GET_SIZE(held) != 1) return Ref();
        if (batch_size_of(leaf) != batch_size_of(first) && sizes_of(batch_size_of(leaf)) != size) return Ref();
        PyTuple_SET_ITEM(objects.get(), i, Py_NewRef(PyTuple_GET_ITEM(held, 0)));
    }
    if (dim > static_cast<int64_t>(size.size())) return Ref();
    size.insert(size.begin() + dim, static_cast<int64_t>(list.size()));
    const std::optional<bool> equal = all_equal(objects.get());
    if (!equal) return Ref();
    if (*equal) {
        const Ref one = owned(PyObject_CallMethodNoArgs(first, captures));
        if (one.get() == Py_True) return object_like(first, as_size(size));
    }
    Ref device = slot_of(first, bound.device);
    return stack_of(std::move(objects), none(), codes_along(dim, size), std::move(device));
}

// bind_objects(NonTensorData, NonTensorStack, key of the codes)
inline PyObject* py_bind_objects(PyObject*, PyObject* args) {
    PyTypeObject *object, *stack;
    PyObject* codes;
    if (!PyArg_ParseTuple(args, "O!O!O", &PyType_Type, &object, &PyType_Type, &stack, &codes)) return nullptr;
    if (!find_slots(object, {{"_objects", &leaves.objects}, {"_metadata", &leaves.metadata}})) return nullptr;
    leaves.codes = Py_NewRef(codes);
    leaves.object = reinterpret_cast<PyTypeObject*>(Py_NewRef(object));
    leaves.stack = reinterpret_cast<PyTypeObject*>(Py_NewRef(stack));
    Py_RETURN_NONE;
}

// bind_column(class, key of the spans, whether it is Text; else it is Ragged)
inline PyObject* py_bind_column(PyObject*, PyObject* args) {
    PyTypeObject* column;
    PyObject* spans;
    int text;
    if (!PyArg_ParseTuple(args, "O!Op", &PyType_Type, &column, &spans, &text)) return nullptr;
    if (!find_slots(column, {{"_items", &leaves.items}, {"_is_compact", &leaves.is_compact}, {"_room", &leaves.room}})) {
        return nullptr;
    }
    leaves.spans = Py_NewRef(spans);
    (text ? leaves.text : leaves.ragged) = reinterpret_cast<PyTypeObject*>(Py_NewRef(column));
    Py_RETURN_NONE;
}

inline PyMethodDef leaf_methods[] = {{"bind_objects", py_bind_objects, METH_VARARGS, nullptr},
                                     {"bind_column", py_bind_column, METH_VARARGS, nullptr},
                                     END_OF_METHODS};

}  // namespace tensorclass
