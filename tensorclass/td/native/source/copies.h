// Copies, casts and moves: clone, detach, contiguous, zeros_like, to, double, ...
#pragma once

#include "pointwise.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>

namespace tensorclass {

// Set how a `with` statement undoes an operation: `arguments` are those of the inverse.
inline void set_inverse(PyObject* result, PyObject* source, PyObject* inverse, PyObject* arguments) {
    const Py_ssize_t count = PyTuple_GET_SIZE(arguments);
    Ref reference(PyWeakref_NewRef(source, nullptr)), context(PyTuple_New(3 + count));
    if (!reference || !context) throw PythonError();
    PyTuple_SET_ITEM(context.get(), 0, Py_NewRef(bound.empty));
    PyTuple_SET_ITEM(context.get(), 1, Py_NewRef(inverse));
    PyTuple_SET_ITEM(context.get(), 2, reference.release());
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyTuple_SET_ITEM(context.get(), 3 + i, Py_NewRef(PyTuple_GET_ITEM(arguments, i)));
    }
    Py_XSETREF(slot(result, bound.context), context.release());
}

// -- casts ------------------------------------------------------------------------------------------------------------

template <class From, class To>
Tensor converted(const Tensor& value) {
    Tensor result = new_tensor(value.sizes(), c10::CppTypeToScalarType<To>::value);
    const From* given = value.const_data_ptr<From>();
    To* made = result.mutable_data_ptr<To>();
    const int64_t count = value.numel();
    for (int64_t i = 0; i < count; ++i) made[i] = static_cast<To>(given[i]);
    return result;
}

inline Tensor cast(const Tensor& value, at::ScalarType dtype, bool unrecorded) {
    if (value.scalar_type() == dtype) return value;
    if (unrecorded && is_small_real(value)) {
        if (dtype == at::kDouble) return converted<float, double>(value);
        if (dtype == at::kFloat) return converted<double, float>(value);
    }
    return value.to(dtype);
}

inline bool is_inexact(at::ScalarType dtype) { return at::isFloatingType(dtype) || at::isComplexType(dtype); }

// A cast of all levels, as `to` and `type` do it; see td/devices.py.
struct Cast {
    at::ScalarType dtype;
    bool unrecorded = false;
    PyObject* inverse = nullptr;  // null: levels have none

    // Records keep integers if the dtype is floating or complex, also in what they contain.
    static bool casts_integers(PyObject* collection) {
        static PyObject* name = PyUnicode_InternFromString("_CASTS_INTEGERS");
        return _PyType_Lookup(Py_TYPE(collection), name) == Py_True;
    }

    Ref operator()(PyObject* source, const bool integers = true) const {
        const bool all = (integers && casts_integers(source)) || !is_inexact(dtype);
        Ref store(PyDict_New());
        if (!store) throw PythonError();
        Py_ssize_t position = 0;
        PyObject *key, *value;
        while (PyDict_Next(store_of(source), &position, &key, &value)) {
            if (is_tensor(value)) {
                const Tensor& tensor = THPVariable_Unpack(value);
                const bool kept = !all && !is_inexact(tensor.scalar_type());
                put(store.get(), key, kept ? value : wrap(cast(tensor, dtype, unrecorded)).get());
            } else if (is_collection(value) && is_plain(value)) {
                Ref made = (*this)(value, all);
                if (all && inverse != nullptr) set_inverse(made.get(), value, inverse, bound.empty);
                put(store.get(), key, made.get());
            } else {
                throw NotNative();
            }
        }
        return make(source, store.get(), batch_size_of(source), slot(source, bound.names));
    }
};

// With the inverse of `to`, or without one as `type`.
inline Ref cast_all(PyObject* collection, PyObject* dtype, PyObject* inverse) {
    Tensors tensors;
    if (!collect_all(collection, tensors)) return Ref();
    const bool unrecorded = are_calls_unseen() && are_untracked(tensors);
    const Unrecorded guard(unrecorded);
    Ref result = Cast{reinterpret_cast<THPDtype*>(dtype)->scalar_type, unrecorded, inverse}(collection);
    if (inverse != nullptr) set_inverse(result.get(), collection, inverse, bound.empty);
    return result;
}

// -- moves ------------------------------------------------------------------------------------------------------------

// `collection.to("cpu")` of tensors that are there, without nested collections. False: it is something else.
inline Ref placed_on_cpu(PyObject* collection, PyObject* inverse) {
    PyObject* before = slot(collection, bound.device);
    if (before != Py_None && reinterpret_cast<THPDevice*>(before)->device == at::Device(at::kCPU)) {
        return Ref::borrowed(collection);
    }
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(store_of(collection), &position, &key, &value)) {
        if (!is_tensor(value) || !THPVariable_Unpack(value).device().is_cpu()) return Ref();
    }
    static PyObject* cpu = THPDevice_New(at::Device(at::kCPU));
    Ref store(PyDict_Copy(store_of(collection)));
    if (!store || cpu == nullptr) throw PythonError();
    Ref result = make(collection, store.get(), batch_size_of(collection), slot(collection, bound.names));
    Py_INCREF(cpu);
    Py_XSETREF(slot(result.get(), bound.device), cpu);
    set_inverse(result.get(), collection, inverse, bound.empty);
    return result;
}

// moved(collection, target, inverse): `collection.to(target)` for a dtype or the CPU.
inline PyObject* py_moved(PyObject*, PyObject* const* args, Py_ssize_t) {
    if (!is_plain(args[0])) Py_RETURN_NONE;
    return attempt_known([&]() -> Ref {
        PyObject* target = args[1];
        if (THPDtype_Check(target)) return cast_all(args[0], target, args[2]);
        const bool cpu = PyUnicode_Check(target)
                             ? PyUnicode_CompareWithASCIIString(target, "cpu") == 0
                             : THPDevice_Check(target) &&
                                   reinterpret_cast<THPDevice*>(target)->device == at::Device(at::kCPU);
        return cpu ? placed_on_cpu(args[0], args[2]) : Ref();
    });
}

// retyped(collection, dtype): `collection.type(dtype)`.
inline PyObject* py_retyped(PyObject*, PyObject* const* args, Py_ssize_t) {
    if (!is_plain(args[0]) || !THPDtype_Check(args[1])) Py_RETURN_NONE;
    return attempt_known([&] { return cast_all(args[0], args[1], nullptr); });
}

// detach(collection).
inline PyObject* py_detach(PyObject*, PyObject* const* args, Py_ssize_t) {
    if (!is_plain(args[0])) Py_RETURN_NONE;
    return attempt_known([&]() -> Ref {
        Tensors tensors;
        if (!collect_all(args[0], tensors)) return Ref();
        for (Tensor& tensor : tensors) tensor = tensor.detach();
        return same(args[0], tensors);
    });
}

// contiguous(collection): tensors that are contiguous already are shared.
inline PyObject* py_contiguous(PyObject*, PyObject* const* args, Py_ssize_t) {
    if (!is_plain(args[0])) Py_RETURN_NONE;
    return attempt_known([&]() -> Ref {
        Tensors tensors;
        if (!collect_all(args[0], tensors)) return Ref();
        for (Tensor& tensor : tensors) tensor = tensor.contiguous();
        return same(args[0], tensors);
    });
}

inline PyMethodDef copy_methods[] = {METHOD(contiguous), METHOD(detach), METHOD(moved), METHOD(retyped),
                                     {nullptr, nullptr, 0, nullptr}};

}  // namespace tensorclass
