// Copies, casts and moves: clone, detach, contiguous, zeros_like, to, double, ...
#pragma once

#include "pointwise.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>

namespace tensorclass {

// -- casts ------------------------------------------------------------------------------------------------------------

template <class From, class To>
Tensor converted(const Tensor& value) {
    Tensor result = new_tensor(value.sizes(), c10::CppTypeToScalarType<To>::value);
    std::copy_n(value.const_data_ptr<From>(), value.numel(), result.mutable_data_ptr<To>());
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

// Records keep integers if the dtype is floating or complex, also in what they contain.
inline bool casts_integers(PyObject* collection) {
    static PyObject* name = interned("_CASTS_INTEGERS");
    return _PyType_Lookup(Py_TYPE(collection), name) == Py_True;
}

// A cast of all levels, as `to` (with an inverse) and `type` (without one) do it; see td/devices.py.
class Cast : public Kept {
public:
    Cast(const Tree& tree, at::ScalarType dtype, PyObject* inverse) : inverse_(inverse) {
        for (const Level& level : tree.levels()) {
            const bool all = whole_.empty() || whole_[level.above];
            whole_.push_back((all && casts_integers(level.collection.get())) || !is_inexact(dtype));
        }
    }
    // Whether a tensor of a level is cast.
    bool takes(uint32_t level, at::ScalarType dtype) const { return whole_[level] || is_inexact(dtype); }

    void done(PyObject* result, const Level& level) const {
        if (inverse_ == nullptr || (!level.is_root() && !whole_[level.above])) return;
        set_inverse(result, level.collection.get(), inverse_);
    }

private:
    PyObject* inverse_;
    std::vector<bool> whole_;  // of each level: whether integers are cast, too
};

inline Ref cast_all(PyObject* collection, PyObject* given, PyObject* inverse) {
    const at::ScalarType dtype = reinterpret_cast<THPDtype*>(given)->scalar_type;
    TensorTree tree(collection);
    const Cast shape(tree, dtype, inverse);
    c10::SmallVector<size_t, 8> positions;  // of the tensors that are cast
    size_t next = 0;
    for (const Tree::Node& node : tree.nodes()) {
        if (node.kind != Tree::Kind::Tensor) continue;
        const at::ScalarType own = tree.values[next].scalar_type();
        if (own != dtype && shape.takes(node.level, own)) positions.push_back(next);
        ++next;
    }
    run_kernels(!positions.empty(), [&] {
        const bool unrecorded = are_calls_unseen() && are_all(tree.values, is_untracked);
        std::optional<at::AutoDispatchBelowADInplaceOrView> without_autograd;
        if (unrecorded) without_autograd.emplace();
        for (const size_t at : positions) tree.values[at] = cast(tree.values[at], dtype, unrecorded);
    });
    return tree.rebuilt(tree.values, shape);
}

// `collection.to("cpu")` of tensors that are there, without nested collections.
inline Ref on_cpu(PyObject* collection) {
    static PyObject* cpu = owned(THPDevice_New(at::Device(at::kCPU))).release();
    PyObject* before = slot(collection, bound.device);
    if (THPDevice_Check(before) && reinterpret_cast<THPDevice*>(before)->device == at::Device(at::kCPU)) {
        return Ref::borrowed(collection);
    }
    const Level level(collection);
    Ref store = changed_copy(store_of(collection), [](PyObject*, PyObject* value) {
        return is_tensor(value) && THPVariable_Unpack(value).is_cpu() ? Ref::borrowed(value) : Ref();
    });
    if (!store) return Ref();
    Ref result = make(Py_TYPE(collection), std::move(store), level.size.copy(), Ref::borrowed(cpu), level.names.copy());
    set_inverse(result.get(), collection, bound.cast);
    return result;
}

// -- methods ----------------------------------------------------------------------------------------------------------

// clone(collection).
inline Ref clone(const Arguments& args) {
    static const Function& by = functions().at("clone");
    return computed(args[0], by);
}

// to(collection, target), for a dtype or the CPU. A locked collection may be one piece of memory: Python copies it whole.
inline Ref to(const Arguments& args) {
    PyObject* target = args[1];
    if (is_locked(args[0])) return Ref();
    if (THPDtype_Check(target)) return cast_all(args[0], target, bound.cast);
    const bool cpu = PyUnicode_Check(target)
                         ? PyUnicode_CompareWithASCIIString(target, "cpu") == 0
                         : THPDevice_Check(target) &&
                               reinterpret_cast<THPDevice*>(target)->device == at::Device(at::kCPU);
    return cpu ? on_cpu(args[0]) : Ref();
}

// type(collection, dtype).
inline Ref type(const Arguments& args) {
    return is_locked(args[0]) || !THPDtype_Check(args[1]) ? Ref() : cast_all(args[0], args[1], nullptr);
}

// detach(collection).
inline Ref detach(const Arguments& args) {
    TensorTree tree(args[0]);
    for (Tensor& value : tree.values) value = value.detach();
    return tree.result();
}

// contiguous(collection): tensors that are contiguous already are shared.
inline Ref contiguous(const Arguments& args) {
    TensorTree tree(args[0]);
    run_kernels(!are_contiguous(tree.values), [&] {
        for (Tensor& value : tree.values) value = value.contiguous();
    });
    return tree.result();
}

inline PyMethodDef copy_methods[] = {OPERATION(clone, 1), OPERATION(contiguous, 1), OPERATION(detach, 1),
                                     OPERATION(to, 2),    OPERATION(type, 2),       END_OF_METHODS};

}  // namespace tensorclass
