// stack and cat of collections.
#pragma once

#include "collections.h"
#include "leaves.h"
#include "memory.h"

namespace tensorclass {

using Column = c10::SmallVector<const at::Tensor*, 16>;

// Join contiguous tensors along their first dimension (of a size other than 1) by copying one behind the other.
// False: left to the kernel.
inline bool join_directly(const Column& parts, int64_t dim, bool stacked, bool records_gradients, at::Tensor& result) {
    const at::Tensor& first = *parts[0];
    const c10::IntArrayRef sizes = first.sizes();
    int64_t length = 0;
    size_t bytes = 0;
    for (int64_t i = 0; i < dim; ++i) {
        if (sizes[i] != 1) return false;
    }
    for (const at::Tensor* part : parts) {
        if (!is_block(*part) || part->dtype() != first.dtype()) return false;
        if (!is_unrecorded(*part, records_gradients)) return false;
        const c10::IntArrayRef own = part->sizes();
        if (own.size() != sizes.size()) return false;
        for (int64_t i = 0; i < static_cast<int64_t>(own.size()); ++i) {
            if (own[i] != sizes[i] && (stacked || i != dim)) return false;
        }
        length += stacked ? 1 : own[dim];
        bytes += part->nbytes();
    }
    // kernels take long for each of many small parts
    if (bytes > SMALL && (bytes > 64 * SMALL || bytes > 4096 * parts.size())) return false;
    Sizes joined(sizes.begin(), sizes.end());
    if (stacked) {
        joined.insert(joined.begin() + dim, length);
    } else {
        joined[dim] = length;
    }
    result = at::Tensor(at::detail::empty_cpu(joined, first.scalar_type(), false, std::nullopt));
    char* target = static_cast<char*>(result.mutable_data_ptr());
    for (const at::Tensor* part : parts) {
        const size_t own = part->nbytes();
        if (own != 0) std::memcpy(target, part->const_data_ptr(), own);
        target += own;
    }
    return true;
}

// Join each column of tensors.
inline Tensors joined(const std::vector<Column>& columns, int64_t dim, bool stacked) {
    Tensors results(columns.size());
    std::vector<std::pair<size_t, Tensors>> left;
    const bool direct = is_untransformed(), records_gradients = c10::GradMode::is_enabled();
    for (size_t i = 0; i < columns.size(); ++i) {
        if (direct && join_directly(columns[i], dim, stacked, records_gradients, results[i])) continue;
        Tensors owned;  // another thread can write while the kernels run
        owned.reserve(columns[i].size());
        for (const at::Tensor* part : columns[i]) owned.push_back(*part);
        left.emplace_back(i, std::move(owned));
    }
    if (left.empty()) return results;
    const pybind11::gil_scoped_release without_lock;
    for (const auto& [i, parts] : left) results[i] = stacked ? at::stack(parts, dim) : at::cat(parts, dim);
    return results;
}

inline bool have_one_device(PyObject* one, PyObject* other) {
    PyObject *device = slot(one, bound.device), *wanted = slot(other, bound.device);
    return device == wanted || PyObject_RichCompareBool(device, wanted, Py_EQ) == 1;
}

// Trees that are joined: the tensors of all levels, level by level in the order of the first tree.
class Joining {
public:
    // `alike`: the trees must also agree in devices and names, and hold tensors, objects and text only.
    Joining(int64_t dim, bool stacked, bool alike = false) : dim_(dim), stacked_(stacked), alike_(alike) {}

    // Look at one level of all trees. False: they are left to Python.
    bool gather(c10::ArrayRef<PyObject*> trees) {
        PyObject* first = trees[0];
        if (!is_plain(first) || has_names(first)) return false;
        Sizes size;
        if (!join_sizes(trees, size)) return false;
        sizes_.push_back(std::move(size));
        Py_ssize_t position = 0;
        PyObject *key, *value;
        while (PyDict_Next(store_of(first), &position, &key, &value)) {
            if (is_tensor(value) ? !gather_tensors(trees, key) : !gather_others(trees, key, value)) return false;
        }
        return true;
    }

    Ref build(PyObject* first) {
        results_ = joined(columns_, dim_, stacked_);
        return build_level(first);
    }

private:
    int64_t dim_;
    bool stacked_, alike_;
    std::vector<Column> columns_;
    std::vector<Ref> others_;  // lists of values that are neither tensors nor plain trees
    std::vector<Sizes> sizes_;
    Tensors results_;
    size_t next_size_ = 0, next_result_ = 0, next_other_ = 0;

    // The batch size of the result. False: the trees do not fit together.
    bool join_sizes(c10::ArrayRef<PyObject*> trees, Sizes& size) const {
        PyObject* first = trees[0];
        const Py_ssize_t count = PyDict_GET_SIZE(store_of(first));
        size = sizes_of(batch_size_of(first));
        const int64_t ndim = static_cast<int64_t>(size.size());
        if (stacked_ ? dim_ > ndim : dim_ >= ndim) return false;
        int64_t length = 0;
        for (PyObject* tree : trees) {
            if (Py_TYPE(tree) != Py_TYPE(first) || !is_plain(tree)) return false;
            if (PyDict_GET_SIZE(store_of(tree)) != count) return false;
            if (alike_ && (has_names(tree) || !have_one_device(tree, first))) return false;
            if (batch_size_of(tree) == batch_size_of(first)) {
                length += stacked_ ? 1 : size[dim_];
                continue;
            }
            const Sizes own = sizes_of(batch_size_of(tree));
            if (own.size() != size.size()) return false;
            for (int64_t i = 0; i < ndim; ++i) {
                if (own[i] != size[i] && (stacked_ || i != dim_)) return false;
            }
            length += stacked_ ? 1 : own[dim_];
        }
        if (stacked_) {
            size.insert(size.begin() + dim_, length);
        } else {
            size[dim_] = length;
        }
        return true;
    }

    bool gather_tensors(c10::ArrayRef<PyObject*> trees, PyObject* key) {
        Column& column = columns_.emplace_back();
        for (PyObject* tree : trees) {
            PyObject* value = PyDict_GetItemWithError(store_of(tree), key);
            if (value == nullptr || !is_tensor(value)) return false;
            column.push_back(&THPVariable_Unpack(value));
        }
        return true;
    }

    bool gather_others(c10::ArrayRef<PyObject*> trees, PyObject* key, PyObject* value) {
        if (!is_collection(value)) return false;
        c10::SmallVector<PyObject*, 16> below;
        for (PyObject* tree : trees) {
            PyObject* own = PyDict_GetItemWithError(store_of(tree), key);
            if (own == nullptr || !is_collection(own)) return false;
            below.push_back(own);
        }
        if (is_plain(value)) return gather(below);
        if (alike_ && !is_object(value) && !is_stack(value) && !is_column(value)) return false;
        Ref list(PyList_New(static_cast<Py_ssize_t>(below.size())));
        if (!list) throw PythonError();
        for (size_t i = 0; i < below.size(); ++i) {
            PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Py_NewRef(below[i]));
        }
        others_.push_back(std::move(list));
        return true;
    }

    Ref build_level(PyObject* first) {
        Ref store(PyDict_New());
        if (!store || next_size_ >= sizes_.size()) throw NotNative();
        const Ref size = as_size(sizes_[next_size_++]);
        Py_ssize_t position = 0;
        PyObject *key, *value;
        while (PyDict_Next(store_of(first), &position, &key, &value)) {
            if (is_tensor(value)) {
                if (next_result_ >= results_.size()) throw NotNative();  // another thread has written
                put(store.get(), key, wrap(std::move(results_[next_result_++])).get());
            } else if (is_collection(value) && is_plain(value)) {
                put(store.get(), key, build_level(value).get());
            } else {
                const Ref kept_key = Ref::borrowed(key);
                put(store.get(), key, join_others().get());
            }
        }
        return make(first, store.get(), size.get(), Py_None);
    }

    Ref join_others() {
        static PyObject* names[] = {PyUnicode_InternFromString("_cat"), PyUnicode_InternFromString("_stack")};
        if (next_other_ >= others_.size()) throw NotNative();
        const Ref list = std::move(others_[next_other_++]);
        if (stacked_) {
            Ref made = stacked(list.get(), dim_);
            if (made) return made;
        }
        const Ref dim(PyLong_FromLongLong(dim_));
        if (!dim) throw PythonError();
        PyObject* name = names[stacked_];
        Ref result(PyObject_CallMethodObjArgs(PyList_GET_ITEM(list.get(), 0), name, list.get(), dim.get(), nullptr));
        if (!result) throw PythonError();
        return result;
    }
};

inline PyObject* join(PyObject* items, PyObject* dim, bool stacked, bool alike = false) {
    if (!PyList_CheckExact(items) || PyList_GET_SIZE(items) == 0 || !PyLong_CheckExact(dim)) Py_RETURN_NONE;
    PyObject* first = PyList_GET_ITEM(items, 0);
    if (!is_collection(first) || !is_plain(first) || has_names(first)) Py_RETURN_NONE;
    const int64_t ndim = PyTuple_GET_SIZE(batch_size_of(first)) + (stacked ? 1 : 0);
    int overflow = 0;
    int64_t position = PyLong_AsLongLongAndOverflow(dim, &overflow);
    if (position < 0) position += ndim;
    if (overflow != 0 || position < 0 || position >= ndim) Py_RETURN_NONE;
    return attempt([&] {
        c10::SmallVector<PyObject*, 16> trees;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items); ++i) trees.push_back(PyList_GET_ITEM(items, i));
        const Ref kept = Ref::borrowed(trees[0]);
        Joining joining(position, stacked, alike);
        return joining.gather(trees) ? joining.build(trees[0]) : Ref::borrowed(Py_None);
    });
}

// stack(items, dim), cat(items, dim): of a list of collections.
inline PyObject* py_stack(PyObject*, PyObject* const* args, Py_ssize_t) { return join(args[0], args[1], true); }
inline PyObject* py_cat(PyObject*, PyObject* const* args, Py_ssize_t) { return join(args[0], args[1], false); }

inline PyMethodDef join_methods[] = {METHOD(stack), METHOD(cat), {nullptr, nullptr, 0, nullptr}};

}  // namespace tensorclass
