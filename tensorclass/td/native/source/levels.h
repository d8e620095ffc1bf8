// Operations on the tensors of all levels whose results have the same tree, and when they may be done without torch's
// dispatcher.
#pragma once

#include "memory.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>

namespace tensorclass {

// A collection of tensors of the CPU alone: for others the Python code has one launch for all, or asks each value.
class TensorTree : public Tree {
public:
    Tensors values;  // the tensors; those of the result, after an operation

    explicit TensorTree(PyObject* collection) : Tree(collection) {
        if (has_others()) throw NotNative();
        values = tensors();
        for (const at::Tensor& value : values) {
            if (!value.device().is_cpu()) throw NotNative();
        }
    }

    // The same tree of the results.
    template <class Shape = Kept>
    Ref result(const Shape& shape = {}) { return rebuilt(values, shape); }
};

inline bool are_contiguous(const Tensors& tensors) {
    return std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) { return tensor.is_contiguous(); });
}

// Call `run`, with the lock released if it `copies`: other threads go on meanwhile.
template <class Run>
void run_kernels(bool copies, Run&& run) {
    std::optional<pybind11::gil_scoped_release> without_lock;
    if (copies) without_lock.emplace();
    run();
}

// Whether nothing of torch wants to see the calls of its functions: no mode, transform, autocast or profiler.
inline bool are_calls_unseen() { return is_untransformed() && !at::hasCallbacks(); }

// Whether autograd records what is done with a tensor. Then the Python code decides which node it makes of it.
inline bool has_history(const at::Tensor& tensor) {
    const auto* history = torch::autograd::impl::get_autograd_meta(tensor);
    return history != nullptr &&
           ((c10::GradMode::is_enabled() && tensor.requires_grad()) || history->fw_grad_ != nullptr);
}
inline bool have_history(const Tensors& tensors) {
    for (const at::Tensor& tensor : tensors) {
        if (has_history(tensor)) return true;
    }
    return false;
}

// Whether a tensor is memory of the CPU and nothing else, with which autograd has nothing to do.
inline bool is_untracked(const at::Tensor& tensor) {
    static const uint64_t usual =
        c10::DispatchKeySet({c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutocastCPU,
                             c10::DispatchKey::ADInplaceOrView})
            .raw_repr();
    return (tensor.key_set().raw_repr() & ~usual) == 0 && tensor.is_cpu() && !has_history(tensor);
}

inline bool are_untracked(const Tensors& tensors) {
    for (const at::Tensor& tensor : tensors) {
        if (!is_untracked(tensor)) return false;
    }
    return true;
}

// For as long as this lives, the kernels of autograd are skipped, which would find nothing to do.
class Unrecorded {
public:
    explicit Unrecorded(bool wanted) {
        if (wanted) guard_.emplace();
    }

private:
    std::optional<at::AutoDispatchBelowADInplaceOrView> guard_;
};

// Tensors of at most so many elements are worked on here: torch's kernels are faster only from there on.
constexpr int64_t few = 4096;

// Whether the strides are those of a new tensor, also in dimensions of size 1, which matter for those of results.
inline bool has_usual_strides(const at::Tensor& tensor) {
    const c10::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
    int64_t expected = 1;
    for (int64_t dim = tensor.dim() - 1; dim >= 0; --dim) {
        if (strides[dim] != expected) return false;
        expected *= sizes[dim] > 1 ? sizes[dim] : 1;
    }
    return true;
}

// Whether a loop over the memory of an ordinary tensor does what torch's kernel does.
inline bool is_small(const at::Tensor& tensor) { return tensor.numel() <= few && has_usual_strides(tensor); }
inline bool is_small_real(const at::Tensor& tensor) {
    return (tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble) && is_small(tensor);
}

inline at::Tensor new_tensor(c10::IntArrayRef sizes, at::ScalarType dtype) {
    return at::detail::empty_cpu(sizes, dtype, /*pin_memory=*/false);
}

}  // namespace tensorclass
