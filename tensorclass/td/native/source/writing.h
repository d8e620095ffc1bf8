// Writes in place: `data[index] = rows`, `data[index] = number`, `update_`, `set_`, `copy_`.
//
// All tensors are looked at before the first is written. What could fail is left, with nothing written, to Python.
#pragma once

#include "indexing.h"
#include "pointwise.h"

#include <ATen/Dispatch.h>

#include <array>

namespace tensorclass {

// What an index selects of every value: a range of rows, rows at positions, or a view.
struct Selection {
    bool whole = false;                   // all rows
    int64_t length = 0;                   // of the first batch dimension
    int64_t start = 0, count = 0;         // of the rows
    bool is_row = false;                  // one row, without its dimension
    at::Tensor given;                     // the index, if it is a tensor
    at::Tensor positions;                 // of the rows, each in [0, length)
    std::optional<ByViews> views;         // every other index

    bool has_positions() const { return positions.defined(); }

    // The shape of what is selected of a value, views aside.
    bool selects(c10::IntArrayRef sizes, c10::IntArrayRef selected) const {
        if (whole) return sizes == selected;
        if (sizes.empty() || sizes[0] != length) return false;
        if (is_row) return sizes.slice(1) == selected;
        return !selected.empty() && selected[0] == count && sizes.slice(1) == selected.slice(1);
    }

    at::Tensor view(const at::Tensor& value) const {
        if (views) return (*views)(value);
        if (whole) return value;
        return is_row ? at::select(value, 0, start) : at::slice(value, 0, start, start + count);
    }
};

// Positions in [0, length), from an index of ints that can be negative. False: one is out of range.
//
// They are copied, and it is the copy that is checked: another thread can write to the index until the rows are written.
inline bool wrap_positions(const at::Tensor& index, int64_t length, at::Tensor& wrapped) {
    const int64_t count = index.numel();
    const int64_t* given = index.const_data_ptr<int64_t>();
    wrapped = at::empty({count}, at::kLong);
    int64_t* found = wrapped.mutable_data_ptr<int64_t>();
    bool in_range = true;
    run_kernels(count > MANY_ROWS, [&] {
        for (int64_t i = 0; i < count; ++i) {
            const int64_t position = read_once(given + i);
            in_range = in_range && position >= -length && position < length;
            found[i] = position < 0 ? position + length : position;
        }
    });
    return in_range;
}

// False: an index that is not known here.
inline bool select_rows(PyObject* index, const Sizes& batch, Selection& selection) {
    if (PyTuple_CheckExact(index) && PyTuple_GET_SIZE(index) == 1) index = PyTuple_GET_ITEM(index, 0);
    if (index == Py_Ellipsis) {
        selection.whole = true;
        return true;
    }
    if (batch.empty()) return false;
    const int64_t length = selection.length = batch[0];
    if (Py_TYPE(index) == bound.tensor) {
        const at::Tensor& given = selection.given = THPVariable_Unpack(index);
        if (!is_block(given) || given.dim() != 1) return false;
        if (given.scalar_type() == at::kBool) {
            if (given.numel() != length) return false;
            selection.positions = true_positions(given);
        } else if (given.scalar_type() != at::kLong || !wrap_positions(given, length, selection.positions)) {
            return false;
        }
        selection.count = selection.positions.numel();
        return true;
    }
    if (PyLong_CheckExact(index)) {
        const int64_t row = as_int(index);
        if (row < -length || row >= length) return false;
        selection.start = row < 0 ? row + length : row;
        selection.is_row = true;
        selection.count = 1;
        return true;
    }
    if (PySlice_Check(index)) {
        const View slice = as_slice(index);
        Py_ssize_t start = slice.start, stop = slice.stop;
        if (slice.step == 1) {
            selection.count = PySlice_AdjustIndices(length, &start, &stop, 1);
            selection.start = start;
            return true;
        }
    } else if (!ByViews::knows(index)) {
        return false;
    }
    selection.views.emplace(index, static_cast<int64_t>(batch.size()));
    return true;
}

// Whether rows of a batch size belong at an index.
inline bool fits(const Selection& selection, PyObject* collection, const Sizes& batch, const Sizes& rows) {
    if (selection.views) {
        const Ref expected = selection.views->size(batch_size_of(collection));
        return sizes_of(expected.get()) == rows;
    }
    return selection.selects(batch, rows);
}

// One number, as an element of a dtype.
using Element = std::array<char, 16>;

inline Element as_element(const c10::Scalar& number, at::ScalarType dtype) {
    Element element;
    switch (dtype) {
        case at::kByte: case at::kChar: case at::kShort: case at::kInt: case at::kLong: case at::kBool: case at::kHalf:
        case at::kBFloat16: case at::kFloat: case at::kDouble: case at::kComplexFloat: case at::kComplexDouble: break;
        default: throw NotNative();  // what the dispatch throws takes long to make
    }
    AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(at::kBool, at::kHalf, at::kBFloat16, dtype, "as_element", [&] {
        const scalar_t converted = number.to<scalar_t>();
        std::memcpy(element.data(), &converted, sizeof(converted));
    });
    return element;
}

inline void repeat_element(char* target, size_t bytes, const Element& element, size_t itemsize) {
    if (itemsize == 1) {
        std::memset(target, element[0], bytes);
        return;
    }
    for (size_t done = 0; done < bytes; done += itemsize) std::memcpy(target + done, element.data(), itemsize);
}

// Writes that cannot fail, in order.
class Writes {
public:
    explicit Writes(const Selection& selection) : selection_(selection) {}

    // Look at one write. False: it is left to Python.
    bool add(const at::Tensor& target, const at::Tensor& source) {
        if (!is_writable(target) || !is_untracked(source)) return false;
        Step step{target, source};
        if (!add_direct(step)) {
            if (selection_.has_positions()) return false;
            step.target = selection_.view(target);
            if (step.target.sizes() != source.sizes() || share_storage(target, source)) return false;
            if (source.is_complex() && !target.is_complex()) return false;  // torch warns
            if (at::has_internal_overlap(step.target) == at::MemOverlap::Yes) return false;
            kernels_ = true;
        }
        steps_.push_back(std::move(step));
        return true;
    }

    bool add(const at::Tensor& target, const c10::Scalar& number) {
        if (!is_writable(target) || !is_block(target) || selection_.views) return false;
        if (!selection_.whole && (target.dim() == 0 || target.size(0) != selection_.length)) return false;
        Step step{target};
        place(step);
        if (step.bytes * (selection_.has_positions() ? selection_.count : 1) > SMALL) return false;
        if (is_index(target)) return false;
        step.element = as_element(number, target.scalar_type());
        steps_.push_back(std::move(step));
        return true;
    }

    void run() {
        if (!kernels_) {
            for (Step& step : steps_) write(step);
            return;
        }
        // without the lock another thread can change where the memory of a tensor lies, so kernels write all
        for (Step& step : steps_) {
            if (step.start != nullptr) step.target = selection_.view(step.target);
        }
        const pybind11::gil_scoped_release without_lock;
        for (Step& step : steps_) step.target.copy_(step.source);
    }

private:
    struct Step {
        at::Tensor target;
        at::Tensor source{};        // undefined: a number
        char* start = nullptr;      // of the rows; null: a kernel copies
        size_t bytes = 0;           // of all rows, or of each at a position
        Element element{};
    };
    const Selection& selection_;
    c10::SmallVector<Step, 4> steps_;
    bool kernels_ = false;

    // Whether a write to a tensor would change the index.
    bool is_index(const at::Tensor& target) const {
        return selection_.given.defined() && share_storage(target, selection_.given);
    }

    void place(Step& step) const {
        const at::Tensor& target = step.target;
        const size_t row = selection_.length == 0 ? 0 : target.nbytes() / selection_.length;
        step.start = static_cast<char*>(target.mutable_data_ptr());
        if (selection_.whole) {
            step.bytes = target.nbytes();
        } else if (selection_.has_positions()) {
            step.bytes = row;
        } else {
            step.start += selection_.start * row;
            step.bytes = selection_.count * row;
        }
    }

    bool add_direct(Step& step) const {
        const at::Tensor &target = step.target, &source = step.source;
        if (selection_.views || target.dtype() != source.dtype() || source.nbytes() > SMALL) return false;
        if (!is_block(target) || !is_block(source)) return false;
        if (!selection_.selects(target.sizes(), source.sizes()) || is_index(target)) return false;
        place(step);
        const char* from = static_cast<const char*>(source.const_data_ptr());
        const char* start = selection_.has_positions() ? static_cast<const char*>(target.const_data_ptr()) : step.start;
        const size_t bytes = selection_.has_positions() ? target.nbytes() : step.bytes;
        const bool apart = from + source.nbytes() <= start || start + bytes <= from;
        if (!apart) step.start = nullptr;
        return apart;
    }

    void write(Step& step) const {
        if (step.start == nullptr && step.target.numel() != 0) {
            step.target.copy_(step.source);
            return;
        }
        step.target.unsafeGetTensorImpl()->bump_version();
        if (step.bytes == 0) return;
        if (!selection_.has_positions()) {
            write_block(step, step.start, 0);
            return;
        }
        const int64_t* positions = selection_.positions.const_data_ptr<int64_t>();
        for (int64_t i = 0; i < selection_.count; ++i) {
            write_block(step, step.start + positions[i] * step.bytes, i * step.bytes);
        }
    }

    static void write_block(const Step& step, char* target, size_t offset) {
        if (step.source.defined()) {
            std::memcpy(target, static_cast<const char*>(step.source.const_data_ptr()) + offset, step.bytes);
        } else {
            repeat_element(target, step.bytes, step.element, step.target.element_size());
        }
    }
};

// Look at the values of `source`, a collection or a dict (with `whole`: at those of the target), and at those that they are
// written into.
inline bool add_all(PyObject* target, PyObject* source, bool whole, Writes& writes) {
    const Tree tree(whole ? target : source, /*dicts=*/true);
    if (tree.has_others()) return false;
    const Ref other = Ref::borrowed(whole ? source : target);
    const Beside rows(tree, other, /*exact=*/false);
    for (size_t i = 0; i < tree.nodes().size(); ++i) {
        const Tree::Node& node = tree.nodes()[i];
        PyObject *current = node.value.get(), *value = rows[i][0].get();
        if (!whole) std::swap(current, value);
        if (!PyUnicode_CheckExact(node.key.get())) return false;
        if (node.kind == Tree::Kind::Level) {  // records check their classes
            if (!PyDict_CheckExact(value) && Py_TYPE(value) != Py_TYPE(current)) return false;
        } else if (!is_tensor(current) || !is_tensor(value) ||
                   !writes.add(THPVariable_Unpack(current), THPVariable_Unpack(value))) {
            return false;
        }
    }
    return true;
}

inline bool fill_all(PyObject* collection, const c10::Scalar& number, Writes& writes) {
    const Tree tree(collection);
    return !tree.has_others() && are_all(tree.tensors(), [&](const at::Tensor& tensor) { return writes.add(tensor, number); });
}

// write(collection, index, value): `collection[index] = value`, rows or a number. True if all is written.
inline Ref write(const Arguments& args) {
    PyObject *collection = args[0], *value = args[2];
    c10::Scalar number;
    const bool rows = is_plain(value);
    if (!is_untransformed() || (!rows && !as_number(value, number))) return Ref();
    const Sizes batch = sizes_of(batch_size_of(collection));
    Selection selection;
    if (!select_rows(args[1], batch, selection)) return Ref();
    if (rows && !fits(selection, collection, batch, sizes_of(batch_size_of(value)))) return Ref();
    Writes writes(selection);
    if (!(rows ? add_all(collection, value, false, writes) : fill_all(collection, number, writes))) return Ref();
    writes.run();
    return yes();
}

// write_all(collection, source, whole, non_blocking): the values of a source (or all of the collection) in place, as `update_`
// does. True if all is written.
inline Ref write_all(const Arguments& args) {
    if (!is_untransformed() || (!PyDict_CheckExact(args[1]) && !is_plain(args[1]))) return Ref();
    Selection all;
    all.whole = true;
    Writes writes(all);
    if (!add_all(args[0], args[1], args[2] == Py_True, writes)) return Ref();
    writes.run();
    return yes();
}

// write_key(collection, key, value): the tensor under a key in place, as `set_` does. The collection.
inline Ref write_key(const Arguments& args) {
    if (!is_untransformed() || !PyUnicode_CheckExact(args[1]) || !is_tensor(args[2])) return Ref();
    const Ref current = lookup(store_of(args[0]), args[1]);
    Selection all;
    all.whole = true;
    Writes writes(all);
    const bool known = current && is_tensor(current.get()) && is_tensor(args[2]);
    if (!known || !writes.add(THPVariable_Unpack(current.get()), THPVariable_Unpack(args[2]))) return Ref();
    writes.run();
    return Ref::borrowed(args[0]);
}

// are_tensors_of(entries, batch_size): whether a dict has only tensors of this batch size, under strings.
inline Ref are_tensors_of(const Arguments& args) {
    if (!PyDict_Check(args[0]) || !PyTuple_Check(args[1])) return Ref();
    for (const auto& [key, value] : entries_of(args[0])) {
        if (!PyUnicode_CheckExact(key.get()) || !fits(value.get(), args[1])) return Ref();
    }
    return yes();
}

// The kernels copy, and none of the copies that are made here warns.
inline PyMethodDef write_methods[] = {QUIET_OPERATION(write, 3), QUIET_OPERATION(write_all, 4), QUIET_OPERATION(write_key, 3),
                                      QUIET_FUNCTION(are_tensors_of, 2), END_OF_METHODS};

}  // namespace tensorclass
