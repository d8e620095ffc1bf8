// Reductions along one batch dimension, and `where`.
#pragma once

#include "copies.h"

namespace tensorclass {

struct Reduction {
    Tensor (*function)(const Tensor&, int64_t, bool);
    bool divides = false;       // the sum by the number of elements: a mean
    bool of_fractions = false;  // integers raise
};

inline const std::unordered_map<std::string, Reduction>& reductions() {
    using T = const Tensor&;
    static const std::unordered_map<std::string, Reduction> table = {
        {"sum", {[](T a, int64_t dim, bool keep) { return at::sum(a, dim, keep); }}},
        {"nansum", {[](T a, int64_t dim, bool keep) { return at::nansum(a, dim, keep); }}},
        {"mean", {[](T a, int64_t dim, bool keep) { return at::mean(a, dim, keep); }, true, true}},
        {"nanmean", {[](T a, int64_t dim, bool keep) { return at::nanmean(a, dim, keep); }, false, true}},
        {"amax", {[](T a, int64_t dim, bool keep) { return at::amax(a, dim, keep); }}},
        {"amin", {[](T a, int64_t dim, bool keep) { return at::amin(a, dim, keep); }}},
        {"all", {[](T a, int64_t dim, bool keep) { return at::all(a, dim, keep); }}},
        {"any", {[](T a, int64_t dim, bool keep) { return at::any(a, dim, keep); }}},
        {"logsumexp", {[](T a, int64_t dim, bool keep) { return at::logsumexp(a, dim, keep); }}},
    };
    return table;
}

// Batch sizes without a dimension, or with 1 in it.
struct Reduced : Kept {
    int64_t dim;
    bool keeps;

    Reduced(int64_t of, bool keepdim) : dim(of), keeps(keepdim) {}
    Ref size(const Level& level) const {
        Sizes sizes = sizes_of(level.size.get());
        if (dim >= static_cast<int64_t>(sizes.size())) throw NotNative();
        if (keeps) {
            sizes[dim] = 1;
        } else {
            sizes.erase(sizes.begin() + dim);
        }
        return as_size(sizes);
    }
    static PyObject* names(const Level& level) {
        if (level.has_names()) throw NotNative();
        return Py_None;
    }
};

inline Tensor reduced(const Reduction& by, const Tensor& value, int64_t dim, bool keeps, bool unrecorded) {
    if (by.divides && unrecorded && is_small_real(value)) {
        Tensor total = at::sum(value, dim, keeps);  // what mean does, but its division takes a microsecond
        loop_over_(Loop::Div, total, static_cast<double>(value.size(dim)), /*is_new=*/true);
        return total;
    }
    return by.function(value, dim, keeps);
}

inline Ref reduce(PyObject* collection, const Reduction& by, int64_t dim, bool keeps) {
    TensorTree tree(collection);
    const int64_t ndim = tree.root().ndim();
    if (dim < -ndim || dim >= ndim) return Ref();
    const Reduced shape(dim < 0 ? dim + ndim : dim, keeps);
    for (const Tensor& value : tree.values) {
        if (shape.dim >= value.dim() || value.size(shape.dim) == 0) return Ref();
        if (by.of_fractions && !is_inexact(value.scalar_type())) return Ref();
    }
    run_kernels(true, [&] {
        const bool unrecorded = are_calls_unseen() && are_untracked(tree.values);
        const Unrecorded guard(unrecorded);
        for (Tensor& value : tree.values) value = reduced(by, value, shape.dim, keeps, unrecorded);
    });
    return tree.result(shape);
}

// reduce(collection, function, dim, keepdim), of collections without names, along one batch dimension.
inline PyObject* py_reduce(PyObject* const* args) {
    const Reduction* by = is_plain(args[0]) ? entry_of<Reduction>(args[1]) : nullptr;
    if (by == nullptr || has_names(args[0]) || !PyBool_Check(args[3])) Py_RETURN_NONE;
    return attempt([&] { return reduce(args[0], *by, as_int(args[2]), args[3] == Py_True); });
}

// know_reduction(function, name).
inline PyObject* py_know_reduction(PyObject* const* args) {
    const char* name = PyUnicode_AsUTF8(args[1]);
    return name == nullptr ? nullptr : PyBool_FromLong(remember(args[0], name, reductions()));
}

// -- where ------------------------------------------------------------------------------------------------------------

// Rows of one of two small tensors of the same shape and dtype, as a mask over their first dimensions tells.
inline Tensor rows_where(const Tensor& mask, const Tensor& value, const Tensor& other) {
    Tensor result = new_tensor(value.sizes(), value.scalar_type());
    const int64_t rows = mask.numel();
    if (value.numel() == 0) return result;
    const size_t bytes = value.numel() / rows * value.element_size();
    const bool* takes = mask.const_data_ptr<bool>();
    const char* first = static_cast<const char*>(value.const_data_ptr());
    const char* second = static_cast<const char*>(other.const_data_ptr());
    char* target = static_cast<char*>(result.mutable_data_ptr());
    for (int64_t i = 0; i < rows; ++i) {
        std::memcpy(target + i * bytes, (takes[i] ? first : second) + i * bytes, bytes);
    }
    return result;
}

inline Ref where(PyObject* collection, const Tensor& mask, PyObject* given) {
    if (mask.scalar_type() != at::kBool || !mask.device().is_cpu()) return Ref();
    TensorTree tree(collection);
    Tensors others;
    Beside(tree, given, others);
    for (const Tensor& value : tree.values) {
        if (mask.dim() > value.dim() || mask.sizes() != value.sizes().slice(0, mask.dim())) return Ref();
    }
    run_kernels(true, [&] {
        const bool unrecorded =
            are_calls_unseen() && is_untracked(mask) && are_untracked(tree.values) && are_untracked(others);
        const Unrecorded guard(unrecorded);
        const bool loops = unrecorded && is_small(mask);
        for (size_t i = 0; i < tree.values.size(); ++i) {
            Tensor& value = tree.values[i];
            const Tensor& other = others[i];
            if (loops && is_small(value) && is_small(other) && value.scalar_type() == other.scalar_type()) {
                value = rows_where(mask, value, other);
                continue;
            }
            Sizes shape(mask.sizes().begin(), mask.sizes().end());
            shape.resize(value.dim(), 1);
            value = at::where(mask.reshape(shape), value, other);
        }
    });
    return tree.result();
}

// where(collection, mask, other): two trees of the same keys and shapes, a mask over their first dimensions.
inline PyObject* py_where(PyObject* const* args) {
    if (!is_plain(args[0]) || !is_plain(args[2]) || !is_tensor(args[1])) Py_RETURN_NONE;
    return attempt([&] {
        const Tensor mask = THPVariable_Unpack(args[1]);
        return where(args[0], mask, args[2]);
    });
}

inline PyMethodDef reduce_methods[] = {METHOD(know_reduction, 2), METHOD(reduce, 4), METHOD(where, 3), END_OF_METHODS};

}  // namespace tensorclass
