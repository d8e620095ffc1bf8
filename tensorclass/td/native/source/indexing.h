// `data[index]`.
#pragma once

#include "leaves.h"
#include "levels.h"

#include <pybind11/pybind11.h>

namespace tensorclass {

// A value that is neither a tensor nor a plain tree: `value._at(item)` of collections and columns, else `value[item]`.
template <class By>
Ref other_at(PyObject* value, PyObject* item, const By& by) {
    Ref leaf = leaf_at(value, by);
    if (leaf) return leaf;
    static PyObject* at = interned("_at");
    Ref result(is_collection(value) ? PyObject_CallMethodOneArg(value, at, item) : PyObject_GetItem(value, item));
    if (!result) throw PythonError();
    return result;
}

// One entry of an index that gives views.
struct View {
    enum Kind { Select, Slice, Insert } kind;
    int64_t start = 0, stop = 0, step = 1;
};

inline View as_slice(PyObject* slice) {
    PyObject* given = slice;
    auto* parts = reinterpret_cast<PySliceObject*>(given);
    for (PyObject* part : {parts->start, parts->stop, parts->step}) {
        if (part != Py_None && !PyLong_CheckExact(part)) throw NotNative();
    }
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(slice, &start, &stop, &step) != 0) throw PythonError();
    if (step < 0) throw NotNative();
    return {View::Slice, start, stop, step};
}

// The entries of an index of ints, slices, None and one ellipsis, for `ndim` batch dimensions. False: it has others.
// `whole` gets the index without its ellipsis, which would stand for other dimensions of a value of its own kind.
inline bool as_views(PyObject* index, int64_t ndim, c10::SmallVector<View, 4>& views, Ref& whole) {
    const bool several = PyTuple_CheckExact(index);
    const Py_ssize_t count = several ? PyTuple_GET_SIZE(index) : 1;
    int64_t consumed = 0, ellipsis = -1;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* item = several ? PyTuple_GET_ITEM(index, i) : index;
        if (PyLong_CheckExact(item)) {
            views.push_back({View::Select, as_int(item)});
            ++consumed;
        } else if (PySlice_Check(item)) {
            views.push_back(as_slice(item));
            ++consumed;
        } else if (item == Py_None) {
            views.push_back({View::Insert});
        } else if (item == Py_Ellipsis && ellipsis < 0) {
            ellipsis = static_cast<int64_t>(views.size());
        } else {
            return false;
        }
    }
    if (consumed > ndim) throw NotNative();
    if (ellipsis >= 0) {
        const View all{View::Slice, 0, PY_SSIZE_T_MAX, 1};
        const int64_t more = ndim - consumed;
        views.insert(views.begin() + ellipsis, more, all);
        Ref slice(PySlice_New(nullptr, nullptr, nullptr));
        whole = Ref(PyTuple_New(count - 1 + more));
        if (!slice || !whole) throw PythonError();
        Py_ssize_t next = 0;
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyObject* item = several ? PyTuple_GET_ITEM(index, i) : index;
            if (item != Py_Ellipsis) {
                PyTuple_SET_ITEM(whole.get(), next++, Py_NewRef(item));
                continue;
            }
            for (int64_t j = 0; j < more; ++j) PyTuple_SET_ITEM(whole.get(), next++, Py_NewRef(slice.get()));
        }
    }
    return true;
}

// An index of views, which applies to the batch dimensions of every value.
struct ByViews {
    c10::SmallVector<View, 4> views;
    PyObject* item;

    at::Tensor operator()(const at::Tensor& value) const {
        at::Tensor result;
        int64_t dim = 0;
        for (const View& view : views) {
            const at::Tensor& before = result.defined() ? result : value;
            if (view.kind == View::Select) {
                result = at::select(before, dim, view.start);
            } else if (view.kind == View::Insert) {
                result = at::unsqueeze(before, dim++);
            } else if (views.size() > 1 && view.start == 0 && view.stop == PY_SSIZE_T_MAX && view.step == 1) {
                ++dim;
            } else {
                result = at::slice(before, dim++, view.start, view.stop, view.step);
            }
        }
        return result.defined() ? result : at::alias(value);
    }

    Ref size(PyObject* old) const {
        if (views.size() == 1 && views[0].kind == View::Select && PyTuple_GET_SIZE(old) == 1) {
            check_row(as_int(PyTuple_GET_ITEM(old, 0)), views[0].start);
            return Ref::borrowed(bound.no_dims);
        }
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
            if (view.kind == View::Select) {
                check_row(length, view.start);
            } else {
                Py_ssize_t start = view.start, stop = view.stop;
                after.push_back(PySlice_AdjustIndices(length, &start, &stop, view.step));
            }
        }
        after.append(before.begin() + dim, before.end());
        return as_size(after);
    }
    Ref size(const Level& level) const { return size(level.size.get()); }

    static void check_row(int64_t length, int64_t row) {
        if (row < -length || row >= length) throw NotNative();
    }

    bool takes(const at::Tensor&) const { return true; }
    at::Tensor rows(const at::Tensor& spans) const { return (*this)(spans); }
    static PyObject* names(const Level&) { return Py_None; }
    Ref other(PyObject* value) const { return other_at(value, item, *this); }
    void done(PyObject*, const Level&) const {}
};

// One tensor of positions, along the first dimensions of the batch.
struct ByPositions {
    at::Tensor positions;
    PyObject* item;

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
        const bool pairs = spans.dim() == 2 && positions.dim() == 1 && spans.is_contiguous() &&
                           positions.is_contiguous() && has_own_memory(spans) && has_own_memory(positions);
        if (!pairs) return (*this)(spans);
        const int64_t count = positions.size(0), length = spans.size(0);
        at::Tensor taken = at::empty({count, 2}, spans.options());
        const int64_t* from = spans.const_data_ptr<int64_t>();
        const int64_t* position = positions.const_data_ptr<int64_t>();
        int64_t* to = taken.mutable_data_ptr<int64_t>();
        bool in_range = true;
        run_kernels(count > MANY_ROWS, [&] {
            for (int64_t i = 0; i < count && in_range; ++i) {
                const int64_t row = read_once(position + i);
                in_range = row >= 0 && row < length;
                if (!in_range) break;
                to[2 * i] = from[2 * row];
                to[2 * i + 1] = from[2 * row + 1];
            }
        });
        if (!in_range) throw NotNative();
        return taken;
    }

    static PyObject* names(const Level&) { return Py_None; }
    Ref other(PyObject* value) const { return other_at(value, item, *this); }
    void done(PyObject*, const Level&) const {}
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

// Call `take(by)` with any index that is known here, prepared.
template <class Take>
Ref by_index(PyObject* collection, PyObject* item, const Take& take) {
    if (Py_TYPE(item) == bound.tensor) {
        const at::Tensor given = THPVariable_Unpack(item);
        ByPositions by{given, item};
        Ref positions;
        if (given.scalar_type() == at::kBool) {
            const Sizes batch = sizes_of(batch_size_of(collection));
            if (given.dim() != 1 || batch.empty() || batch[0] != given.size(0)) throw NotNative();
            by.positions = true_positions(given);
            positions = wrap(by.positions);
            by.item = positions.get();
        } else if (given.scalar_type() != at::kLong || given.dim() == 0) {
            throw NotNative();
        }
        return take(by);
    }
    ByViews by{{}, item};
    Ref whole;
    if (!as_views(item, PyTuple_GET_SIZE(batch_size_of(collection)), by.views, whole)) throw NotNative();
    if (whole) by.item = whole.get();
    by.size(batch_size_of(collection));  // before any work: an index out of range is left to Python
    return take(by);
}

inline void index_all(const ByViews& by, Tensors& tensors) {
    for (at::Tensor& tensor : tensors) tensor = by(tensor);
}
inline void index_all(const ByPositions& by, Tensors& tensors) {
    pybind11::gil_scoped_release without_lock;
    for (at::Tensor& tensor : tensors) tensor = by(tensor);
}

inline Ref indexed(PyObject* collection, PyObject* item) {
    return by_index(collection, item, [&](auto& by) {
        const Tree tree(collection);
        if (tree.has_names_below()) throw NotNative();
        Tensors tensors = tree.tensors();
        index_all(by, tensors);
        return tree.rebuilt(tensors, by);
    });
}

// index(collection, item): `collection[item]`, of a collection without names.
inline PyObject* py_index(PyObject* const* args) {
    if (!is_plain(args[0]) || has_names(args[0]) || args[1] == Py_Ellipsis) Py_RETURN_NONE;  // `data[...]` is the same
    return attempt([&] { return indexed(args[0], args[1]); });
}

// index_column(column, item): `column._at(item)` of text or ragged rows without names.
inline PyObject* py_index_column(PyObject* const* args) {
    if (!is_column(args[0]) || !is_made(args[0])) Py_RETURN_NONE;
    return attempt([&] { return by_index(args[0], args[1], [&](const auto& by) { return leaf_at(args[0], by); }); });
}

inline PyMethodDef index_methods[] = {OPERATION(index, 2), OPERATION(index_column, 2), END_OF_METHODS};

}  // namespace tensorclass
