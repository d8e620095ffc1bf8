// Collections whose tensors lie in one buffer: take the tensors out of a tree, put others in, and cut a buffer up.
#pragma once

#include "collections.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>

namespace tensorclass {

// Append the tensors of all levels to a list. False: there are other values, or tensors that are not dense.
inline bool list_tensors(PyObject* collection, PyObject* list) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(store_of(collection), &position, &key, &value)) {
        if (is_tensor(value)) {
            if (THPVariable_Unpack(value).layout() != at::kStrided) return false;
            if (PyList_Append(list, value) != 0) throw PythonError();
        } else if (!is_collection(value) || !is_plain(value) || has_names(value) || !list_tensors(value, list)) {
            return false;
        }
    }
    return true;
}

// tensors_of(collection): its dense tensors in order, as a list, or None if it has other values.
inline PyObject* py_tensors_of(PyObject*, PyObject* const* args, Py_ssize_t) {
    if (!is_collection(args[0]) || !is_plain(args[0])) Py_RETURN_NONE;
    return attempt([&] {
        Ref list(PyList_New(0));
        if (!list) throw PythonError();
        return list_tensors(args[0], list.get()) ? std::move(list) : Ref::borrowed(Py_None);
    });
}

// The same tree: only its tensors are others.
struct SameTree {
    Ref size(PyObject* collection) const { return Ref::borrowed(batch_size_of(collection)); }
    Ref other(PyObject*) const { throw NotNative(); }
    void done(PyObject*, PyObject*) const {}
};

// with_tensors(collection, tensors): the same tree with the tensors of a list, in the order of tensors_of; or None.
inline PyObject* py_with_tensors(PyObject*, PyObject* const* args, Py_ssize_t) {
    if (!is_collection(args[0]) || !is_plain(args[0]) || !PyList_CheckExact(args[1])) Py_RETURN_NONE;
    return attempt([&] {
        Tensors before, tensors;
        collect(args[0], before, false);
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[1]); ++i) {
            PyObject* tensor = PyList_GET_ITEM(args[1], i);
            if (!THPVariable_Check(tensor)) throw NotNative();
            tensors.push_back(THPVariable_Unpack(tensor));
        }
        if (before.size() != tensors.size()) throw NotNative();
        size_t next = 0;
        return build(args[0], tensors, next, SameTree(), slot(args[0], bound.names));
    });
}

// placed(collection, device, non_blocking): a collection of tensors alone on a device, which becomes its own; or None.
inline PyObject* py_placed(PyObject*, PyObject* const* args, Py_ssize_t) {
    if (!is_plain(args[0]) || !THPDevice_Check(args[1])) Py_RETURN_NONE;
    return attempt([&] {
        const at::Device device = reinterpret_cast<THPDevice*>(args[1])->device;
        if (!device.is_cpu() && !device.is_meta()) throw NotNative();  // torch's Python code starts the others
        const bool non_blocking = args[2] == Py_True;
        const Ref store(PyDict_Copy(store_of(args[0])));
        if (!store) throw PythonError();
        Py_ssize_t position = 0;
        PyObject *key, *value;
        while (PyDict_Next(store.get(), &position, &key, &value)) {
            if (!is_tensor(value)) throw NotNative();
            const at::Tensor& tensor = THPVariable_Unpack(value);
            if (tensor.device() == device) continue;
            at::Tensor moved;
            {
                const pybind11::gil_scoped_release without_lock;
                moved = tensor.to(device, tensor.scalar_type(), non_blocking);
            }
            put(store.get(), key, wrap(std::move(moved)).get());
        }
        Ref made = make(args[0], store.get(), batch_size_of(args[0]), slot(args[0], bound.names));
        Py_XSETREF(slot(made.get(), bound.device), Py_NewRef(args[1]));
        return made;
    });
}

// views_of(memory, spans): the tensors at spans, a list of (dtype, shape, first byte), in a buffer of one dimension.
//
// They share the memory, but are no views of it to autograd.
inline PyObject* py_views_of(PyObject*, PyObject* const* args, Py_ssize_t) {
    if (!is_tensor(args[0]) || !PyList_CheckExact(args[1])) Py_RETURN_NONE;
    return attempt([&] {
        const at::Tensor memory = THPVariable_Unpack(args[0]);
        if (memory.dim() != 1 || !memory.is_contiguous() || memory.storage_offset() != 0 || is_wrapper(memory)) throw NotNative();
        const Py_ssize_t count = PyList_GET_SIZE(args[1]);
        const int64_t bytes = memory.numel() * memory.element_size();
        Ref list(PyList_New(count));
        if (!list) throw PythonError();
        const at::AutoDispatchBelowADInplaceOrView below_autograd;
        at::Tensor flat = memory;  // of the dtype of the last tensor
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyObject* span = PyList_GET_ITEM(args[1], i);
            if (!PyTuple_Check(span) || PyTuple_GET_SIZE(span) != 3) throw NotNative();
            PyObject *dtype = PyTuple_GET_ITEM(span, 0), *shape = PyTuple_GET_ITEM(span, 1);
            if (!THPDtype_Check(dtype) || !PyTuple_Check(shape)) throw NotNative();
            const auto type = reinterpret_cast<THPDtype*>(dtype)->scalar_type;
            const int64_t item = static_cast<int64_t>(c10::elementSize(type));
            if (flat.scalar_type() != type) {
                flat = memory;
                if (bytes % item != 0) flat = flat.view(at::kByte).slice(0, 0, bytes / item * item);
                flat = flat.view(type);
            }
            const Sizes sizes = sizes_of(shape);
            Sizes strides(sizes.size(), 1);
            int64_t step = 1;
            for (size_t dim = sizes.size(); dim-- > 0;) {
                strides[dim] = step;
                step *= std::max<int64_t>(sizes[dim], 1);
            }
            const int64_t start = as_int(PyTuple_GET_ITEM(span, 2)) / item;
            PyList_SET_ITEM(list.get(), i, wrap(flat.as_strided(sizes, strides, start)).release());
        }
        return list;
    });
}

inline PyMethodDef buffer_methods[] = {
    METHOD(tensors_of), METHOD(with_tensors), METHOD(placed), METHOD(views_of), {nullptr, nullptr, 0, nullptr}};

}  // namespace tensorclass
