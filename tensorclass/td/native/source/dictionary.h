// The dict interface: reading and writing by key, collections with other keys over the same values.
#pragma once

#include "indexing.h"
#include "methods.h"

namespace tensorclass {

// What `bind_keys` hands over from Python.
struct KeyObjects {
    PyObject *missing = nullptr, *no_default = nullptr;  // of td/get.py
    PyTypeObject *view = nullptr, *walked_view = nullptr;
    Py_ssize_t view_collection = 0, view_options = 0;
    PyObject *flat_keys = nullptr, *nested_keys = nullptr;  // the inverses of td/context.py
};
extern KeyObjects key_objects;

// Whether this is a TensorDict itself, on a dict: any key fits, and no method is another class's.
inline bool is_tensordict(PyObject* value) {
    return Py_TYPE(value) == bound.tensordict && store_of(value) != nullptr && PyDict_CheckExact(store_of(value)) &&
           batch_size_of(value) != nullptr && slot(value, bound.device) != nullptr &&
           slot(value, bound.names) != nullptr && slot(value, bound.lock) != nullptr;
}

inline bool is_tree(PyObject* value) { return is_tensordict(value) || is_plain(value); }

// Whether a tensor can be stored in a collection of this batch size and without a device as it is.
inline bool fits(PyObject* value, PyObject* batch_size) {
    if (!is_tensor(value)) return false;
    const c10::IntArrayRef sizes = THPVariable_Unpack(value).sizes();
    const Py_ssize_t ndim = PyTuple_GET_SIZE(batch_size);
    if (static_cast<Py_ssize_t>(sizes.size()) < ndim) return false;
    for (Py_ssize_t dim = 0; dim < ndim; ++dim) {
        PyObject* size = PyTuple_GET_ITEM(batch_size, dim);
        if (!PyLong_CheckExact(size) || PyLong_AsLongLong(size) != sizes[dim]) return false;
    }
    return true;
}

// Whether a key of a collection can be set to a tensor without more checks.
inline bool takes(PyObject* collection, PyObject* value) {
    return slot(collection, bound.lock) == Py_None && slot(collection, bound.device) == Py_None &&
           fits(value, batch_size_of(collection));
}

// -- reading ----------------------------------------------------------------------------------------------------------

struct Found {
    bool known = false;           // whether native code can say
    PyObject* holder = nullptr;   // the collection of the last name
    PyObject* value = nullptr;    // borrowed; null: there is none
};

// Look a key up: a string, or a flat tuple of strings.
inline Found find(PyObject* collection, PyObject* key) {
    if (PyUnicode_CheckExact(key)) {
        if (!is_tree(collection)) return {};
        PyObject* value = PyDict_GetItemWithError(store_of(collection), key);
        return {value != nullptr || PyErr_Occurred() == nullptr, collection, value};
    }
    if (!PyTuple_CheckExact(key) || PyTuple_GET_SIZE(key) == 0) return {};
    const Py_ssize_t count = PyTuple_GET_SIZE(key);
    for (Py_ssize_t depth = 0; depth < count; ++depth) {
        if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(key, depth))) return {};
    }
    PyObject* node = collection;
    for (Py_ssize_t depth = 0;; ++depth) {
        if (!is_tree(node)) return {};
        PyObject* value = PyDict_GetItemWithError(store_of(node), PyTuple_GET_ITEM(key, depth));
        if (value == nullptr && PyErr_Occurred() != nullptr) return {};
        if (value == nullptr || depth == count - 1) return {true, node, depth == count - 1 ? value : nullptr};
        node = value;
    }
}

// get(self, key, default=MISSING)
inline PyObject* get(const Call& call) {
    if (!call.by_position(2, 3)) return nullptr;
    const Found found = find(call.args[0], call.args[1]);
    if (!found.known) return nullptr;
    if (found.value != nullptr) return Py_NewRef(found.value);
    if (call.count() < 3 || call.args[2] == key_objects.missing || call.args[2] == key_objects.no_default) return nullptr;
    return Py_NewRef(call.args[2]);
}

// __getitem__(self, key): values that are read as they are stored, and rows. Text and objects are unwrapped in Python.
inline PyObject* getitem(const Call& call) {
    if (!call.by_position(2, 2)) return nullptr;
    PyObject *collection = call.args[0], *key = call.args[1];
    if (key == Py_Ellipsis) return Py_NewRef(collection);
    if (PyLong_CheckExact(key) || PySlice_Check(key) || Py_TYPE(key) == bound.tensor) {
        if (!is_plain(collection) || has_names(collection)) return nullptr;
        PyObject* result = attempt([&] { return indexed(collection, key, Py_None); });
        if (result != Py_None) return result;
        Py_DECREF(result);
        return nullptr;
    }
    const Found found = find(call.args[0], call.args[1]);
    if (found.value == nullptr) return nullptr;
    const bool as_stored = Py_TYPE(found.value) == bound.tensor || is_tree(found.value);
    return as_stored ? Py_NewRef(found.value) : nullptr;
}

// __contains__(self, key)
inline PyObject* contains(const Call& call) {
    if (!call.by_position(2, 2)) return nullptr;
    const Found found = find(call.args[0], call.args[1]);
    return found.known ? PyBool_FromLong(found.value != nullptr) : nullptr;
}

// -- walking ----------------------------------------------------------------------------------------------------------

// The key of an entry of a nested collection: the path with a name behind it, the name alone on the first level.
inline PyObject* joined(PyObject* path, PyObject* name) {
    if (path == nullptr) return Py_NewRef(name);
    const Py_ssize_t count = PyTuple_GET_SIZE(path);
    PyObject* key = PyTuple_New(count + 1);
    if (key == nullptr) return nullptr;
    for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(key, i, Py_NewRef(PyTuple_GET_ITEM(path, i)));
    PyTuple_SET_ITEM(key, count, Py_NewRef(name));
    return key;
}

// Append the keys (or pairs of key and value) of all levels. False: not known, or an error is set.
inline bool walk(PyObject* collection, PyObject* path, bool leaves_only, bool pairs, PyObject* entries) {
    Py_ssize_t position = 0;
    PyObject *name, *value;
    while (PyDict_Next(store_of(collection), &position, &name, &value)) {
        const bool nested = Py_TYPE(value) != bound.tensor && is_tree(value);
        if (!nested && !PyObject_TypeCheck(value, bound.tensor)) return false;
        if (!(nested && leaves_only)) {
            Ref entry(joined(path, name));
            if (entry && pairs) entry = Ref(PyTuple_Pack(2, entry.get(), value));
            if (!entry || PyList_Append(entries, entry.get()) != 0) return false;
        }
        if (!nested) continue;
        Ref below;
        if (path == nullptr) {
            below = Ref(PyTuple_Pack(1, name));
        } else {
            below = Ref(joined(path, name));
        }
        if (!below || Py_EnterRecursiveCall(" while walking a nested collection") != 0) return false;
        const bool walked = walk(value, below.get(), leaves_only, pairs, entries);
        Py_LeaveRecursiveCall();
        if (!walked) return false;
    }
    return true;
}

inline PyObject* walked(PyObject* collection, bool leaves_only, bool pairs) {
    Ref entries(PyList_New(0));
    if (!entries || !walk(collection, nullptr, leaves_only, pairs, entries.get())) return nullptr;
    return entries.release();
}

// Whether the arguments behind the collection are (include_nested=True, leaves_only=...).
inline bool walks_all(const Call& call) {
    return call.by_position(2, 3) && call.args[1] == Py_True && (call.count() < 3 || PyBool_Check(call.args[2]));
}

// keys(self, include_nested=False, leaves_only=False, ...)
inline PyObject* keys(const Call& call) {
    if (call.by_position(1, 1) && is_tree(call.args[0])) {
        PyObject* view = key_objects.view->tp_alloc(key_objects.view, 0);
        if (view != nullptr) slot(view, key_objects.view_collection) = Py_NewRef(call.args[0]);
        return view;
    }
    if (!walks_all(call) || !is_tree(call.args[0])) return nullptr;
    PyObject* leaves_only = call.count() == 3 ? call.args[2] : Py_False;
    Ref options(PyTuple_Pack(4, Py_True, leaves_only, Py_None, Py_False));
    if (!options) return nullptr;
    PyObject* view = key_objects.walked_view->tp_alloc(key_objects.walked_view, 0);
    if (view == nullptr) return nullptr;
    slot(view, key_objects.view_collection) = Py_NewRef(call.args[0]);
    slot(view, key_objects.view_options) = options.release();
    return view;
}

// items(self, include_nested=False, leaves_only=False, ...)
inline PyObject* items(const Call& call) {
    static PyObject* name = interned("items");
    if (call.by_position(1, 1) && is_tree(call.args[0])) {
        Ref view(PyObject_CallMethodNoArgs(store_of(call.args[0]), name));
        return view ? PyObject_GetIter(view.get()) : nullptr;
    }
    if (!walks_all(call) || !is_tree(call.args[0])) return nullptr;
    Ref entries(walked(call.args[0], call.count() == 3 && call.args[2] == Py_True, true));
    return entries ? PyObject_GetIter(entries.get()) : nullptr;
}

// The collection of a view of keys, if it is a tree.
inline PyObject* viewed(const Call& call) {
    if (!call.by_position(1, 1) || !PyObject_TypeCheck(call.args[0], key_objects.view)) return nullptr;
    PyObject* collection = slot(call.args[0], key_objects.view_collection);
    return collection != nullptr && is_tree(collection) ? collection : nullptr;
}

inline PyObject* view_iter(const Call& call) {
    PyObject* collection = viewed(call);
    return collection == nullptr ? nullptr : PyObject_GetIter(store_of(collection));
}

inline PyObject* view_len(const Call& call) {
    PyObject* collection = viewed(call);
    return collection == nullptr ? nullptr : PyLong_FromSsize_t(PyDict_GET_SIZE(store_of(collection)));
}

// The keys of all levels, if the options of a view ask for nothing else.
inline PyObject* walked_keys(const Call& call) {
    PyObject* collection = viewed(call);
    if (collection == nullptr || !PyObject_TypeCheck(call.args[0], key_objects.walked_view)) return nullptr;
    PyObject* options = slot(call.args[0], key_objects.view_options);
    if (options == nullptr || !PyTuple_CheckExact(options) || PyTuple_GET_SIZE(options) != 4) return nullptr;
    PyObject* leaves_only = PyTuple_GET_ITEM(options, 1);
    if (PyTuple_GET_ITEM(options, 0) != Py_True || !PyBool_Check(leaves_only) ||
        PyTuple_GET_ITEM(options, 2) != Py_None || PyTuple_GET_ITEM(options, 3) != Py_False) {
        return nullptr;
    }
    return walked(collection, leaves_only == Py_True, false);
}

inline PyObject* walked_iter(const Call& call) {
    Ref found(walked_keys(call));
    return found ? PyObject_GetIter(found.get()) : nullptr;
}

// The number of leaves (and of nested collections) of all levels; -1: not known.
inline Py_ssize_t count_entries(PyObject* collection, bool leaves_only) {
    Py_ssize_t position = 0, entries = 0;
    PyObject *name, *value;
    while (PyDict_Next(store_of(collection), &position, &name, &value)) {
        if (PyObject_TypeCheck(value, bound.tensor)) {
            ++entries;
            continue;
        }
        if (!is_tree(value) || Py_EnterRecursiveCall(" while walking a nested collection") != 0) return -1;
        const Py_ssize_t below = count_entries(value, leaves_only);
        Py_LeaveRecursiveCall();
        if (below < 0) return -1;
        entries += below + (leaves_only ? 0 : 1);
    }
    return entries;
}

inline PyObject* walked_len(const Call& call) {
    PyObject* collection = viewed(call);
    if (collection == nullptr || !PyObject_TypeCheck(call.args[0], key_objects.walked_view)) return nullptr;
    PyObject* options = slot(call.args[0], key_objects.view_options);
    if (options == nullptr || !PyTuple_CheckExact(options) || PyTuple_GET_SIZE(options) != 4 ||
        PyTuple_GET_ITEM(options, 0) != Py_True || PyTuple_GET_ITEM(options, 2) != Py_None) {
        return nullptr;
    }
    const Py_ssize_t entries = count_entries(collection, PyTuple_GET_ITEM(options, 1) == Py_True);
    return entries < 0 ? nullptr : PyLong_FromSsize_t(entries);
}

// -- writing ----------------------------------------------------------------------------------------------------------

// Set a key, nested or not, of a TensorDict to a tensor that fits. False: left to Python, or an error is set.
inline bool set_key(PyObject* collection, PyObject* key, PyObject* value) {
    if (Py_TYPE(value) != bound.tensor || !is_tensordict(collection)) return false;
    if (PyUnicode_CheckExact(key)) {
        return takes(collection, value) && PyDict_SetItem(store_of(collection), key, value) == 0;
    }
    if (!PyTuple_CheckExact(key) || PyTuple_GET_SIZE(key) == 0) return false;
    const Py_ssize_t last = PyTuple_GET_SIZE(key) - 1;
    PyObject* node = collection;
    for (Py_ssize_t depth = 0; depth <= last; ++depth) {
        PyObject* name = PyTuple_GET_ITEM(key, depth);
        if (!PyUnicode_CheckExact(name)) return false;
        if (depth == last) return takes(node, value) && PyDict_SetItem(store_of(node), name, value) == 0;
        node = PyDict_GetItemWithError(store_of(node), name);
        if (node == nullptr || !is_tensordict(node)) return false;
    }
    return false;
}

// set(self, key, item)
inline PyObject* set(const Call& call) {
    if (!call.by_position(3, 3) || !set_key(call.args[0], call.args[1], call.args[2])) return nullptr;
    return Py_NewRef(call.args[0]);
}

// __setitem__(self, key, value)
inline PyObject* setitem(const Call& call) {
    if (!call.by_position(3, 3) || !set_key(call.args[0], call.args[1], call.args[2])) return nullptr;
    Py_RETURN_NONE;
}

// pop(self, key, default=MISSING)
inline PyObject* pop(const Call& call) {
    if (!call.by_position(2, 3) || !PyUnicode_CheckExact(call.args[1]) || !is_tensordict(call.args[0])) return nullptr;
    PyObject* collection = call.args[0];
    PyObject* found = PyDict_GetItemWithError(store_of(collection), call.args[1]);
    if (found == nullptr || slot(collection, bound.lock) != Py_None) return nullptr;
    Ref value = Ref::borrowed(found);
    return PyDict_DelItem(store_of(collection), call.args[1]) == 0 ? value.release() : nullptr;
}

// rename_key_(self, old_key, new_key)
inline PyObject* rename_key(const Call& call) {
    if (!call.by_position(3, 3) || !is_tensordict(call.args[0])) return nullptr;
    PyObject *collection = call.args[0], *before = call.args[1], *after = call.args[2];
    if (!PyUnicode_CheckExact(before) || !PyUnicode_CheckExact(after)) return nullptr;
    if (slot(collection, bound.lock) != Py_None) return nullptr;
    PyObject* found = PyDict_GetItemWithError(store_of(collection), before);
    if (found == nullptr || PyUnicode_Compare(before, after) == 0) return nullptr;
    Ref value = Ref::borrowed(found);
    if (PyDict_DelItem(store_of(collection), before) != 0) return nullptr;
    if (PyDict_SetItem(store_of(collection), after, value.get()) != 0) return nullptr;
    return Py_NewRef(collection);
}

// update(self, mapping)
inline PyObject* update(const Call& call) {
    if (!call.by_position(2, 2) || !is_tensordict(call.args[0]) || !PyDict_CheckExact(call.args[1])) return nullptr;
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(call.args[1], &position, &key, &value)) {
        if (!PyUnicode_CheckExact(key) || !takes(call.args[0], value)) return nullptr;
    }
    if (position == 0 || PyDict_Update(store_of(call.args[0]), call.args[1]) != 0) return nullptr;
    return Py_NewRef(call.args[0]);
}

// -- the same values in other collections -----------------------------------------------------------------------------

// A collection of the same class, batch size, device and names on another store. Null with an error set.
inline PyObject* same(PyObject* like, PyObject* store) {
    try {
        return make(like, store, batch_size_of(like), slot(like, bound.names)).release();
    } catch (const PythonError&) {
        return nullptr;
    }
}

// New collections at every level with the same values. Null: left to Python, or an error is set.
inline PyObject* shallow(PyObject* collection) {
    static PyObject* method = interned("_shallow");
    Ref store(PyDict_Copy(store_of(collection)));
    if (!store) return nullptr;
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(store.get(), &position, &key, &value)) {  // replacing values of present keys is allowed
        if (Py_TYPE(value) == bound.tensor) continue;
        Ref copied;
        if (is_tree(value)) {
            if (Py_EnterRecursiveCall(" while copying a nested collection") != 0) return nullptr;
            copied = Ref(shallow(value));
            Py_LeaveRecursiveCall();
        } else if (is_collection(value)) {
            copied = Ref(PyObject_CallMethodNoArgs(value, method));
        } else {
            continue;
        }
        if (!copied || PyDict_SetItem(store.get(), key, copied.get()) != 0) return nullptr;
    }
    return same(collection, store.get());
}

// copy(self), _shallow(self)
inline PyObject* copy(const Call& call) {
    return call.by_position(1, 1) && is_tree(call.args[0]) ? shallow(call.args[0]) : nullptr;
}

// clone(self, recurse=False)
inline PyObject* clone_shallow(const Call& call) {
    static PyObject* recurse = interned("recurse");
    const bool asked = call.by_position(2, 2) ? call.args[1] == Py_False
                                              : call.count() == 1 && call.only_keyword(recurse) == Py_False;
    return asked && is_tree(call.args[0]) ? shallow(call.args[0]) : nullptr;
}

// empty(self)
inline PyObject* empty(const Call& call) {
    if (!call.by_position(1, 1) || !is_tree(call.args[0])) return nullptr;
    Ref store(PyDict_New());
    return store ? same(call.args[0], store.get()) : nullptr;
}

// select(self, *keys)
inline PyObject* select(const Call& call) {
    if (call.names != nullptr || call.count() < 1 || !is_tree(call.args[0])) return nullptr;
    Ref store(PyDict_New());
    if (!store) return nullptr;
    for (Py_ssize_t i = 1; i < call.count(); ++i) {
        if (!PyUnicode_CheckExact(call.args[i])) return nullptr;
        PyObject* value = PyDict_GetItemWithError(store_of(call.args[0]), call.args[i]);
        if (value == nullptr || PyDict_SetItem(store.get(), call.args[i], value) != 0) return nullptr;
    }
    return same(call.args[0], store.get());
}

// exclude(self, *keys)
inline PyObject* exclude(const Call& call) {
    if (call.names != nullptr || call.count() < 1 || !is_tree(call.args[0])) return nullptr;
    for (Py_ssize_t i = 1; i < call.count(); ++i) {
        if (!PyUnicode_CheckExact(call.args[i])) return nullptr;
    }
    Ref store(PyDict_Copy(store_of(call.args[0])));
    if (!store) return nullptr;
    for (Py_ssize_t i = 1; i < call.count(); ++i) {
        const int found = PyDict_Contains(store.get(), call.args[i]);
        if (found < 0 || (found == 1 && PyDict_DelItem(store.get(), call.args[i]) != 0)) return nullptr;
    }
    return same(call.args[0], store.get());
}

// Note how a `with` statement undoes an operation on keys; see td/context.py.
inline bool note_undo(PyObject* result, PyObject* inverse, PyObject* source, PyObject* separator) {
    Ref reference(PyWeakref_NewRef(source, nullptr));
    if (!reference) return false;
    PyObject* context = PyTuple_Pack(4, bound.empty, inverse, reference.get(), separator);
    if (context == nullptr) return false;
    Py_XSETREF(slot(result, bound.context), context);
    return true;
}

// Add the leaves of a collection under joined keys. False: left to Python, or an error is set.
inline bool flatten_into(PyObject* store, PyObject* collection, PyObject* prefix, PyObject* separator) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(store_of(collection), &position, &key, &value)) {
        if (!PyUnicode_CheckExact(key)) return false;
        Ref name(prefix == nullptr ? Py_NewRef(key) : PyUnicode_Concat(prefix, key));
        if (!name) return false;
        if (Py_TYPE(value) != bound.tensor && is_tree(value)) {
            Ref below(PyUnicode_Concat(name.get(), separator));
            if (!below || Py_EnterRecursiveCall(" while flattening a nested collection") != 0) return false;
            const bool done = flatten_into(store, value, below.get(), separator);
            Py_LeaveRecursiveCall();
            if (!done) return false;
            continue;
        }
        if (!PyObject_TypeCheck(value, bound.tensor)) return false;
        const Py_ssize_t before = PyDict_GET_SIZE(store);
        if (PyDict_SetDefault(store, name.get(), value) == nullptr) return false;
        if (PyDict_GET_SIZE(store) == before) return false;  // two keys become the same
    }
    return true;
}

// The separator of flatten_keys(self, separator=".") and unflatten_keys; null: there are other arguments.
inline PyObject* separator_of(const Call& call) {
    static PyObject* dot = interned(".");
    if (!call.by_position(1, 2) || !is_tensordict(call.args[0])) return nullptr;
    if (call.count() == 1) return dot;
    return PyUnicode_CheckExact(call.args[1]) && PyUnicode_GET_LENGTH(call.args[1]) > 0 ? call.args[1] : nullptr;
}

inline PyObject* flatten_keys(const Call& call) {
    PyObject* separator = separator_of(call);
    if (separator == nullptr) return nullptr;
    Ref store(PyDict_New());
    if (!store || !flatten_into(store.get(), call.args[0], nullptr, separator)) return nullptr;
    Ref result(same(call.args[0], store.get()));
    if (!result || !note_undo(result.get(), key_objects.flat_keys, call.args[0], separator)) return nullptr;
    return result.release();
}

// unflatten_keys(self, separator="."), of one new level: several separators in a key are left to Python.
inline PyObject* unflatten_keys(const Call& call) {
    PyObject* separator = separator_of(call);
    if (separator == nullptr) return nullptr;
    const Py_ssize_t width = PyUnicode_GET_LENGTH(separator);
    PyObject* source = call.args[0];
    Ref store(PyDict_New());
    if (!store) return nullptr;
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(store_of(source), &position, &key, &value)) {
        if (!PyUnicode_CheckExact(key) || Py_TYPE(value) != bound.tensor) return nullptr;
        const Py_ssize_t length = PyUnicode_GET_LENGTH(key);
        const Py_ssize_t split = PyUnicode_Find(key, separator, 0, length, 1);
        if (split != PyUnicode_Find(key, separator, 0, length, -1)) return nullptr;  // several, or overlapping ones
        PyObject* into = store.get();
        Ref name = Ref::borrowed(key);
        if (split >= 0) {
            Ref prefix(PyUnicode_Substring(key, 0, split));
            name = Ref(PyUnicode_Substring(key, split + width, length));
            if (!prefix || !name) return nullptr;
            PyObject* node = PyDict_GetItemWithError(store.get(), prefix.get());
            if (node == nullptr) {
                Ref below(PyDict_New());
                Ref made(below ? same(source, below.get()) : nullptr);
                if (!made || PyDict_SetItem(store.get(), prefix.get(), made.get()) != 0) return nullptr;
                node = made.get();
            } else if (Py_TYPE(node) == bound.tensor) {
                return nullptr;
            }
            into = store_of(node);
        }
        const Py_ssize_t before = PyDict_GET_SIZE(into);
        if (PyDict_SetDefault(into, name.get(), value) == nullptr || PyDict_GET_SIZE(into) == before) return nullptr;
    }
    Ref result(same(source, store.get()));
    if (!result || !note_undo(result.get(), key_objects.nested_keys, source, separator)) return nullptr;
    return result.release();
}

// bind_keys(missing, no_default, KeyView, WalkedKeyView, flat_keys, nested_keys)
inline PyObject* py_bind_keys(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 6 || !PyType_Check(args[2]) || !PyType_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, "bind_keys: expected two marks, two classes and two inverses");
        return nullptr;
    }
    try {
        key_objects.view_collection = offset_of(args[2], "_collection");
        key_objects.view_options = offset_of(args[3], "_options");
    } catch (const PythonError&) {
        return nullptr;
    }
    key_objects.missing = Py_NewRef(args[0]);
    key_objects.no_default = Py_NewRef(args[1]);
    key_objects.view = reinterpret_cast<PyTypeObject*>(Py_NewRef(args[2]));
    key_objects.walked_view = reinterpret_cast<PyTypeObject*>(Py_NewRef(args[3]));
    key_objects.flat_keys = Py_NewRef(args[4]);
    key_objects.nested_keys = Py_NewRef(args[5]);
    Py_RETURN_NONE;
}

inline PyMethodDef dictionary_methods[] = {METHOD_ANY(bind_keys), {nullptr, nullptr, 0, nullptr}};

inline const Method dictionary_answers[] = {
    {"TensorCollection", "get", answered<get>},
    {"TensorCollection", "__getitem__", answered<getitem>},
    {"TensorCollection", "__contains__", answered<contains>},
    {"TensorCollection", "keys", answered<keys>},
    {"TensorCollection", "items", answered<items>},
    {"TensorCollection", "set", answered<set>},
    {"TensorCollection", "__setitem__", answered<setitem>},
    {"TensorCollection", "pop", answered<pop>},
    {"TensorCollection", "rename_key_", answered<rename_key>},
    {"TensorCollection", "update", answered<update>},
    {"TensorCollection", "copy", answered<copy>},
    {"TensorCollection", "_shallow", answered<copy>},
    {"TensorCollection", "clone", answered<clone_shallow>},
    {"TensorCollection", "empty", answered<empty>},
    {"TensorCollection", "select", answered<select>},
    {"TensorCollection", "exclude", answered<exclude>},
    {"TensorCollection", "flatten_keys", answered<flatten_keys>},
    {"TensorCollection", "unflatten_keys", answered<unflatten_keys>},
    {"KeyView", "__iter__", answered<view_iter>},
    {"KeyView", "__len__", answered<view_len>},
    {"WalkedKeyView", "__iter__", answered<walked_iter>},
    {"WalkedKeyView", "__len__", answered<walked_len>},
    {nullptr, nullptr, nullptr},
};

}  // namespace tensorclass
