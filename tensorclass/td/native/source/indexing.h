// `data[index]`.
#pragma once

#include "leaves.h"

namespace tensorclass {

// A value that is neither a tensor nor a plain tree: `value._index_value(item)` of collections and columns, else `value[item]`.
template <class By>
Ref other_at(PyObject* value, const By& by) {
    Ref leaf = leaf_at(value, by);
    if (leaf) return leaf;
    static PyObject* index_value = interned("_index_value");
    if (!by.item) throw NotNative();
    PyObject* item = by.item.get();
    return owned(is_collection(value) ? PyObject_CallMethodOneArg(value, index_value, item) : PyObject_GetItem(value, item));
}

// One entry of an index that gives views.
struct View {
    enum Kind { Select, Slice, Insert } kind;
    int64_t start = 0, stop = 0, step = 1;
};
constexpr View ALL{View::Slice, 0, PY_SSIZE_T_MAX, 1};

inline View as_slice(PyObject* slice) {
    auto* parts = reinterpret_cast<PySliceObject*>(slice);
    for (PyObject* part : {parts->start, parts->stop, parts->step}) {
        if (part != Py_None && !PyLong_CheckExact(part)) throw NotNative();
    }
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(slice, &start, &stop, &step) != 0) throw PythonError();
    if (step < 0) throw NotNative();
    return {View::Slice, start, stop, step};
}

// The entries of an index: of a tuple, or it alone.
inline c10::ArrayRef<PyObject*> entries(PyObject* const& index) {
    if (!PyTuple_CheckExact(index)) return index;
    return {&PyTuple_GET_ITEM(index, 0), static_cast<size_t>(PyTuple_GET_SIZE(index))};
}

// An index of ints, slices, None and one ellipsis, which applies to the batch dimensions of every value.
struct ByViews : Reshaped {
    static constexpr bool copies = false;
    c10::SmallVector<View, 4> views;
    Ref item;  // null: it has an ellipsis, which would stand for other dimensions of a value of its own kind

    // Whether an index has such entries alone: to throw takes longer than most operations.
    static bool knows(PyObject* index) {
        const auto given = entries(index);
        return std::all_of(given.begin(), given.end(), [](PyObject* entry) {
            return PyLong_CheckExact(entry) || PySlice_Check(entry) || entry == Py_None || entry == Py_Ellipsis;
        });
    }

    ByViews(PyObject* index, int64_t ndim) : item(Ref::borrowed(index)) {
        int64_t more = ndim, ellipsis = -1;
        for (PyObject* entry : entries(index)) {
            if (PyLong_CheckExact(entry)) {
                views.push_back({View::Select, as_int(entry)});
                --more;
            } else if (PySlice_Check(entry)) {
                views.push_back(as_slice(entry));
                --more;
            } else if (entry == Py_None) {
                views.push_back({View::Insert});
            } else if (entry == Py_Ellipsis && item) {
                ellipsis = static_cast<int64_t>(views.size());
                item = Ref();
            } else {
                throw NotNative();
            }
        }
        if (more < 0) throw NotNative();
        if (!item) views.insert(views.begin() + ellipsis, more, ALL);
    }

    at::Tensor operator()(const at::Tensor& value) const {
        at::Tensor result;
        int64_t dim = 0;
        for (const View& view : views) {
            const at::Tensor& before = result.defined() ? result : value;
            if (view.kind == View::Select) {
                result = at::select(before, dim, view.start);
            } else if (view.kind == View::Insert) {
                result = at::unsqueeze(before, dim++);
            } else if (views.size() > 1 && view.start == 0 && view.stop == ALL.stop && view.step == 1) {
                ++dim;
            } else {
                result = at::slice(before, dim++, view.start, view.stop, view.step);
            }
        }
        return result.defined() ? result : at::alias(value);
    }

    Ref size(PyObject* old) const {
        const Sizes before = sizes_of(old);
        Sizes after;
        size_t dim = 0;
        for (const View& view : views) {
            if (view.kind == View::Insert) {
                after.push_back(1);
                continue;
            }
            if (dim >= before.size()) throw NotNative();
            const int64_t length = before[dim++];
            Py_ssize_t start = view.start, stop = view.stop;
            if (view.kind == View::Slice) {
                after.push_back(PySlice_AdjustIndices(length, &start, &stop, view.step));
            } else {
                wrapped(view.start, length);  // is in range
            }
        }
        after.append(before.begin() + dim, before.end());
        return as_size(after);
    }
    Ref size(const Level& level) const { return size(level.size.get()); }

    static bool takes(const at::Tensor&) { return true; }
    at::Tensor rows(const at::Tensor& spans) const { return (*this)(spans); }
    Ref other(PyObject* value) const { return other_at(value, *this); }
};

// The positions of the true elements of a mask of one dimension. Its elements are read once: others can write them.
inline at::Tensor true_positions(const at::Tensor& mask) {
    if (!has_own_memory(mask) || !mask.is_contiguous()) return at::nonzero(mask).squeeze(1);
    const int64_t length = mask.numel();
    const auto* given = static_cast<const uint8_t*>(mask.const_data_ptr());
    at::Tensor positions;
    run_kernels(length > MANY_ROWS, [&] {
        c10::SmallVector<int64_t, 256> found(length);
        int64_t count = 0;
        for (int64_t i = 0; i < length; ++i) {
            found[count] = i;
            count += read_once(given + i) != 0 ? 1 : 0;
        }
        positions = at::empty({count}, at::kLong);
        if (count > 0) std::memcpy(positions.mutable_data_ptr<int64_t>(), found.data(), count * sizeof(int64_t));
    });
    return positions;
}

// One tensor of positions, or a mask, along the first dimensions of the batch.
struct ByPositions : Reshaped {
    static constexpr bool copies = true;
    at::Tensor positions;
    Ref item;

    static bool knows(const at::Tensor& index) {
        return index.scalar_type() == at::kBool ? index.dim() == 1 : index.scalar_type() == at::kLong && index.dim() > 0;
    }

    ByPositions(PyObject* index, PyObject* batch_size) : positions(THPVariable_Unpack(index)), item(Ref::borrowed(index)) {
        if (positions.scalar_type() == at::kBool) {
            const Sizes batch = sizes_of(batch_size);
            if (batch.empty() || batch[0] != positions.size(0)) throw NotNative();
            positions = true_positions(positions);
            item = wrap(positions);
        }
    }

    at::Tensor operator()(const at::Tensor& value) const {
        // index_select takes half the time of an index
        if (positions.dim() == 1 && value.is_cpu() && value.is_contiguous()) {
            return at::index_select(value, 0, positions);
        }
        return at::index(value, {positions});
    }

    Ref size(PyObject* old) const {
        const Sizes before = sizes_of(old);
        if (before.empty()) throw NotNative();
        Sizes after(positions.sizes().begin(), positions.sizes().end());
        after.append(before.begin() + 1, before.end());
        return as_size(after);
    }
    Ref size(const Level& level) const { return size(level.size.get()); }

    // Codes lie in main memory, wherever the other values are.
    bool takes(const at::Tensor& tensor) const { return tensor.device() == positions.device(); }

    // Spans are copied as pairs, which torch would copy number by number.
    at::Tensor rows(const at::Tensor& spans) const {
        struct Pair {
            int64_t start, stop;
        };
        const bool pairs = spans.dim() == 2 && spans.size(1) == 2 && spans.scalar_type() == at::kLong &&
                           positions.dim() == 1 && spans.is_contiguous() && positions.is_contiguous() &&
                           has_own_memory(spans) && has_own_memory(positions);
        if (!pairs) return (*this)(spans);
        const int64_t count = positions.size(0), length = spans.size(0);
        at::Tensor taken = at::empty({count, 2}, spans.options());
        const auto* from = static_cast<const Pair*>(spans.const_data_ptr());
        const int64_t* position = positions.const_data_ptr<int64_t>();
        auto* to = static_cast<Pair*>(taken.mutable_data_ptr());
        bool in_range = true;
        run_kernels(count > MANY_ROWS, [&] {
            for (int64_t i = 0; i < count && in_range; ++i) {
                const int64_t row = read_once(position + i);
                in_range = row >= 0 && row < length;
                if (in_range) to[i] = from[row];
            }
        });
        if (!in_range) throw NotNative();
        return taken;
    }
    Ref other(PyObject* value) const { return other_at(value, *this); }
};

// Call `take(by)` with any index that is known here, prepared.
template <class Take>
Ref by_index(PyObject* batch_size, PyObject* item, const Take& take) {
    if (Py_TYPE(item) == bound.tensor) {
        return ByPositions::knows(THPVariable_Unpack(item)) ? take(ByPositions(item, batch_size)) : Ref();
    }
    if (!ByViews::knows(item)) return Ref();
    const ByViews by(item, PyTuple_GET_SIZE(batch_size));
    by.size(batch_size);  // before any work: an index out of range is left to Python
    return take(by);
}

// index(collection, item): `collection[item]`, of a collection without names.
inline Ref index(const Arguments& args) {
    PyObject *collection = args[0], *item = args[1];
    return by_index(batch_size_of(collection), item, [&](const auto& by) {
        const Tree tree(collection);
        if (tree.has_names()) throw NotNative();
        Tensors tensors = tree.tensors();
        run_kernels(by.copies, [&] {
            for (at::Tensor& tensor : tensors) tensor = by(tensor);
        });
        return tree.rebuilt(tensors, by);
    });
}

// index_column(column, item): `column._index_value(item)` of text or ragged rows without names.
inline Ref index_column(const Arguments& args) {
    if (!is_column(args[0]) || !is_made(args[0])) return Ref();
    return by_index(batch_size_of(args[0]), args[1], [&](const auto& by) { return leaf_at(args[0], by); });
}

inline PyMethodDef index_methods[] = {UNNAMED_OPERATION(index, 2), FUNCTION(index_column, 2), END_OF_METHODS};

}  // namespace tensorclass
