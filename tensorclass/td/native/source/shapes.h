// Operations that change the batch dimensions: reshape, view, flatten, unflatten, squeeze, unsqueeze, expand, permute.
#pragma once

#include "collections.h"

namespace tensorclass {

struct Inverses {
    PyObject *copied = nullptr, *resized = nullptr, *permuted = nullptr;
};
extern Inverses inverses;

// The ints of arguments given one by one or as one sequence.
inline Sizes ints_of(PyObject* args) {
    if (PyTuple_GET_SIZE(args) == 1 && !PyLong_CheckExact(PyTuple_GET_ITEM(args, 0))) args = PyTuple_GET_ITEM(args, 0);
    if (PyTuple_Check(args)) return sizes_of(args);
    if (!PyList_CheckExact(args)) throw NotNative();
    Sizes sizes;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args); ++i) sizes.push_back(as_int(PyList_GET_ITEM(args, i)));
    return sizes;
}

inline int64_t product(c10::ArrayRef<int64_t> sizes) {
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    return count;
}

// The position of a dimension, counted from the front.
inline int64_t wrapped(int64_t dim, int64_t ndim) {
    if (dim < -ndim || dim >= ndim) throw NotNative();
    return dim < 0 ? dim + ndim : dim;
}

// What all these operations have in common: the first `ndim` dimensions become `after`.
struct Prefix {
    Sizes after;
    int64_t ndim = 0;
    const char* method = nullptr;   // that other values are asked for
    PyObject* arguments = nullptr;  // of the method; null: the new shape, the value's own dimensions included
    PyObject* inverse = nullptr;
    PyObject* order = nullptr;  // of the inverse of a permutation

    Sizes of(c10::IntArrayRef before) const {
        Sizes sizes(after);
        sizes.append(before.begin() + ndim, before.end());
        return sizes;
    }

    Ref size(PyObject* collection) const {
        PyObject* before = batch_size_of(collection);
        if (PyTuple_GET_SIZE(before) == ndim) return as_size(after);
        return as_size(of(sizes_of(before)));
    }

    Ref other(PyObject* value) const {
        static PyObject* hidden = PyUnicode_InternFromString("_hidden_members");
        if (is_collection(value)) {  // a field may have the name of the method
            PyObject* members = _PyType_Lookup(Py_TYPE(value), hidden);
            if (members != nullptr && members != Py_None) throw NotNative();
        }
        Ref called(PyObject_GetAttrString(value, method));
        if (!called) throw PythonError();
        Ref result;
        if (arguments != nullptr) {
            result = Ref(PyObject_CallObject(called.get(), arguments));
        } else {
            Ref shape(PyObject_GetAttrString(value, "shape"));
            if (!shape || !PyTuple_Check(shape.get())) throw NotNative();
            const Sizes before = sizes_of(shape.get());
            if (static_cast<int64_t>(before.size()) < ndim) throw NotNative();
            Ref size = as_size(of(before));
            result = Ref(PyObject_CallObject(called.get(), size.get()));
        }
        if (!result) throw PythonError();
        return result;
    }

    // The order for a level with more batch dimensions: these stay.
    Ref order_of(Py_ssize_t dims) const {
        const Py_ssize_t count = PyTuple_GET_SIZE(order);
        if (dims == count) return Ref::borrowed(order);
        Ref all(PyTuple_New(dims));
        if (!all) throw PythonError();
        for (Py_ssize_t dim = 0; dim < dims; ++dim) {
            PyObject* entry = dim < count ? Py_NewRef(PyTuple_GET_ITEM(order, dim)) : PyLong_FromSsize_t(dim);
            if (entry == nullptr) throw PythonError();
            PyTuple_SET_ITEM(all.get(), dim, entry);
        }
        return all;
    }

    void done(PyObject* result, PyObject* source) const {
        if (inverse == nullptr) return;
        Ref reference(PyWeakref_NewRef(source, nullptr));
        if (!reference) throw PythonError();
        Ref own = order == nullptr ? Ref() : order_of(PyTuple_GET_SIZE(batch_size_of(source)));
        PyObject* context = order == nullptr ? PyTuple_Pack(3, bound.empty, inverse, reference.get())
                                             : PyTuple_Pack(4, bound.empty, inverse, reference.get(), own.get());
        if (context == nullptr) throw PythonError();
        Py_XSETREF(slot(result, bound.context), context);
    }
};

template <class Leaf>
Ref reshaped(PyObject* collection, const Prefix& prefix, const Leaf& leaf) {
    Tensors tensors;
    collect(collection, tensors, true);
    for (at::Tensor& tensor : tensors) tensor = leaf(tensor);
    size_t next = 0;
    return build(collection, tensors, next, prefix, Py_None);
}

// The batch size that `reshape` gives, with -1 replaced.
inline Sizes new_shape(const Sizes& before, Sizes shape) {
    if (shape.empty()) throw NotNative();
    int64_t known = 1, free = -1;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
        if (shape[dim] == -1 && free < 0) {
            free = static_cast<int64_t>(dim);
        } else if (shape[dim] < 0) {
            throw NotNative();
        } else {
            known *= shape[dim];
        }
    }
    const int64_t count = product(before);
    if (free >= 0) {
        if (known == 0 || count % known != 0) throw NotNative();
        shape[free] = count / known;
    } else if (known != count) {
        throw NotNative();
    }
    return shape;
}

inline Ref reshape(PyObject* collection, PyObject* args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    Prefix prefix{new_shape(before, ints_of(args)), static_cast<int64_t>(before.size()), "reshape"};
    prefix.inverse = inverses.copied;
    return reshaped(collection, prefix,
                    [&](const at::Tensor& tensor) { return tensor.reshape(prefix.of(tensor.sizes())); });
}

inline Ref view(PyObject* collection, PyObject* args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    Prefix prefix{new_shape(before, ints_of(args)), static_cast<int64_t>(before.size()), "view"};
    prefix.inverse = inverses.resized;
    return reshaped(collection, prefix, [&](const at::Tensor& tensor) { return tensor.view(prefix.of(tensor.sizes())); });
}

// flatten(collection, (first, last)), of wrapped dimensions.
inline Ref flatten(PyObject* collection, PyObject* args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    const int64_t ndim = static_cast<int64_t>(before.size());
    const int64_t first = wrapped(as_int(PyTuple_GET_ITEM(args, 0)), ndim);
    const int64_t last = wrapped(as_int(PyTuple_GET_ITEM(args, 1)), ndim);
    if (first > last) throw NotNative();
    Ref wrapped_args(Py_BuildValue("(LL)", static_cast<long long>(first), static_cast<long long>(last)));
    if (!wrapped_args) throw PythonError();
    Prefix prefix{{}, ndim, "flatten", wrapped_args.get(), inverses.copied};
    prefix.after.append(before.begin(), before.begin() + first);
    prefix.after.push_back(product(c10::ArrayRef<int64_t>(before.data() + first, last - first + 1)));
    prefix.after.append(before.begin() + last + 1, before.end());
    return reshaped(collection, prefix, [&](const at::Tensor& tensor) { return tensor.flatten(first, last); });
}

// unflatten(collection, (dim, sizes)).
inline Ref unflatten(PyObject* collection, PyObject* args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    const int64_t ndim = static_cast<int64_t>(before.size());
    const int64_t dim = wrapped(as_int(PyTuple_GET_ITEM(args, 0)), ndim);
    if (!PyTuple_Check(PyTuple_GET_ITEM(args, 1))) throw NotNative();
    const Sizes sizes = new_shape({before[dim]}, sizes_of(PyTuple_GET_ITEM(args, 1)));
    Ref wrapped_args(Py_BuildValue("(LO)", static_cast<long long>(dim), PyTuple_GET_ITEM(args, 1)));
    if (!wrapped_args) throw PythonError();
    Prefix prefix{{}, ndim, "unflatten", wrapped_args.get(), inverses.resized};
    prefix.after.append(before.begin(), before.begin() + dim);
    prefix.after.append(sizes.begin(), sizes.end());
    prefix.after.append(before.begin() + dim + 1, before.end());
    return reshaped(collection, prefix, [&](const at::Tensor& tensor) { return tensor.unflatten(dim, sizes); });
}

// squeeze(collection, (dim,)): one dimension, or None for all.
inline Ref squeeze(PyObject* collection, PyObject* args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    const int64_t ndim = static_cast<int64_t>(before.size());
    PyObject* given = PyTuple_GET_ITEM(args, 0);
    const int64_t only = given == Py_None ? -1 : wrapped(as_int(given), ndim);
    Prefix prefix{{}, ndim, "squeeze", nullptr, inverses.resized};
    Sizes dims;
    for (int64_t dim = 0; dim < ndim; ++dim) {
        if (before[dim] == 1 && (given == Py_None || dim == only)) {
            dims.push_back(dim);
        } else {
            prefix.after.push_back(before[dim]);
        }
    }
    // one dimension is an int, as in the Python code, so that gradients have the same functions
    Ref removed = dims.size() == 1 ? Ref(PyLong_FromLongLong(dims[0])) : as_size(dims);
    Ref arguments(removed ? PyTuple_Pack(1, removed.get()) : nullptr);
    if (!arguments) throw PythonError();
    prefix.arguments = arguments.get();
    return reshaped(collection, prefix, [&](const at::Tensor& tensor) {
        return dims.size() == 1 ? tensor.squeeze(dims[0]) : tensor.squeeze(dims);
    });
}

// unsqueeze(collection, (dim,)).
inline Ref unsqueeze(PyObject* collection, PyObject* args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    const int64_t ndim = static_cast<int64_t>(before.size());
    const int64_t dim = wrapped(as_int(PyTuple_GET_ITEM(args, 0)), ndim + 1);
    Ref wrapped_args(Py_BuildValue("(L)", static_cast<long long>(dim)));
    if (!wrapped_args) throw PythonError();
    Prefix prefix{before, ndim, "unsqueeze", wrapped_args.get(), inverses.resized};
    prefix.after.insert(prefix.after.begin() + dim, 1);
    return reshaped(collection, prefix, [&](const at::Tensor& tensor) { return tensor.unsqueeze(dim); });
}

inline Ref expand(PyObject* collection, PyObject* args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    const int64_t ndim = static_cast<int64_t>(before.size());
    Prefix prefix{ints_of(args), ndim, "expand"};
    const int64_t more = static_cast<int64_t>(prefix.after.size()) - ndim;
    if (more < 0 || prefix.after.empty()) throw NotNative();
    for (int64_t dim = 0; dim < static_cast<int64_t>(prefix.after.size()); ++dim) {
        const int64_t size = prefix.after[dim];
        if (size < 0 || (dim >= more && before[dim - more] != 1 && before[dim - more] != size)) throw NotNative();
    }
    return reshaped(collection, prefix,
                    [&](const at::Tensor& tensor) { return tensor.expand(prefix.of(tensor.sizes())); });
}

// permute(collection, order), of wrapped dimensions, each once.
inline Ref permute(PyObject* collection, PyObject* args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    const int64_t ndim = static_cast<int64_t>(before.size());
    const Sizes order = sizes_of(args);
    if (static_cast<int64_t>(order.size()) != ndim || ndim == 0) throw NotNative();
    Prefix prefix{{}, ndim, "permute", nullptr, inverses.permuted, args};
    for (const int64_t dim : order) prefix.after.push_back(before[wrapped(dim, ndim)]);
    Tensors tensors;
    collect(collection, tensors, false);  // others take one argument for each of their own dimensions
    Sizes all(order);
    for (at::Tensor& tensor : tensors) {
        all.resize(ndim);
        for (int64_t dim = ndim; dim < tensor.dim(); ++dim) all.push_back(dim);
        tensor = tensor.permute(all);
    }
    size_t next = 0;
    return build(collection, tensors, next, prefix, Py_None);
}

// transpose(collection, (dim0, dim1)).
inline Ref transpose(PyObject* collection, PyObject* args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    const int64_t ndim = static_cast<int64_t>(before.size());
    const int64_t first = wrapped(as_int(PyTuple_GET_ITEM(args, 0)), ndim);
    const int64_t second = wrapped(as_int(PyTuple_GET_ITEM(args, 1)), ndim);
    Ref dims(Py_BuildValue("(LL)", static_cast<long long>(first), static_cast<long long>(second)));
    Ref order(PyTuple_New(ndim));
    if (!dims || !order) throw PythonError();
    for (int64_t dim = 0; dim < ndim; ++dim) {
        PyTuple_SET_ITEM(order.get(), dim, PyLong_FromLongLong(dim == first ? second : dim == second ? first : dim));
    }
    Prefix prefix{before, ndim, "transpose", dims.get(), inverses.permuted, order.get()};
    std::swap(prefix.after[first], prefix.after[second]);
    return reshaped(collection, prefix, [&](const at::Tensor& tensor) { return tensor.transpose(first, second); });
}

// bind_inverses(copied, resized, permuted): how a `with` statement undoes an operation; see td/context.py.
inline PyObject* py_bind_inverses(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "bind_inverses: expected three inverses");
        return nullptr;
    }
    inverses = {Py_NewRef(args[0]), Py_NewRef(args[1]), Py_NewRef(args[2])};
    Py_RETURN_NONE;
}

// Shape operations: name(collection, arguments), where the arguments are those of the method, as a tuple.
#define SHAPE_OPERATION(name)                                                     \
    inline PyObject* py_##name(PyObject*, PyObject* const* args, Py_ssize_t) {    \
        if (!is_plain(args[0]) || has_names(args[0])) Py_RETURN_NONE;             \
        return attempt([&] { return name(args[0], args[1]); });                   \
    }
SHAPE_OPERATION(reshape)
SHAPE_OPERATION(view)
SHAPE_OPERATION(flatten)
SHAPE_OPERATION(unflatten)
SHAPE_OPERATION(squeeze)
SHAPE_OPERATION(unsqueeze)
SHAPE_OPERATION(expand)
SHAPE_OPERATION(permute)
SHAPE_OPERATION(transpose)

inline PyMethodDef shape_methods[] = {
    METHOD(bind_inverses), METHOD(reshape), METHOD(view),      METHOD(flatten),
    METHOD(unflatten),     METHOD(squeeze), METHOD(unsqueeze), METHOD(expand),
    METHOD(permute),       METHOD(transpose),
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace tensorclass
