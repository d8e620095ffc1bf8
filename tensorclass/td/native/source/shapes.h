// Operations that change the batch dimensions: reshape, view, flatten, unflatten, squeeze, unsqueeze, expand, permute.
#pragma once

#include "tensors.h"

namespace tensorclass {

inline int64_t product(c10::IntArrayRef sizes) {
    int64_t count = 1;
    for (const int64_t size : sizes) count = times(count, size);
    return count;
}

// What all these operations have in common: the batch dimensions `before` become `after`.
struct Prefix : Reshaped {
    PyObject* collection;
    const char* method;             // that other values are asked for
    PyObject* inverse;
    Sizes before, after, order;     // order: of a permutation
    Ref arguments;                  // of the method; null: the new shape, the value's own dimensions included
    int64_t ndim;

    Prefix(const Arguments& args, const char* name, PyObject* undone_by)
        : collection(args[0]), method(name), inverse(undone_by), before(sizes_of(batch_size_of(collection))),
          ndim(static_cast<int64_t>(before.size())) {}

    Sizes of(c10::IntArrayRef own) const {
        Sizes sizes(after);
        if (static_cast<int64_t>(own.size()) < ndim) throw NotNative();
        sizes.append(own.begin() + ndim, own.end());
        return sizes;
    }

    Ref size(const Level& level) const { return as_size(of(sizes_of(level.size.get()))); }

    Ref other(PyObject* value) const {
        static PyObject* hidden = interned("_hidden_members");
        if (is_collection(value)) {  // a field may have the name of the method
            PyObject* members = _PyType_Lookup(Py_TYPE(value), hidden);
            if (members != nullptr && members != Py_None) throw NotNative();
        }
        const Ref called = owned(PyObject_GetAttrString(value, method));
        if (arguments) return owned(PyObject_CallObject(called.get(), arguments.get()));
        const Ref shape = owned(PyObject_GetAttrString(value, "shape")), size = as_size(of(sizes_of(shape.get())));
        return owned(PyObject_CallObject(called.get(), size.get()));
    }

    void done(PyObject* result, const Level& source) const {
        if (inverse == nullptr) return;
        Sizes all(order);  // dimensions of the level's own stay
        while (!order.empty() && static_cast<int64_t>(all.size()) < source.ndim()) all.push_back(all.size());
        const Ref size = as_size(all);
        set_inverse(result, source.collection.get(), inverse, order.empty() ? Ref() : owned(PySequence_Tuple(size.get())));
    }

    // The collection with `leaf` of each tensor. `copies`: it copies those that are not contiguous.
    template <class Leaf>
    Ref result(const Leaf& leaf, bool copies = false, bool others = true) const {
        const Tree tree(collection);
        if (tree.has_names() || (tree.has_others() && !others)) throw NotNative();
        Tensors tensors = tree.tensors();
        run_kernels(copies && !are_contiguous(tensors), [&] {
            for (at::Tensor& tensor : tensors) tensor = leaf(tensor);
        });
        return tree.rebuilt(tensors, *this);
    }
};

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

inline Ref reshape(const Arguments& args) {
    Prefix prefix(args, "reshape", bound.copied);
    prefix.after = new_shape(prefix.before, args.ints(1));
    return prefix.result([&](const at::Tensor& tensor) { return tensor.reshape(prefix.of(tensor.sizes())); }, true);
}

inline Ref view(const Arguments& args) {
    Prefix prefix(args, "view", bound.resized);
    prefix.after = new_shape(prefix.before, args.ints(1));
    return prefix.result([&](const at::Tensor& tensor) { return tensor.view(prefix.of(tensor.sizes())); });
}

inline Ref flatten(const Arguments& args) {
    Prefix prefix(args, "flatten", bound.copied);
    PyObject *from = args.get(1, Py_None), *to = args.get(2, Py_None);
    const int64_t first = wrapped(from == Py_None ? 0 : as_int(from), prefix.ndim);
    const int64_t last = wrapped(to == Py_None ? -1 : as_int(to), prefix.ndim);
    if (first > last) throw NotNative();
    const auto begin = prefix.before.begin() + first, end = prefix.before.begin() + last + 1;
    prefix.after.append(prefix.before.begin(), begin);
    prefix.after.push_back(product({begin, end}));
    prefix.after.append(end, prefix.before.end());
    prefix.arguments = as_size({first, last});
    return prefix.result([&](const at::Tensor& tensor) { return tensor.flatten(first, last); }, true);
}

inline Ref unflatten(const Arguments& args) {
    Prefix prefix(args, "unflatten", bound.resized);
    const int64_t dim = wrapped(as_int(args[1]), prefix.ndim);
    const Sizes sizes = new_shape({prefix.before[dim]}, args.ints(2));
    const auto at = prefix.before.begin() + dim;
    prefix.after.append(prefix.before.begin(), at);
    prefix.after.append(sizes.begin(), sizes.end());
    prefix.after.append(at + 1, prefix.before.end());
    prefix.arguments = owned(PyTuple_Pack(2, as_long(dim).get(), as_size(sizes).get()));
    return prefix.result([&](const at::Tensor& tensor) { return tensor.unflatten(dim, sizes); });
}

// One dimension, or None for all.
inline Ref squeeze(const Arguments& args) {
    Prefix prefix(args, "squeeze", bound.resized);
    PyObject* given = args.get(1, Py_None);
    const int64_t only = given == Py_None ? -1 : wrapped(as_int(given), prefix.ndim);
    Sizes dims;
    for (int64_t dim = 0; dim < prefix.ndim; ++dim) {
        const bool removed = prefix.before[dim] == 1 && (given == Py_None || dim == only);
        (removed ? dims : prefix.after).push_back(removed ? dim : prefix.before[dim]);
    }
    // one dimension is an int, as in the Python code, so that gradients have the same functions
    const Ref removed = dims.size() == 1 ? as_long(dims[0]) : as_size(dims);
    prefix.arguments = owned(PyTuple_Pack(1, removed.get()));
    return prefix.result([&](const at::Tensor& tensor) {
        return dims.size() == 1 ? tensor.squeeze(dims[0]) : tensor.squeeze(dims);
    });
}

inline Ref unsqueeze(const Arguments& args) {
    Prefix prefix(args, "unsqueeze", bound.resized);
    const int64_t dim = wrapped(as_int(args[1]), prefix.ndim + 1);
    prefix.after = prefix.before;
    prefix.after.insert(prefix.after.begin() + dim, 1);
    prefix.arguments = as_size({dim});
    return prefix.result([&](const at::Tensor& tensor) { return tensor.unsqueeze(dim); });
}

inline Ref expand(const Arguments& args) {
    Prefix prefix(args, "expand", nullptr);
    prefix.after = args.ints(1);
    const int64_t count = static_cast<int64_t>(prefix.after.size()), more = count - prefix.ndim;
    if (more < 0 || count == 0) throw NotNative();
    for (int64_t dim = 0; dim < count; ++dim) {
        const int64_t size = prefix.after[dim], old = dim < more ? 1 : prefix.before[dim - more];
        if (size < 0 || (old != 1 && old != size)) throw NotNative();
    }
    return prefix.result([&](const at::Tensor& tensor) { return tensor.expand(prefix.of(tensor.sizes())); });
}

// The order has wrapped dimensions, each once.
inline Ref permute(const Arguments& args) {
    Prefix prefix(args, "permute", bound.permuted);
    prefix.order = sizes_of(args[1]);
    if (static_cast<int64_t>(prefix.order.size()) != prefix.ndim || prefix.ndim == 0) throw NotNative();
    for (const int64_t dim : prefix.order) prefix.after.push_back(prefix.before[wrapped(dim, prefix.ndim)]);
    const auto permuted = [&](const at::Tensor& tensor) {
        Sizes all(prefix.order);
        for (int64_t dim = prefix.ndim; dim < tensor.dim(); ++dim) all.push_back(dim);
        return tensor.permute(all);
    };
    return prefix.result(permuted, false, /*others=*/false);  // they take an argument for each dimension
}

inline Ref transpose(const Arguments& args) {
    Prefix prefix(args, "transpose", bound.permuted);
    const int64_t first = wrapped(as_int(args[1]), prefix.ndim), second = wrapped(as_int(args[2]), prefix.ndim);
    prefix.after = prefix.before;
    for (int64_t dim = 0; dim < prefix.ndim; ++dim) prefix.order.push_back(dim);
    std::swap(prefix.after[first], prefix.after[second]);
    std::swap(prefix.order[first], prefix.order[second]);
    prefix.arguments = as_size({first, second});
    return prefix.result([&](const at::Tensor& tensor) { return tensor.transpose(first, second); });
}

inline PyMethodDef shape_methods[] = {
    UNNAMED_OPERATION(reshape, MANY), UNNAMED_OPERATION(view, MANY),   UNNAMED_OPERATION(flatten, 3),
    UNNAMED_OPERATION(unflatten, 3),  UNNAMED_OPERATION(squeeze, 2),   UNNAMED_OPERATION(unsqueeze, 2),
    UNNAMED_OPERATION(expand, MANY),  UNNAMED_OPERATION(permute, 2),   UNNAMED_OPERATION(transpose, 3),
    END_OF_METHODS,
};

}  // namespace tensorclass
