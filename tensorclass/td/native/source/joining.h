// stack and cat of collections.
#pragma once

#include "leaves.h"

namespace tensorclass {

using Column = c10::SmallVector<const at::Tensor*, 16>;

// Sizes that are joined along a dimension, and the length that this gets. Other dimensions are the same.
struct JoinedSize {
    Sizes size;
    const int64_t dim;
    const bool stacked;
    int64_t length = 0;

    // Add one more. False: it has another size.
    bool add(c10::IntArrayRef own) {
        if (own.size() != size.size()) return false;
        for (int64_t i = 0; i < static_cast<int64_t>(own.size()); ++i) {
            if (own[i] != size[i] && (stacked || i != dim)) return false;
        }
        length = plus(length, stacked ? 1 : own[dim]);
        return true;
    }
    Sizes result() const {
        Sizes joined(size);
        if (stacked) joined.insert(joined.begin() + dim, 0);
        joined[dim] = length;
        return joined;
    }
};

// Join contiguous tensors along their first dimension (of a size other than 1) by copying one behind the other.
// False: left to the kernel.
inline bool join_directly(const Column& parts, int64_t dim, bool stacked, at::Tensor& result) {
    const at::Tensor& first = *parts[0];
    if (dim >= first.dim() + (stacked ? 1 : 0)) return false;  // it was resized after it was stored
    JoinedSize size{Sizes(first.sizes()), dim, stacked};
    size_t bytes = 0;
    for (int64_t i = 0; i < dim; ++i) {
        if (size.size[i] != 1) return false;
    }
    for (const at::Tensor* part : parts) {
        if (!is_block(*part) || has_history(*part) || part->dtype() != first.dtype() || !size.add(part->sizes())) return false;
        bytes += part->nbytes();
    }
    // kernels take long for each of many small parts
    if (bytes > SMALL && (bytes > 64 * SMALL || bytes > 4096 * parts.size())) return false;
    result = new_tensor(size.result(), first.scalar_type());
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
    const bool direct = is_untransformed();
    for (size_t i = 0; i < columns.size(); ++i) {
        if (direct && join_directly(columns[i], dim, stacked, results[i])) continue;
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

// Trees that are joined, side by side.
class Joining : public Reshaped {
public:
    Joining(Refs collections, int64_t dim, bool stacked)
        : tree_(collections[0].get()), rows_(tree_, collections.slice(1)), dim_(dim), stacked_(stacked) {
        if (tree_.has_names()) throw NotNative();
        sizes_.push_back(joined_size(tree_.root(), collections.slice(1), rows_.sizes(0)));
        columns_.reserve(tree_.nodes().size());
        for (size_t i = 0; i < tree_.nodes().size(); ++i) {
            const Refs row = rows_[i];
            switch (tree_.nodes()[i].kind) {
                case Tree::Kind::Tensor: add_column(tree_.nodes()[i].value, row); break;
                case Tree::Kind::Level: {
                    const size_t level = sizes_.size();
                    sizes_.push_back(joined_size(tree_.levels()[level], row, rows_.sizes(level)));
                    break;
                }
                case Tree::Kind::Other: others_.push_back(row); break;
            }
        }
    }

    Ref result() {
        Tensors results = joined(columns_, dim_, stacked_);
        return tree_.rebuilt(results, *this);
    }

    // What becomes of the rest of the tree.
    Ref size(const Level& level) const { return as_size(sizes_[level.position]); }
    Ref other(PyObject* first) const {
        static PyObject* names[] = {interned("_cat"), interned("_stack")};
        c10::SmallVector<Ref, 16> values;
        values.push_back(Ref::borrowed(first));
        for (const Ref& value : others_[next_other_++]) values.push_back(value.copy());
        Ref made = stacked_ ? stacked(values, dim_) : Ref();
        if (made) return made;
        const Ref dim = as_long(dim_), list = owned(PyList_New(0));
        for (const Ref& value : values) {
            if (!is_collection(value.get()) || PyList_Append(list.get(), value.get()) != 0) throw NotNative();
        }
        return owned(PyObject_CallMethodObjArgs(first, names[stacked_], list.get(), dim.get(), nullptr));
    }

private:
    const Tree tree_;
    const Beside rows_;
    const int64_t dim_;
    const bool stacked_;
    std::vector<Column> columns_;
    std::vector<Refs> others_;            // what stands beside values that are neither tensors nor plain trees
    c10::SmallVector<Sizes, 2> sizes_;    // of the levels of the result
    mutable size_t next_other_ = 0;

    void add_column(const Ref& first, Refs others) {
        Column& column = columns_.emplace_back();
        column.push_back(&THPVariable_Unpack(first.get()));
        for (const Ref& value : others) {
            if (!is_tensor(value.get())) throw NotNative();
            column.push_back(&THPVariable_Unpack(value.get()));
        }
    }

    // The batch size of a level of the result. The sizes are those that were read with the values.
    Sizes joined_size(const Level& first, Refs others, Refs sizes) const {
        JoinedSize size{sizes_of(first.size.get()), dim_, stacked_};
        if (dim_ >= static_cast<int64_t>(size.size.size()) + (stacked_ ? 1 : 0) || !size.add(size.size)) throw NotNative();
        for (size_t i = 0; i < others.size(); ++i) {
            PyObject* other = others[i].get();
            if (Py_TYPE(other) != Py_TYPE(first.collection.get()) || !is_plain(other) || has_names(other)) throw NotNative();
            if (!size.add(sizes_of(sizes[i].get()))) throw NotNative();
        }
        return size.result();
    }
};

// stack(items, dim), cat(items, dim): of a list of collections.
template <bool stacked>
Ref join(const Arguments& args) {
    if (!PyList_CheckExact(args[0]) || PyList_GET_SIZE(args[0]) == 0) return Ref();
    c10::SmallVector<Ref, 16> items;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[0]); ++i) {
        items.push_back(Ref::borrowed(PyList_GET_ITEM(args[0], i)));
    }
    if (!is_plain(items[0].get()) || has_names(items[0].get())) return Ref();
    const int64_t ndim = PyTuple_GET_SIZE(batch_size_of(items[0].get())) + (stacked ? 1 : 0);
    return Joining(items, wrapped(args.size() == 2 ? as_int(args[1]) : 0, ndim), stacked).result();
}
constexpr Operation stack = join<true>, cat = join<false>;

inline PyMethodDef join_methods[] = {FUNCTION(stack, 2), FUNCTION(cat, 2), END_OF_METHODS};

}  // namespace tensorclass
