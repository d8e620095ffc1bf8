// Strings from the bytes of a column, and back.
#pragma once

#include "leaves.h"

namespace tensorclass {

// The bytes that spans refer to.
struct Bytes {
    const char* data;
    int64_t count;
    std::string copy{};

    // The string of one row, None without one. What is out of range, or not UTF-8, is left to Python.
    Ref string(int64_t start, int64_t length) {
        if (length < 0) return Ref::borrowed(Py_None);
        if (start < 0 || length > count || start > count - length) {
            if (length != 0) throw NotNative();
            start = 0;
        }
        copy.assign(data + start, length);  // the decoder reads bytes several times, which others can write
        Ref text(PyUnicode_DecodeUTF8(copy.data(), length, nullptr));
        if (!text) throw PythonError();
        return text;
    }
};

// The memory of the items of a column, which the tensor keeps.
inline at::Tensor items_of(PyObject* column) {
    PyObject* buffer = slot(column, leaves.items);
    if (buffer == nullptr || !is_tensor(buffer)) throw NotNative();
    at::Tensor items = THPVariable_Unpack(buffer);
    if (items.scalar_type() != at::kByte || items.dim() != 1 || !items.is_contiguous() || !has_own_memory(items)) {
        throw NotNative();
    }
    return items;
}
inline Bytes bytes_of(const at::Tensor& items) {
    return {items.numel() == 0 ? "" : reinterpret_cast<const char*>(items.const_data_ptr<uint8_t>()), items.numel()};
}

// Spans in memory, ``int64[*batch, 2]``.
inline at::Tensor spans_of(PyObject* text) {
    at::Tensor spans = is_made(text) ? tensor_of(text, leaves.spans) : at::Tensor();
    if (!spans.defined() || spans.scalar_type() != at::kLong || spans.dim() == 0 || spans.size(-1) != 2 ||
        !has_own_memory(spans)) {
        throw NotNative();
    }
    return spans;
}

inline bool is_text(PyObject* value) { return leaves.text != nullptr && Py_TYPE(value) == leaves.text; }

// strings(text): those of all rows of a Text in flat order, as a list, or None.
inline PyObject* py_strings(PyObject* const* args) {
    if (!is_text(args[0])) Py_RETURN_NONE;
    return attempt([&] {
        const at::Tensor spans = spans_of(args[0]).contiguous(), items = items_of(args[0]);
        Bytes bytes = bytes_of(items);
        const int64_t* span = spans.const_data_ptr<int64_t>();
        const int64_t rows = spans.numel() / 2;
        Ref list(PyList_New(rows));
        if (!list) throw PythonError();
        for (int64_t i = 0; i < rows; ++i) {
            PyList_SET_ITEM(list.get(), i, bytes.string(read_once(span + 2 * i), read_once(span + 2 * i + 1)).release());
        }
        return list;
    });
}

// string(text, row): that of one row of a Text with one batch dimension, or None.
inline PyObject* py_string(PyObject* const* args) {
    if (!is_text(args[0]) || !PyLong_CheckExact(args[1])) Py_RETURN_NONE;
    return attempt([&] {
        const at::Tensor spans = spans_of(args[0]), items = items_of(args[0]);
        if (spans.dim() != 2) throw NotNative();
        int64_t row = as_int(args[1]);
        if (row < 0) row += spans.size(0);
        if (row < 0 || row >= spans.size(0)) throw NotNative();
        const int64_t* span = spans.const_data_ptr<int64_t>() + row * spans.stride(0);
        Ref found = bytes_of(items).string(read_once(span), read_once(span + spans.stride(1)));
        if (found.get() == Py_None) throw NotNative();
        return found;
    });
}

// encode(strings): the bytes of a list of strings and None, ``uint8[bytes]``, and their spans, ``int64[n, 2]``; or None.
inline PyObject* py_encode(PyObject* const* args) {
    if (!PyList_CheckExact(args[0])) Py_RETURN_NONE;
    return attempt([&] {
        if (c10::impl::TorchDispatchModeTLS::stack_len() > 0) throw NotNative();
        const Items strings(args[0]);
        const auto rows = static_cast<Py_ssize_t>(strings.size());
        std::vector<Ref> encoded;  // bytes of strings that are not ASCII; others have theirs in them
        std::vector<const char*> pieces(rows);
        at::Tensor spans = at::empty({rows, 2}, at::kLong);
        int64_t* span = spans.mutable_data_ptr<int64_t>();
        int64_t total = 0;
        for (Py_ssize_t i = 0; i < rows; ++i) {
            PyObject* item = strings[i];
            int64_t length = -1;
            if (PyUnicode_Check(item)) {
                if (PyUnicode_IS_ASCII(item)) {
                    pieces[i] = reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(item));
                    length = PyUnicode_GET_LENGTH(item);
                } else {
                    encoded.emplace_back(PyUnicode_AsUTF8String(item));
                    if (!encoded.back()) throw PythonError();
                    pieces[i] = PyBytes_AS_STRING(encoded.back().get());
                    length = PyBytes_GET_SIZE(encoded.back().get());
                }
            } else if (item != Py_None) {
                throw NotNative();
            }
            span[2 * i] = total;
            span[2 * i + 1] = length;
            total += std::max<int64_t>(length, 0);
        }
        at::Tensor bytes = at::empty({total}, at::kByte);
        auto* data = reinterpret_cast<char*>(bytes.mutable_data_ptr<uint8_t>());
        for (Py_ssize_t i = 0; i < rows; ++i) {
            if (span[2 * i + 1] > 0) std::memcpy(data + span[2 * i], pieces[i], span[2 * i + 1]);
        }
        Ref buffer = wrap(bytes), wrapped = wrap(spans);
        Ref both(PyTuple_Pack(2, buffer.get(), wrapped.get()));
        if (!both) throw PythonError();
        return both;
    });
}

inline PyMethodDef utf8_methods[] = {METHOD(strings, 1), METHOD(string, 2), METHOD(encode, 1), END_OF_METHODS};

}  // namespace tensorclass
