// unbind and split_with_sizes: one collection for each part along a batch dimension.
#pragma once

#include "leaves.h"

namespace tensorclass {

// The parts of a collection: all of one kind of call on each value.
struct Splitting {
    int64_t dim = 0;
    const Sizes* sizes = nullptr;  // of the parts; null: the parts are rows, without the dimension
    size_t count = 0;
    PyObject* method = nullptr;  // that other values are asked for, and its arguments
    PyObject* arguments = nullptr;

    Tensors of(const at::Tensor& tensor) const {
        Tensors parts = sizes == nullptr ? at::unbind(tensor, dim) : at::split_with_sizes(tensor, *sizes, dim);
        if (parts.size() != count) throw NotNative();
        return parts;
    }

    // The parts of a value that is neither a tensor nor a plain tree, as a tuple.
    Ref of_other(PyObject* value) const {
        if (sizes == nullptr) {
            Ref rows = unbound(value, dim);
            if (rows && PyTuple_GET_SIZE(rows.get()) == static_cast<Py_ssize_t>(count)) return rows;
        }
        static PyObject* hidden = interned("_hidden_members");
        if (is_collection(value)) {  // a field may have the name of the method
            PyObject* members = _PyType_Lookup(Py_TYPE(value), hidden);
            if (members != nullptr && members != Py_None) throw NotNative();
        }
        Ref called(PyObject_GetAttr(value, method));
        if (!called) throw PythonError();
        Ref parts(PyObject_CallObject(called.get(), arguments));
        if (!parts) throw PythonError();
        if (!PyTuple_Check(parts.get()) || PyTuple_GET_SIZE(parts.get()) != static_cast<Py_ssize_t>(count)) {
            throw NotNative();
        }
        return parts;
    }

    // The batch sizes of the parts, given that of the whole.
    std::vector<Ref> batch_sizes(const Level& level) const {
        Sizes size = sizes_of(level.size.get());
        if (dim >= static_cast<int64_t>(size.size())) throw NotNative();
        std::vector<Ref> found;
        if (sizes == nullptr) {
            size.erase(size.begin() + dim);
            const Ref one = as_size(size);
            for (size_t i = 0; i < count; ++i) found.push_back(Ref::borrowed(one.get()));
            return found;
        }
        for (const int64_t length : *sizes) {
            const bool same = !found.empty() && size[dim] == length;  // mostly all but the last
            size[dim] = length;
            found.push_back(same ? Ref::borrowed(found.back().get()) : as_size(size));
        }
        return found;
    }
};

// The parts of the levels of a tree.
struct Parting {
    const Tree& tree;
    const Splitting& splitting;
    size_t next_node = 0, next_level = 0;

    std::vector<Ref> level(size_t entries, PyObject* names) {
        const Level& source = tree.levels()[next_level++];
        std::vector<Ref> stores;
        for (size_t i = 0; i < splitting.count; ++i) {
            stores.emplace_back(PyDict_New());
            if (!stores.back()) throw PythonError();
        }
        for (size_t entry = 0; entry < entries; ++entry) {
            const Tree::Node& node = tree.nodes()[next_node++];
            PyObject *key = node.key.get(), *value = node.value.get();
            if (node.kind == Tree::Kind::Tensor) {
                Tensors parts = splitting.of(THPVariable_Unpack(value));
                for (size_t i = 0; i < parts.size(); ++i) put(stores[i].get(), key, wrap(std::move(parts[i])).get());
            } else if (node.kind == Tree::Kind::Level) {
                const std::vector<Ref> parts = level(node.count, Py_None);
                for (size_t i = 0; i < parts.size(); ++i) put(stores[i].get(), key, parts[i].get());
            } else {
                const Ref parts = splitting.of_other(value);
                for (size_t i = 0; i < splitting.count; ++i) {
                    put(stores[i].get(), key, PyTuple_GET_ITEM(parts.get(), static_cast<Py_ssize_t>(i)));
                }
            }
        }
        std::vector<Ref> found;
        const std::vector<Ref> sizes = splitting.batch_sizes(source);
        for (size_t i = 0; i < splitting.count; ++i) {
            found.push_back(source.like(stores[i].get(), sizes[i].get(), names));
        }
        return found;
    }
};

inline Ref split(PyObject* collection, const Splitting& splitting, PyObject* names) {
    const Tree tree(collection);
    if (tree.has_names_below()) throw NotNative();
    std::vector<Ref> parts = Parting{tree, splitting}.level(tree.size(), names);
    Ref result(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
    if (!result) throw PythonError();
    for (size_t i = 0; i < parts.size(); ++i) {
        PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), parts[i].release());
    }
    return result;
}

// unbind(collection, dim, names): `dim` is wrapped, `names` are those of the rows.
inline PyObject* py_unbind(PyObject* const* args) {
    static PyObject* method = interned("unbind");
    if (!is_plain(args[0])) Py_RETURN_NONE;
    return attempt([&] {
        const int64_t dim = as_int(args[1]);
        const Sizes size = sizes_of(batch_size_of(args[0]));
        if (dim < 0 || dim >= static_cast<int64_t>(size.size())) throw NotNative();
        const Ref arguments(PyTuple_Pack(1, args[1]));
        if (!arguments) throw PythonError();
        return split(args[0], {dim, nullptr, static_cast<size_t>(size[dim]), method, arguments.get()}, args[2]);
    });
}

// split(collection, sizes, dim): `sizes` is a list, `dim` is wrapped.
inline PyObject* py_split(PyObject* const* args) {
    static PyObject* method = interned("split_with_sizes");
    if (!is_plain(args[0]) || !PyList_CheckExact(args[1])) Py_RETURN_NONE;
    return attempt([&] {
        const int64_t dim = as_int(args[2]);
        const Sizes size = sizes_of(batch_size_of(args[0]));
        if (dim < 0 || dim >= static_cast<int64_t>(size.size())) throw NotNative();
        Sizes lengths;
        int64_t total = 0;
        for (PyObject* item : Items(args[1])) {
            lengths.push_back(as_int(item));
            if (lengths.back() < 0) throw NotNative();
            total = plus(total, lengths.back());
        }
        if (total != size[dim]) throw NotNative();
        const Ref names = Ref::borrowed(slot(args[0], bound.names));
        const Ref arguments(PyTuple_Pack(2, args[1], args[2]));
        if (!arguments) throw PythonError();
        return split(args[0], {dim, &lengths, lengths.size(), method, arguments.get()}, names.get());
    });
}

inline PyMethodDef split_methods[] = {METHOD(unbind, 3), METHOD(split, 3), END_OF_METHODS};

}  // namespace tensorclass
