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
};
extern Leaves leaves;

inline bool is_object(PyObject* value) { return leaves.object != nullptr && Py_TYPE(value) == leaves.object; }
inline bool is_stack(PyObject* value) { return leaves.stack != nullptr && Py_TYPE(value) == leaves.stack; }
inline bool is_column(PyObject* value) {
    return leaves.spans != nullptr && (Py_TYPE(value) == leaves.text || Py_TYPE(value) == leaves.ragged);
}

inline bool is_made(PyObject* leaf) {
    PyObject *store = store_of(leaf), *size = batch_size_of(leaf);
    return store != nullptr && PyDict_CheckExact(store) && size != nullptr && PyTuple_Check(size) &&
           slot(leaf, bound.device) != nullptr && slot(leaf, bound.names) != nullptr;
}

// The tensor of a leaf; undefined where it is no plain one.
inline at::Tensor tensor_of(PyObject* leaf, PyObject* key) {
    const Ref value = lookup(store_of(leaf), key);
    return value && is_tensor(value.get()) ? THPVariable_Unpack(value.get()) : at::Tensor();
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
    const Ref size = Ref::borrowed(batch_size), own_device = Ref::borrowed(device), own_names = Ref::borrowed(names);
    Ref objects(PyTuple_Pack(1, object));
    const Ref store(PyDict_New());
    if (!objects || !store) throw PythonError();
    Ref made = make_of(leaves.object, store.get(), size.get(), own_device.get(), own_names.get());
    slot(made.get(), leaves.objects) = objects.release();
    slot(made.get(), leaves.metadata) = Py_NewRef(Py_None);
    return made;
}

// The object at one code, without batch dimensions.
inline Ref object_at(PyObject* stack, int64_t code) {
    const Ref objects = Ref::borrowed(slot(stack, leaves.objects));
    const Ref object(objects ? PySequence_GetItem(objects.get(), code) : nullptr);
    if (!object) throw PythonError();
    return object_of(object.get(), bound.no_dims, slot(stack, bound.device), Py_None);
}

inline Ref stack_of(const Ref& objects, at::Tensor codes, const Ref& device, const Ref& metadata) {
    const Ref size = as_size(codes.sizes());
    const Ref store = store_with(leaves.codes, std::move(codes));
    Ref made = make_of(leaves.stack, store.get(), size.get(), device.get(), Py_None);
    slot(made.get(), leaves.objects) = Py_NewRef(objects.get());
    slot(made.get(), leaves.metadata) = Py_XNewRef(metadata.get());
    return made;
}

// A stack of the same objects with other codes; one object where these have no dimensions.
inline Ref stack_like(PyObject* stack, at::Tensor codes) {
    if (codes.dim() == 0) {
        if (!has_own_memory(codes) || codes.scalar_type() != at::kLong) throw NotNative();
        return object_at(stack, read_once(codes.const_data_ptr<int64_t>()));
    }
    const Ref objects = Ref::borrowed(slot(stack, leaves.objects));
    if (!objects) throw NotNative();
    return stack_of(objects, std::move(codes), Ref::borrowed(slot(stack, bound.device)),
                    Ref::borrowed(slot(stack, leaves.metadata)));
}

// A column over the same items with other spans.
inline Ref column_like(PyObject* column, at::Tensor spans) {
    if (spans.dim() == 0) throw NotNative();
    const Ref size = as_size(spans.sizes().slice(0, spans.dim() - 1));
    const Ref store = store_with(leaves.spans, std::move(spans));
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
    if (object) return object_like(leaf, by.size(batch_size_of(leaf)).get());
    const at::Tensor given = tensor_of(leaf, stack ? leaves.codes : leaves.spans);
    if (!given.defined() || !by.takes(given)) return Ref();
    return stack ? stack_like(leaf, by(given)) : column_like(leaf, by.rows(given));
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

// Single objects, stacked along a dimension: one object, if all are equal; null for other leaves.
inline Ref stacked(c10::ArrayRef<PyObject*> list, int64_t dim) {
    static PyObject* captures = interned("_captures");
    PyObject* first = list[0];
    const Ref objects(PyTuple_New(static_cast<Py_ssize_t>(list.size())));
    if (!objects) throw PythonError();
    for (size_t i = 0; i < list.size(); ++i) {
        PyObject* leaf = list[i];
        if (!is_object(leaf) || !is_made(leaf) || has_names(leaf)) return Ref();
        PyObject* held = slot(leaf, leaves.objects);
        if (held == nullptr || !PyTuple_CheckExact(held) || PyTuple_GET_SIZE(held) != 1) return Ref();
        if (!is_same_size(batch_size_of(leaf), batch_size_of(first))) return Ref();
        PyTuple_SET_ITEM(objects.get(), static_cast<Py_ssize_t>(i), Py_NewRef(PyTuple_GET_ITEM(held, 0)));
    }
    Sizes size = sizes_of(batch_size_of(first));
    if (dim > static_cast<int64_t>(size.size())) return Ref();
    size.insert(size.begin() + dim, static_cast<int64_t>(list.size()));
    const std::optional<bool> equal = all_equal(objects.get());
    if (!equal) return Ref();
    if (*equal) {
        const Ref one(PyObject_CallMethodNoArgs(first, captures));
        if (!one) throw PythonError();
        if (one.get() == Py_True) return object_like(first, as_size(size).get());
    }
    return stack_of(objects, codes_along(dim, size), Ref::borrowed(slot(first, bound.device)), Ref::borrowed(Py_None));
}

inline PyTypeObject* as_type(PyObject* cls) {
    if (!PyType_Check(cls)) throw NotNative();
    return reinterpret_cast<PyTypeObject*>(Py_NewRef(cls));
}

// bind_objects(NonTensorData, NonTensorStack, key of the codes)
inline PyObject* py_bind_objects(PyObject* const* args) {
    return attempt([&] {
        leaves.objects = offset_of(args[0], "_objects");
        leaves.metadata = offset_of(args[0], "_metadata");
        leaves.codes = Py_NewRef(args[2]);
        leaves.object = as_type(args[0]);
        leaves.stack = as_type(args[1]);
        return Ref::borrowed(Py_None);
    });
}

// bind_column(class, key of the spans, whether it is Text; else it is Ragged)
inline PyObject* py_bind_column(PyObject* const* args) {
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
    METHOD(bind_objects, 3), METHOD(bind_column, 3), END_OF_METHODS,
};

}  // namespace tensorclass
