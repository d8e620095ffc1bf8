// Memory of tensors on the CPU, read and written without torch's kernels, whose calls take a microsecond each.
//
// Only where a kernel would do nothing but copy: without transforms, modes and gradients.
#pragma once

#include "collections.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstring>

namespace tensorclass {

// Content of more bytes is left to torch's kernels, which use several threads.
constexpr size_t SMALL = 1 << 17;
// Loops over more rows release the lock.
constexpr int64_t MANY_ROWS = 1 << 14;

// Whether an operation is what its kernel does: no mode or transform of torch has a say.
inline bool is_untransformed() {
    const c10::DispatchKeySet included = c10::impl::tls_local_dispatch_key_set().included_;
    return (included - c10::default_included_set).empty() && c10::impl::TorchDispatchModeTLS::stack_len() == 0 &&
           !at::impl::torch_function_mode_enabled();
}

// Whether a tensor is a dense one on the CPU, and no wrapper, inference tensor or view that is negated lazily.
inline bool is_ordinary(const at::Tensor& tensor) {
    static const c10::DispatchKeySet ordinary = [] {
        const c10::InferenceMode off(false);
        return at::detail::empty_cpu({0}, at::kFloat, false, std::nullopt).key_set();
    }();
    return tensor.key_set() == ordinary;
}

// Whether the content of a tensor is one block of memory. A storage can be smaller than its tensors, after a resize_.
inline bool is_block(const at::Tensor& tensor) {
    return is_ordinary(tensor) && tensor.is_contiguous() &&
           tensor.storage().nbytes() >= tensor.storage_offset() * tensor.element_size() + tensor.nbytes();
}

// Whether autograd has no interest in what is done with a tensor.
inline bool is_unrecorded(const at::Tensor& tensor, bool records_gradients) {
    return !(records_gradients && tensor.requires_grad()) && !tensor._fw_grad(0).defined();
}

// Whether two tensors can share memory.
inline bool share_storage(const at::Tensor& one, const at::Tensor& other) {
    return one.storage().unsafeGetStorageImpl() == other.storage().unsafeGetStorageImpl();
}

}  // namespace tensorclass
