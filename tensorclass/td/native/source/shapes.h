// Operations that change the batch dimensions: reshape, view, flatten, unflatten, squeeze, unsqueeze, expand, permute.
#pragma once

#include "levels.h"

namespace tensorclass {

struct Inverses {
    PyObject *copied = nullptr, *resized = nullptr, *permuted = nullptr, *cast = nullptr;
};
extern Inverses inverses;

// The ints of arguments given one by one or as one sequence.
inline Sizes ints_of(const Arguments& args) {
    Sizes sizes;
    if (args.size() != 1 || PyLong_CheckExact(args[0])) {
        for (Py_ssize_t i = 0; i < args.size(); ++i) sizes.push_back(as_int(args[i]));
        return sizes;
    }
    if (PyTuple_Check(args[0])) return sizes_of(args[0]);
    if (!PyList_CheckExact(args[0])) throw NotNative();
    for (PyObject* item : Items(args[0])) sizes.push_back(as_int(item));
    return sizes;
}

inline int64_t product(c10::ArrayRef<int64_t> sizes) {
    int64_t count = 1;
    for (const int64_t size : sizes) count = times(count, size);
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
        if (static_cast<int64_t>(before.size()) < ndim) throw NotNative();
        sizes.append(before.begin() + ndim, before.end());
        return sizes;
    }

    Ref size(const Level& level) const {
        if (level.ndim() == ndim) return as_size(after);
        return as_size(of(sizes_of(level.size.get())));
    }
    static PyObject* names(const Level&) { return Py_None; }

    Ref other(PyObject* value) const {
        static PyObject* hidden = interned("_hidden_members");
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
            const Ref size = as_size(of(sizes_of(shape.get())));
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
            Ref entry = dim < count ? Ref::borrowed(PyTuple_GET_ITEM(order, dim)) : as_long(dim);
            PyTuple_SET_ITEM(all.get(), dim, entry.release());
        }
        return all;
    }

    void done(PyObject* result, const Level& source) const {
        if (inverse == nullptr) return;
        const Ref reference(PyWeakref_NewRef(source.collection.get(), nullptr));
        if (!reference) throw PythonError();
        const Ref own = order == nullptr ? Ref() : order_of(source.ndim());
        PyObject* context = order == nullptr ? PyTuple_Pack(3, bound.empty, inverse, reference.get())
                                             : PyTuple_Pack(4, bound.empty, inverse, reference.get(), own.get());
        if (context == nullptr) throw PythonError();
        Py_XSETREF(slot(result, bound.context), context);
    }
};

// The collection with `leaf` of each tensor. `copies`: it copies those that are not contiguous.
template <class Leaf>
Ref reshaped(PyObject* collection, const Prefix& prefix, const Leaf& leaf, bool copies = false, bool others = true) {
    const Tree tree(collection);
    if (tree.has_names_below() || (tree.has_others() && !others)) throw NotNative();
    Tensors tensors = tree.tensors();
    run_kernels(copies && !are_contiguous(tensors), [&] {
        for (at::Tensor& tensor : tensors) tensor = leaf(tensor);
    });
    return tree.rebuilt(tensors, prefix);
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
            known = times(known, shape[dim]);
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

inline Ref reshape(PyObject* collection, const Arguments& args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    Prefix prefix{new_shape(before, ints_of(args)), static_cast<int64_t>(before.size()), "reshape"};
    prefix.inverse = inverses.copied;
    return reshaped(collection, prefix,
                    [&](const at::Tensor& tensor) { return tensor.reshape(prefix.of(tensor.sizes())); }, true);
}

inline Ref view(PyObject* collection, const Arguments& args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    Prefix prefix{new_shape(before, ints_of(args)), static_cast<int64_t>(before.size()), "view"};
    prefix.inverse = inverses.resized;
    return reshaped(collection, prefix, [&](const at::Tensor& tensor) { return tensor.view(prefix.of(tensor.sizes())); });
}

inline Ref flatten(PyObject* collection, const Arguments& args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    const int64_t ndim = static_cast<int64_t>(before.size());
    if (args.size() > 2) throw NotNative();
    PyObject *from = args.get(0, Py_None), *to = args.get(1, Py_None);
    const int64_t first = wrapped(from == Py_None ? 0 : as_int(from), ndim);
    const int64_t last = wrapped(to == Py_None ? -1 : as_int(to), ndim);
    if (first > last) throw NotNative();
    Ref wrapped_args(Py_BuildValue("(LL)", static_cast<long long>(first), static_cast<long long>(last)));
    if (!wrapped_args) throw PythonError();
    Prefix prefix{{}, ndim, "flatten", wrapped_args.get(), inverses.copied};
    prefix.after.append(before.begin(), before.begin() + first);
    prefix.after.push_back(product(c10::ArrayRef<int64_t>(before.data() + first, last - first + 1)));
    prefix.after.append(before.begin() + last + 1, before.end());
    return reshaped(collection, prefix, [&](const at::Tensor& tensor) { return tensor.flatten(first, last); }, true);
}

inline Ref unflatten(PyObject* collection, const Arguments& args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    const int64_t ndim = static_cast<int64_t>(before.size());
    const int64_t dim = wrapped(as_int(args[0]), ndim);
    if (args.size() > 2) throw NotNative();
    const Sizes sizes = new_shape({before[dim]}, ints_of(args.from(1)));
    const Ref given = as_size(sizes);
    Ref wrapped_args(Py_BuildValue("(LO)", static_cast<long long>(dim), given.get()));
    if (!wrapped_args) throw PythonError();
    Prefix prefix{{}, ndim, "unflatten", wrapped_args.get(), inverses.resized};
    prefix.after.append(before.begin(), before.begin() + dim);
    prefix.after.append(sizes.begin(), sizes.end());
    prefix.after.append(before.begin() + dim + 1, before.end());
    return reshaped(collection, prefix, [&](const at::Tensor& tensor) { return tensor.unflatten(dim, sizes); });
}

// One dimension, or None for all.
inline Ref squeeze(PyObject* collection, const Arguments& args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    const int64_t ndim = static_cast<int64_t>(before.size());
    if (args.size() > 1) throw NotNative();
    PyObject* given = args.get(0, Py_None);
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
    const Ref removed = dims.size() == 1 ? as_long(dims[0]) : as_size(dims);
    const Ref arguments(PyTuple_Pack(1, removed.get()));
    if (!arguments) throw PythonError();
    prefix.arguments = arguments.get();
    return reshaped(collection, prefix, [&](const at::Tensor& tensor) {
        return dims.size() == 1 ? tensor.squeeze(dims[0]) : tensor.squeeze(dims);
    });
}

inline Ref unsqueeze(PyObject* collection, const Arguments& args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    const int64_t ndim = static_cast<int64_t>(before.size());
    if (args.size() > 1) throw NotNative();
    const int64_t dim = wrapped(as_int(args[0]), ndim + 1);
    Ref wrapped_args(Py_BuildValue("(L)", static_cast<long long>(dim)));
    if (!wrapped_args) throw PythonError();
    Prefix prefix{before, ndim, "unsqueeze", wrapped_args.get(), inverses.resized};
    prefix.after.insert(prefix.after.begin() + dim, 1);
    return reshaped(collection, prefix, [&](const at::Tensor& tensor) { return tensor.unsqueeze(dim); });
}

inline Ref expand(PyObject* collection, const Arguments& args) {
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

// The order has wrapped dimensions, each once.
inline Ref permute(PyObject* collection, const Arguments& args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    const int64_t ndim = static_cast<int64_t>(before.size());
    const Sizes order = sizes_of(args[0]);
    if (args.size() > 1 || static_cast<int64_t>(order.size()) != ndim || ndim == 0) throw NotNative();
    Prefix prefix{{}, ndim, "permute", nullptr, inverses.permuted, args[0]};
    for (const int64_t dim : order) prefix.after.push_back(before[wrapped(dim, ndim)]);
    Sizes all(order);
    const auto permuted = [&](const at::Tensor& tensor) {
        all.resize(ndim);
        for (int64_t dim = ndim; dim < tensor.dim(); ++dim) all.push_back(dim);
        return tensor.permute(all);
    };
    return reshaped(collection, prefix, permuted, false, /*others=*/false);  // they take an argument for each dimension
}

inline Ref transpose(PyObject* collection, const Arguments& args) {
    const Sizes before = sizes_of(batch_size_of(collection));
    const int64_t ndim = static_cast<int64_t>(before.size());
    const int64_t first = wrapped(as_int(args[0]), ndim);
    const int64_t second = wrapped(as_int(args[1]), ndim);
    if (args.size() > 2) throw NotNative();
    Ref dims(Py_BuildValue("(LL)", static_cast<long long>(first), static_cast<long long>(second)));
    Ref order(PyTuple_New(ndim));
    if (!dims || !order) throw PythonError();
    for (int64_t dim = 0; dim < ndim; ++dim) {
        PyTuple_SET_ITEM(order.get(), dim, as_long(dim == first ? second : dim == second ? first : dim).release());
    }
    Prefix prefix{before, ndim, "transpose", dims.get(), inverses.permuted, order.get()};
    std::swap(prefix.after[first], prefix.after[second]);
    return reshaped(collection, prefix, [&](const at::Tensor& tensor) { return tensor.transpose(first, second); });
}

// bind_inverses(copied, resized, permuted, cast): how a `with` statement undoes an operation; see td/context.py.
inline PyObject* py_bind_inverses(PyObject* const* args) {
    inverses = {Py_NewRef(args[0]), Py_NewRef(args[1]), Py_NewRef(args[2]), Py_NewRef(args[3])};
    Py_RETURN_NONE;
}

// A function name(collection, *arguments) with the arguments of the method of this name, given by position.
template <Ref (*Operation)(PyObject*, const Arguments&)>
PyObject* shape_operation(PyObject*, PyObject* const* args, Py_ssize_t given) {
    if (given < 1 || !is_plain(args[0]) || has_names(args[0])) Py_RETURN_NONE;
    return attempt([&] { return Operation(args[0], Arguments(args + 1, given - 1)); });
}
#define SHAPE(name) {#name, as_function(shape_operation<name>), METH_FASTCALL, nullptr}

inline PyMethodDef shape_methods[] = {
    METHOD(bind_inverses, 4), SHAPE(reshape), SHAPE(view),    SHAPE(flatten),   SHAPE(unflatten), SHAPE(squeeze),
    SHAPE(unsqueeze),         SHAPE(expand),  SHAPE(permute), SHAPE(transpose), END_OF_METHODS,
};

}  // namespace tensorclass
