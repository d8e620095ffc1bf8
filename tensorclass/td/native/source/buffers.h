// Collections whose tensors lie in one buffer: take the tensors out of a tree, put others in, and cut a buffer up.
#pragma once

#include "levels.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>

namespace tensorclass {

// tensors_of(collection): its dense tensors in order, as a list, or None if it has other values.
inline PyObject* py_tensors_of(PyObject* const* args) {
    if (!is_plain(args[0])) Py_RETURN_NONE;
    return attempt([&]() -> Ref {
        const Tree tree(args[0]);
        if (tree.has_others() || tree.has_names_below()) return Ref();
        Ref list(PyList_New(0));
        if (!list) throw PythonError();
        for (const Tree::Node& node : tree.nodes()) {
            if (node.kind != Tree::Kind::Tensor) continue;
            if (THPVariable_Unpack(node.value.get()).layout() != at::kStrided) return Ref();
            if (PyList_Append(list.get(), node.value.get()) != 0) throw PythonError();
        }
        return list;
    });
}

// with_tensors(collection, tensors): the same tree with the tensors of a list, in the order of tensors_of; or None.
inline PyObject* py_with_tensors(PyObject* const* args) {
    if (!is_plain(args[0]) || !PyList_CheckExact(args[1])) Py_RETURN_NONE;
    return attempt([&] {
        const Tree tree(args[0]);
        if (tree.has_others() || tree.has_names_below()) throw NotNative();
        Tensors tensors;
        for (PyObject* tensor : Items(args[1])) {
            if (!THPVariable_Check(tensor)) throw NotNative();
            tensors.push_back(THPVariable_Unpack(tensor));
        }
        return tree.rebuilt(tensors, Kept());
    });
}

// placed(collection, device, non_blocking): a collection of tensors alone on a device, which becomes its own; or None.
inline PyObject* py_placed(PyObject* const* args) {
    if (!is_plain(args[0]) || !THPDevice_Check(args[1])) Py_RETURN_NONE;
    return attempt([&] {
        const at::Device device = reinterpret_cast<THPDevice*>(args[1])->device;
        if (!device.is_cpu() && !device.is_meta()) throw NotNative();  // torch's Python code starts the others
        const bool non_blocking = args[2] == Py_True;
        const Level level(args[0]);
        const Ref store(PyDict_Copy(store_of(args[0])));
        if (!store) throw PythonError();
        for (const auto& [key, value] : Entries(store.get())) {
            if (!is_tensor(value)) throw NotNative();
            const at::Tensor tensor = THPVariable_Unpack(value);
            if (tensor.device() == device) continue;
            at::Tensor moved;
            run_kernels(true, [&] { moved = tensor.to(device, tensor.scalar_type(), non_blocking); });
            put(store.get(), key, wrap(std::move(moved)).get());
        }
        return make_of(Py_TYPE(args[0]), store.get(), level.size.get(), args[1], level.names.get());
    });
}

// views_of(memory, spans): the tensors at spans, a list of (dtype, shape, first byte), in a buffer of one dimension.
//
// They share the memory, but are no views of it to autograd.
inline PyObject* py_views_of(PyObject* const* args) {
    if (!is_tensor(args[0]) || !PyList_CheckExact(args[1])) Py_RETURN_NONE;
    return attempt([&] {
        const at::Tensor memory = THPVariable_Unpack(args[0]);
        if (memory.dim() != 1 || !memory.is_contiguous() || memory.storage_offset() != 0 || is_wrapper(memory)) throw NotNative();
        const Items spans(args[1]);
        const Py_ssize_t count = static_cast<Py_ssize_t>(spans.size());
        const int64_t bytes = memory.numel() * memory.element_size();
        Ref list(PyList_New(count));
        if (!list) throw PythonError();
        const at::AutoDispatchBelowADInplaceOrView below_autograd;
        at::Tensor flat = memory;  // of the dtype of the last tensor
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyObject* span = spans[i];
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
                step = times(step, std::max<int64_t>(sizes[dim], 1));
            }
            const int64_t start = as_int(PyTuple_GET_ITEM(span, 2)) / item;
            PyList_SET_ITEM(list.get(), i, wrap(flat.as_strided(sizes, strides, start)).release());
        }
        return list;
    });
}

inline PyMethodDef buffer_methods[] = {
    METHOD(tensors_of, 1), METHOD(with_tensors, 2), METHOD(placed, 3), METHOD(views_of, 2), END_OF_METHODS};

}  // namespace tensorclass
