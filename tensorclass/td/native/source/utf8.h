// Strings from the bytes of a column, and back.
#pragma once

#include "leaves.h"

namespace tensorclass {

// The bytes that spans refer to.
struct Bytes {
    const char* data;
    int64_t count;

    // The string of one row, None without one. What is out of range, or not UTF-8, is left to Python.
    Ref string(int64_t start, int64_t length) const {
        if (length < 0) return Ref::borrowed(Py_None);
        if (start < 0 || length > count || start > count - length) {
            if (length != 0) throw NotNative();
            start = 0;
        }
        Ref text(PyUnicode_DecodeUTF8(data + start, length, nullptr));
        if (!text) throw PythonError();
        return text;
    }
};

inline Bytes bytes_of(PyObject* buffer) {
    if (!is_tensor(buffer)) throw NotNative();
    const at::Tensor& tensor = THPVariable_Unpack(buffer);
    if (tensor.scalar_type() != at::kByte || tensor.dim() != 1 || !tensor.is_contiguous() || !has_own_memory(tensor)) {
        throw NotNative();
    }
    return {tensor.numel() == 0 ? "" : reinterpret_cast<const char*>(tensor.const_data_ptr<uint8_t>()), tensor.numel()};
}

// Spans in memory, ``int64[*batch, 2]``.
inline at::Tensor spans_of(PyObject* text) {
    PyObject* given = is_made(text) ? tensor_of(text, leaves.spans) : nullptr;
    if (given == nullptr) throw NotNative();
    at::Tensor spans = THPVariable_Unpack(given);
    if (spans.scalar_type() != at::kLong || spans.dim() == 0 || spans.size(-1) != 2 || !has_own_memory(spans)) {
        throw NotNative();
    }
    return spans;
}

inline bool is_text(PyObject* value) { return leaves.text != nullptr && Py_TYPE(value) == leaves.text; }

// strings(text): those of all rows of a Text in flat order, as a list, or None.
inline PyObject* py_strings(PyObject*, PyObject* const* args, Py_ssize_t) {
    if (!is_text(args[0])) Py_RETURN_NONE;
    return attempt([&] {
        const at::Tensor spans = spans_of(args[0]).contiguous();
        const Bytes bytes = bytes_of(slot(args[0], leaves.items));
        const int64_t* span = spans.const_data_ptr<int64_t>();
        const int64_t rows = spans.numel() / 2;
        Ref list(PyList_New(rows));
        if (!list) throw PythonError();
        for (int64_t i = 0; i < rows; ++i) {
            PyList_SET_ITEM(list.get(), i, bytes.string(span[2 * i], span[2 * i + 1]).release());
        }
        return list;
    });
}

// string(text, row): that of one row of a Text with one batch dimension, or None.
inline PyObject* py_string(PyObject*, PyObject* const* args, Py_ssize_t) {
    if (!is_text(args[0]) || !PyLong_CheckExact(args[1])) Py_RETURN_NONE;
    return attempt([&] {
        const at::Tensor spans = spans_of(args[0]);
        if (spans.dim() != 2) throw NotNative();
        int64_t row = as_int(args[1]);
        if (row < 0) row += spans.size(0);
        if (row < 0 || row >= spans.size(0)) throw NotNative();
        const int64_t* span = spans.const_data_ptr<int64_t>() + row * spans.stride(0);
        Ref found = bytes_of(slot(args[0], leaves.items)).string(span[0], span[spans.stride(1)]);
        if (found.get() == Py_None) throw NotNative();
        return found;
    });
}

// encode(strings): the bytes of a list of strings and None, ``uint8[bytes]``, and their spans, ``int64[n, 2]``; or None.
inline PyObject* py_encode(PyObject*, PyObject* const* args, Py_ssize_t) {
    if (!PyList_CheckExact(args[0])) Py_RETURN_NONE;
    return attempt([&] {
        if (c10::impl::TorchDispatchModeTLS::stack_len() > 0) throw NotNative();
        const Py_ssize_t rows = PyList_GET_SIZE(args[0]);
        std::vector<Ref> encoded;  // bytes of strings that are not ASCII; others have theirs in them
        std::vector<const char*> pieces(rows);
        at::Tensor spans = at::empty({rows, 2}, at::kLong);
        int64_t* span = spans.mutable_data_ptr<int64_t>();
        int64_t total = 0;
        for (Py_ssize_t i = 0; i < rows; ++i) {
            PyObject* item = PyList_GET_ITEM(args[0], i);
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

inline PyMethodDef utf8_methods[] = {METHOD(strings), METHOD(string), METHOD(encode), {nullptr, nullptr, 0, nullptr}};

}  // namespace tensorclass
