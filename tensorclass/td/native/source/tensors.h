// Tensors that lie in main memory, which is read and written without torch's kernels: their calls take a microsecond each.
//
// Only where a kernel would do nothing else: without transforms, modes and gradients.
#pragma once

#include "collections.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/variable.h>

#include <cstring>
#include <optional>

namespace tensorclass {

// Content of more bytes is left to torch's kernels, which use several threads.
constexpr size_t SMALL = 1 << 17;
// Loops over more rows release the lock.
constexpr int64_t MANY_ROWS = 1 << 14;
// Tensors of at most so many elements are computed here: torch's kernels are faster only from there on.
constexpr int64_t FEW = 4096;

// -- modes ------------------------------------------------------------------------------------------------------------

inline bool has_dispatch_mode() { return c10::impl::TorchDispatchModeTLS::stack_len() > 0; }

// Whether an operation is what its kernel does: no mode or transform of torch has a say.
inline bool is_untransformed() {
    const c10::DispatchKeySet included = c10::impl::tls_local_dispatch_key_set().included_;
    return (included - c10::default_included_set).empty() && !has_dispatch_mode() &&
           !at::impl::torch_function_mode_enabled();
}
// Whether nothing of torch wants to see the calls of its functions: no mode, transform, autocast or profiler.
inline bool are_calls_unseen() { return is_untransformed() && !at::hasCallbacks(); }

// Call `run`, with the lock released if it `copies`: other threads go on meanwhile.
template <class Run>
void run_kernels(bool copies, Run&& run) {
    std::optional<pybind11::gil_scoped_release> without_lock;
    if (copies) without_lock.emplace();
    run();
}

// -- tensors ----------------------------------------------------------------------------------------------------------

// Whether a tensor is a dense one on the CPU, and no wrapper or view that is negated lazily.
inline bool is_ordinary(const at::Tensor& tensor) {
    static const uint64_t usual =
        c10::DispatchKeySet({c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutocastCPU,
                             c10::DispatchKey::ADInplaceOrView})
            .raw_repr();
    return (tensor.key_set().raw_repr() & ~usual) == 0 && tensor.is_cpu();
}
// Whether the memory of a tensor is its content.
inline bool has_own_memory(const at::Tensor& tensor) { return is_ordinary(tensor) && !has_dispatch_mode(); }

// Whether autograd records what is done with a tensor. Then the Python code decides which node it makes of it.
inline bool has_history(const at::Tensor& tensor) {
    const auto* history = torch::autograd::impl::get_autograd_meta(tensor);
    return history != nullptr &&
           ((c10::GradMode::is_enabled() && tensor.requires_grad()) || history->fw_grad_ != nullptr);
}

// Whether a tensor is memory of the CPU and nothing else, with which autograd has nothing to do.
inline bool is_untracked(const at::Tensor& tensor) { return is_ordinary(tensor) && !has_history(tensor); }
// The same for one that is written.
inline bool is_writable(const at::Tensor& tensor) {
    return is_untracked(tensor) && (!tensor.is_inference() || c10::InferenceMode::is_enabled());
}

// Whether the content of a tensor is one block of memory. A storage can be smaller than its tensors, after a resize_.
inline bool is_block(const at::Tensor& tensor) {
    return is_ordinary(tensor) && tensor.is_contiguous() &&
           tensor.storage().nbytes() >= tensor.storage_offset() * tensor.element_size() + tensor.nbytes();
}

// Whether a test holds for all tensors.
template <class Test>
bool are_all(const Tensors& tensors, const Test& test) {
    return std::all_of(tensors.begin(), tensors.end(), test);
}
inline bool are_contiguous(const Tensors& tensors) {
    return are_all(tensors, [](const at::Tensor& tensor) { return tensor.is_contiguous(); });
}

// Whether two tensors can share memory.
inline bool share_storage(const at::Tensor& one, const at::Tensor& other) {
    return one.storage().unsafeGetStorageImpl() == other.storage().unsafeGetStorageImpl();
}

// Whether a loop over the memory of an ordinary tensor does what torch's kernel does: it is small, and its strides are those
// of a new tensor, also in dimensions of size 1, which matter for those of results.
inline bool is_small(const at::Tensor& tensor) {
    const c10::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
    int64_t expected = 1;
    for (int64_t dim = tensor.dim() - 1; dim >= 0; --dim) {
        if (strides[dim] != expected) return false;
        expected *= std::max<int64_t>(sizes[dim], 1);
    }
    return tensor.numel() <= FEW;
}
inline bool is_real(const at::Tensor& tensor) {
    return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
}
inline bool is_small_real(const at::Tensor& tensor) { return is_real(tensor) && is_small(tensor); }

inline at::Tensor new_tensor(c10::IntArrayRef sizes, at::ScalarType dtype) {
    return at::detail::empty_cpu(sizes, dtype, /*pin_memory=*/false);
}

// A collection of tensors of the CPU alone: for others the Python code has one launch for all, or asks each value.
class TensorTree : public Tree {
public:
    Tensors values;  // the tensors; those of the result, after an operation

    explicit TensorTree(PyObject* collection) : Tree(collection), values(tensors()) {
        const bool fits = !has_others() && are_all(values, [](const at::Tensor& value) { return value.is_cpu(); });
        if (!fits) throw NotNative();
    }
    Ref result() { return rebuilt(values, Kept()); }
};

}  // namespace tensorclass
