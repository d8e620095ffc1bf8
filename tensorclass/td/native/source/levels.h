// Operations on the tensors of all levels whose results have the same tree, and when they may be done without torch's
// dispatcher.
#pragma once

#include "memory.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/variable.h>

#include <optional>

namespace tensorclass {

// Append the tensors of all levels, in order. False: there are values of other classes, or tensors on other devices
// than the CPU, for which the Python code has one launch for all.
inline bool collect_all(PyObject* collection, Tensors& tensors) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(store_of(collection), &position, &key, &value)) {
        if (is_tensor(value)) {
            tensors.push_back(THPVariable_Unpack(value));
            if (!tensors.back().device().is_cpu()) return false;
        } else if (!is_collection(value) || !is_plain(value) || !collect_all(value, tensors)) {
            return false;
        }
    }
    return true;
}

// The same tree with other tensors: batch sizes, devices and names are kept.
struct Kept {
    static Ref size(PyObject* source) { return Ref::borrowed(batch_size_of(source)); }
    static PyObject* names(PyObject* source) { return slot(source, bound.names); }
};

// The tree of a collection with other tensors, whose levels have the sizes and names that `level` gives.
template <class Level>
Ref rebuilt(PyObject* source, Tensors& tensors, size_t& next, const Level& level) {
    Ref store(PyDict_New());
    if (!store) throw PythonError();
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(store_of(source), &position, &key, &value)) {
        if (is_tensor(value)) {
            if (next >= tensors.size()) throw NotNative();  // another thread has written
            put(store.get(), key, wrap(std::move(tensors[next++])).get());
        } else if (is_collection(value) && is_plain(value)) {
            put(store.get(), key, rebuilt(value, tensors, next, level).get());
        } else {
            throw NotNative();
        }
    }
    return make(source, store.get(), level.size(source).get(), level.names(source));
}

inline Ref same(PyObject* source, Tensors& tensors) {
    size_t next = 0;
    return rebuilt(source, tensors, next, Kept());
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
