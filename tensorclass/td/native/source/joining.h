// stack and cat of collections.
#pragma once

#include "collections.h"
#include "leaves.h"
#include "levels.h"

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
        length = plus(length, stacked ? 1 : own[dim]);
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
        Tensors owned;  // another thread can replace what a tensor of Python refers to while the kernels run
        owned.reserve(columns[i].size());
        for (const at::Tensor* part : columns[i]) owned.push_back(*part);
        left.emplace_back(i, std::move(owned));
    }
    if (left.empty()) return results;
    const pybind11::gil_scoped_release without_lock;
    for (const auto& [i, parts] : left) results[i] = stacked ? at::stack(parts, dim) : at::cat(parts, dim);
    return results;
}

// Trees that are joined: that of the first, and the values of the others under its keys, all owned.
class Joining {
public:
    Joining(c10::ArrayRef<PyObject*> collections, int64_t dim, bool stacked)
        : tree_(collections[0]), count_(collections.size()), dim_(dim), stacked_(stacked) {
        if (tree_.has_names_below()) throw NotNative();
        values_.reserve(tree_.nodes().size() * (count_ - 1));
        gather(collections.slice(1), tree_.size());
    }

    Ref result() {
        Tensors results = joined(columns_, dim_, stacked_);
        return tree_.rebuilt(results, *this);
    }

    // What becomes of the rest of the tree.
    Ref size(const Level& level) const { return as_size(sizes_[level.position]); }
    static PyObject* names(const Level&) { return Py_None; }
    static void done(PyObject*, const Level&) {}
    Ref other(PyObject*) const {
        static PyObject* names[] = {interned("_cat"), interned("_stack")};
        const c10::SmallVector<PyObject*, 16>& values = others_[next_other_++];
        if (stacked_) {
            Ref made = stacked(values, dim_);
            if (made) return made;
        }
        const Ref dim = as_long(dim_), list(PyList_New(static_cast<Py_ssize_t>(values.size())));
        if (!list) throw PythonError();
        for (size_t i = 0; i < values.size(); ++i) {
            PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Py_NewRef(values[i]));
        }
        Ref made(PyObject_CallMethodObjArgs(values[0], names[stacked_], list.get(), dim.get(), nullptr));
        if (!made) throw PythonError();
        return made;
    }

private:
    const Tree tree_;
    size_t count_;  // of the trees
    int64_t dim_;
    bool stacked_;
    std::vector<Ref> values_;  // of the other trees
    std::vector<Column> columns_;
    std::vector<c10::SmallVector<PyObject*, 16>> others_;  // values that are neither tensors nor plain trees
    std::vector<Sizes> sizes_;                             // of the levels of the result
    size_t next_node_ = 0;
    mutable size_t next_other_ = 0;

    // Look at one level of the other trees, which has so many entries.
    void gather(c10::ArrayRef<PyObject*> others, size_t entries) {
        const Level& first = tree_.levels()[sizes_.size()];
        sizes_.push_back(joined_size(first, others));
        c10::SmallVector<Ref, 16> stores;
        for (PyObject* other : others) {
            stores.push_back(Ref::borrowed(store_of(other)));
            if (PyDict_GET_SIZE(stores.back().get()) != static_cast<Py_ssize_t>(entries)) throw NotNative();
        }
        for (size_t i = 0; i < entries; ++i) {
            const Tree::Node& node = tree_.nodes()[next_node_++];
            c10::SmallVector<PyObject*, 16> values{node.value.get()};
            for (const Ref& store : stores) {
                values_.push_back(lookup(store.get(), node.key.get()));
                if (!values_.back()) throw NotNative();
                values.push_back(values_.back().get());
            }
            if (node.kind == Tree::Kind::Tensor) {
                Column& column = columns_.emplace_back();
                for (PyObject* value : values) {
                    if (!is_tensor(value)) throw NotNative();
                    column.push_back(&THPVariable_Unpack(value));
                }
            } else if (node.kind == Tree::Kind::Level) {
                gather(c10::ArrayRef<PyObject*>(values).slice(1), node.count);
            } else {
                for (PyObject* value : values) {
                    if (!is_collection(value)) throw NotNative();
                }
                others_.push_back(std::move(values));
            }
        }
    }

    // The batch size of a level of the result.
    Sizes joined_size(const Level& first, c10::ArrayRef<PyObject*> others) const {
        Sizes size = sizes_of(first.size.get());
        const int64_t ndim = static_cast<int64_t>(size.size());
        if (stacked_ ? dim_ > ndim : dim_ >= ndim) throw NotNative();
        int64_t length = stacked_ ? 1 : size[dim_];
        for (PyObject* other : others) {
            if (Py_TYPE(other) != Py_TYPE(first.collection.get()) || !is_plain(other)) throw NotNative();
            if (has_names(other) && sizes_.size() > 0) throw NotNative();
            const Sizes own = sizes_of(batch_size_of(other));
            if (own.size() != size.size()) throw NotNative();
            for (int64_t i = 0; i < ndim; ++i) {
                if (own[i] != size[i] && (stacked_ || i != dim_)) throw NotNative();
            }
            length = plus(length, stacked_ ? 1 : own[dim_]);
        }
        if (stacked_) {
            size.insert(size.begin() + dim_, length);
        } else {
            size[dim_] = length;
        }
        return size;
    }
};

// stack(items, dim), cat(items, dim): of a list of collections.
template <bool stacked>
PyObject* join(PyObject*, PyObject* const* args, Py_ssize_t given) {
    if (given < 1 || given > 2 || !PyList_CheckExact(args[0]) || PyList_GET_SIZE(args[0]) == 0) Py_RETURN_NONE;
    return attempt([&]() -> Ref {
        const Items items(args[0]);
        PyObject* first = items[0];
        if (!is_plain(first) || has_names(first)) return Ref();
        const int64_t ndim = PyTuple_GET_SIZE(batch_size_of(first)) + (stacked ? 1 : 0);
        int64_t position = given == 2 ? as_int(args[1]) : 0;
        if (position < 0) position += ndim;
        if (position < 0 || position >= ndim) return Ref();
        return Joining(items, position, stacked).result();
    });
}

inline PyMethodDef join_methods[] = {
    {"stack", as_function(join<true>), METH_FASTCALL, nullptr},
    {"cat", as_function(join<false>), METH_FASTCALL, nullptr},
    END_OF_METHODS,
};

}  // namespace tensorclass
