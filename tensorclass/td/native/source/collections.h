// Collections as native code sees them: a dict of values and slots at known offsets, walked level by level.
//
// Every operation is tried, not demanded: what it does not know it leaves, with nothing done, to the Python code of the
// same method. So it needs no errors of its own.
#pragma once

#include <torch/csrc/autograd/python_variable.h>  // includes Python.h first

#include <ATen/ATen.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/SmallVector.h>
#include <c10/util/safe_numerics.h>
#include <torch/csrc/Exceptions.h>

#include <structmember.h>

namespace tensorclass {

using Sizes = c10::SmallVector<int64_t, 6>;
using Tensors = std::vector<at::Tensor>;

// What `bind` hands over from Python.
struct Bound {
    PyTypeObject* tensor = nullptr;      // torch.Tensor
    PyTypeObject* size = nullptr;        // torch.Size
    PyTypeObject* collection = nullptr;  // td.collection.Collection
    PyTypeObject* tensordict = nullptr;  // td.tensordict.TensorDict, once it is made
    Py_ssize_t store = 0, batch_size = 0, device = 0, names = 0, lock = 0, context = 0, buffer = 0;
    PyObject* is_plain = nullptr;        // "_NATIVE"
    PyObject* no_dims = nullptr;         // torch.Size([])
    PyObject* empty = nullptr;           // ()
};
extern Bound bound;

// An owned reference.
class Ref {
public:
    Ref() = default;
    explicit Ref(PyObject* object) : object_(object) {}
    Ref(Ref&& other) noexcept : object_(other.release()) {}
    Ref& operator=(Ref&& other) noexcept {
        PyObject* before = object_;
        object_ = other.release();
        Py_XDECREF(before);
        return *this;
    }
    Ref(const Ref&) = delete;
    Ref& operator=(const Ref&) = delete;
    ~Ref() { Py_XDECREF(object_); }
    static Ref borrowed(PyObject* object) {
        Py_XINCREF(object);
        return Ref(object);
    }
    PyObject* get() const { return object_; }
    PyObject* release() {
        PyObject* object = object_;
        object_ = nullptr;
        return object;
    }
    explicit operator bool() const { return object_ != nullptr; }

private:
    PyObject* object_ = nullptr;
};

// A name that lives as long as the program.
inline PyObject* interned(const char* text) {
    PyObject* made = PyUnicode_InternFromString(text);
    if (made == nullptr) Py_FatalError("tensorclass: no memory for a name");
    return made;
}

// Thrown where an operation is left to the Python code.
struct NotNative {};
// Thrown where a call into Python has set an error.
struct PythonError {};

inline Ref as_long(int64_t number) {
    Ref made(PyLong_FromLongLong(number));
    if (!made) throw PythonError();
    return made;
}

inline PyObject*& slot(PyObject* object, Py_ssize_t offset) {
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}
// Replace what a slot refers to.
inline void replace(PyObject*& place, PyObject* value) {
    PyObject* before = place;
    place = Py_NewRef(value);
    Py_XDECREF(before);
}
// Where a slot of a class lies in its instances.
inline Py_ssize_t offset_of(PyObject* cls, const char* name) {
    Ref member(PyObject_GetAttrString(cls, name));
    if (!member) throw PythonError();
    if (Py_TYPE(member.get()) != &PyMemberDescr_Type) {
        PyErr_Format(PyExc_TypeError, "%s is no slot", name);
        throw PythonError();
    }
    return reinterpret_cast<PyMemberDescrObject*>(member.get())->d_member->offset;
}

inline PyObject* store_of(PyObject* collection) { return slot(collection, bound.store); }
inline PyObject* batch_size_of(PyObject* collection) { return slot(collection, bound.batch_size); }

// A class of the package has Collection next to the end of its bases, which is quicker to see than to search.
inline bool is_collection(PyObject* value) {
    PyObject* bases = Py_TYPE(value)->tp_mro;
    const Py_ssize_t count = bases == nullptr ? 0 : PyTuple_GET_SIZE(bases);
    auto* collection = reinterpret_cast<PyObject*>(bound.collection);
    return (count > 1 && PyTuple_GET_ITEM(bases, count - 2) == collection) || PyObject_TypeCheck(value, bound.collection);
}

// Whether native code may treat an object as a tree of values: a collection on a dict, of a class that overrides none of
// the methods, and not made halfway.
inline bool is_plain(PyObject* value) {
    if (!is_collection(value) || _PyType_Lookup(Py_TYPE(value), bound.is_plain) != Py_True) return false;
    PyObject *store = store_of(value), *size = batch_size_of(value);
    return store != nullptr && PyDict_CheckExact(store) && size != nullptr && PyTuple_Check(size) &&
           slot(value, bound.device) != nullptr && slot(value, bound.names) != nullptr &&
           slot(value, bound.lock) != nullptr;
}
// Whether this is a TensorDict itself: any key fits, and no method is another class's.
inline bool is_tensordict(PyObject* value) { return Py_TYPE(value) == bound.tensordict && is_plain(value); }
inline bool has_names(PyObject* collection) { return slot(collection, bound.names) != Py_None; }

// Whether a value is a tensor that torch's kernels take as it is; subclasses have a say of their own.
inline bool is_tensor(PyObject* value) {
    if (Py_TYPE(value) != bound.tensor) return false;
    const c10::TensorImpl* impl = THPVariable_Unpack(value).unsafeGetTensorImpl();
    return !impl->has_symbolic_sizes_strides() && !impl->is_nested();
}

// Modes of torch that see calls of functions (and tracing, which records sizes) need the calls from Python.
inline bool calls_are_watched() {
    return at::impl::torch_function_mode_enabled() || c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Tracer);
}

// Whether a tensor stands for another one: inside of transforms of torch.func, functionalization, and modes.
inline bool is_wrapper(const at::Tensor& tensor) {
    static const c10::DispatchKeySet wrappers({c10::DispatchKey::FuncTorchBatched,
                                               c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Python,
                                               c10::DispatchKey::Functionalize});
    return tensor.key_set().has_any(wrappers) || c10::impl::TorchDispatchModeTLS::stack_len() > 0;
}

// Whether the memory of a tensor is its content: no wrapper of torch.func, no fake or lazily negated tensor.
inline bool has_own_memory(const at::Tensor& tensor) {
    static const c10::DispatchKeySet wrapped(
        {c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Python,
         c10::DispatchKey::Functionalize, c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
         c10::DispatchKey::ZeroTensor});
    return tensor.device().is_cpu() && tensor.layout() == at::kStrided && !tensor.key_set().has_any(wrapped) &&
           c10::impl::TorchDispatchModeTLS::stack_len() == 0;
}

// Ints of Python, not bools or others that have an __index__.
inline int64_t as_int(PyObject* number) {
    if (!PyLong_CheckExact(number)) throw NotNative();
    int overflow = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow != 0) throw NotNative();
    return value;
}

inline Sizes sizes_of(PyObject* size) {
    if (!PyTuple_Check(size)) throw NotNative();
    Sizes sizes;
    const Py_ssize_t count = PyTuple_GET_SIZE(size);
    for (Py_ssize_t i = 0; i < count; ++i) sizes.push_back(as_int(PyTuple_GET_ITEM(size, i)));
    return sizes;
}
inline Ref as_size(c10::ArrayRef<int64_t> sizes) {
    if (sizes.empty()) return Ref::borrowed(bound.no_dims);
    Ref made(bound.size->tp_alloc(bound.size, static_cast<Py_ssize_t>(sizes.size())));  // a subclass of tuple
    if (!made) throw PythonError();
    for (size_t i = 0; i < sizes.size(); ++i) {
        PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), as_long(sizes[i]).release());
    }
    return made;
}

// Whether two sizes have the same ints. False: they differ, or are no ints of Python.
inline bool is_same_size(PyObject* first, PyObject* second) {
    if (first == second) return true;
    const Py_ssize_t ndim = PyTuple_GET_SIZE(first);
    if (PyTuple_GET_SIZE(second) != ndim) return false;
    for (Py_ssize_t dim = 0; dim < ndim; ++dim) {
        PyObject *a = PyTuple_GET_ITEM(first, dim), *b = PyTuple_GET_ITEM(second, dim);
        int overflow = 0, other_overflow = 0;
        if (!PyLong_CheckExact(a) || !PyLong_CheckExact(b)) return false;
        const int64_t size = PyLong_AsLongLongAndOverflow(a, &overflow);
        if (size != PyLong_AsLongLongAndOverflow(b, &other_overflow) || overflow != 0 || other_overflow != 0) return false;
    }
    return true;
}

// Products and sums of sizes, which are left to Python where they do not fit into 64 bits.
inline int64_t times(int64_t one, int64_t other) {
    int64_t product = 0;
    if (c10::mul_overflows(one, other, &product)) throw NotNative();
    return product;
}
inline int64_t plus(int64_t one, int64_t other) {
    int64_t sum = 0;
    if (c10::add_overflows(one, other, &sum)) throw NotNative();
    return sum;
}

// Memory that another thread can write meanwhile: what is checked is what is used.
template <class T>
T read_once(const T* address) {
    return *static_cast<const volatile T*>(address);
}

// A collection; steals no references. What it is made of is owned before it is: making it can run Python code.
inline Ref make_of(PyTypeObject* cls, PyObject* store, PyObject* batch_size, PyObject* device, PyObject* names) {
    Ref kept_store = Ref::borrowed(store), kept_size = Ref::borrowed(batch_size), kept_device = Ref::borrowed(device),
        kept_names = Ref::borrowed(names);
    PyObject* made = cls->tp_alloc(cls, 0);
    if (made == nullptr) throw PythonError();
    slot(made, bound.store) = kept_store.release();
    slot(made, bound.batch_size) = kept_size.release();
    slot(made, bound.device) = kept_device.release();
    slot(made, bound.names) = kept_names.release();
    slot(made, bound.lock) = Py_NewRef(Py_None);
    return Ref(made);
}
// A collection of the class and on the device of another.
inline Ref make(PyObject* like, PyObject* store, PyObject* batch_size, PyObject* names) {
    return make_of(Py_TYPE(like), store, batch_size, slot(like, bound.device), names);
}

inline Ref wrap(at::Tensor tensor) {
    PyObject* wrapped = THPVariable_Wrap(std::move(tensor));
    if (wrapped == nullptr) throw PythonError();
    return Ref(wrapped);
}

// Dicts are owned while they are read or written: a key of a class of its own can run Python code.
inline void put(PyObject* dict, PyObject* key, PyObject* value) {
    const Ref kept = Ref::borrowed(dict);
    if (PyDict_SetItem(dict, key, value) != 0) throw PythonError();
}

// The value under a key; null without one.
inline Ref lookup(PyObject* dict, PyObject* key) {
    const Ref kept = Ref::borrowed(dict);
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* value = nullptr;
    if (PyDict_GetItemRef(dict, key, &value) < 0) throw PythonError();
    return Ref(value);
#else
    PyObject* value = PyDict_GetItemWithError(dict, key);
    if (value == nullptr && PyErr_Occurred() != nullptr) throw PythonError();
    return Ref::borrowed(value);
#endif
}

// -- trees ------------------------------------------------------------------------------------------------------------

// The entries of a dict at one moment, owned. Nothing else loops over a dict: no Python code runs while they are taken, and
// whoever changes the dict afterwards does not change them.
class Entries {
public:
    struct Entry {
        PyObject *key, *value;
    };
    explicit Entries(PyObject* dict) {
        entries_.reserve(PyDict_GET_SIZE(dict));
        Py_ssize_t position = 0;
        PyObject *key, *value;
        while (PyDict_Next(dict, &position, &key, &value)) entries_.push_back({Py_NewRef(key), Py_NewRef(value)});
    }
    Entries(const Entries&) = delete;
    Entries& operator=(const Entries&) = delete;
    ~Entries() {
        for (const Entry& entry : entries_) {
            Py_DECREF(entry.key);
            Py_DECREF(entry.value);
        }
    }
    const Entry* begin() const { return entries_.begin(); }
    const Entry* end() const { return entries_.end(); }
    size_t size() const { return entries_.size(); }

private:
    c10::SmallVector<Entry, 8> entries_;
};

// The items of a list at one moment, owned.
class Items {
public:
    explicit Items(PyObject* list) {
        items_.reserve(PyList_GET_SIZE(list));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) items_.push_back(Py_NewRef(PyList_GET_ITEM(list, i)));
    }
    Items(const Items&) = delete;
    Items& operator=(const Items&) = delete;
    ~Items() {
        for (PyObject* item : items_) Py_DECREF(item);
    }
    PyObject* const* begin() const { return items_.begin(); }
    PyObject* const* end() const { return items_.end(); }
    PyObject* operator[](size_t i) const { return items_[i]; }
    size_t size() const { return items_.size(); }
    operator c10::ArrayRef<PyObject*>() const { return items_; }

private:
    c10::SmallVector<PyObject*, 16> items_;
};

// A level of a nested structure. What is nested more deeply is left to Python, which raises where it contains itself.
class Nesting {
public:
    Nesting() {
        if (depth >= 200) throw NotNative();
        ++depth;
    }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    ~Nesting() { --depth; }

private:
    static inline thread_local int depth = 0;
};

// What a level of a collection is beside its values.
struct Level {
    Ref collection, size, device, names;
    uint32_t position, above;  // among the levels of a tree, and of the level that it is a value of

    explicit Level(PyObject* of, uint32_t at = 0, uint32_t above_it = 0)
        : collection(Ref::borrowed(of)), size(Ref::borrowed(batch_size_of(of))),
          device(Ref::borrowed(slot(of, bound.device))), names(Ref::borrowed(slot(of, bound.names))), position(at),
          above(above_it) {}

    bool is_root() const { return position == 0; }

    Py_ssize_t ndim() const { return PyTuple_GET_SIZE(size.get()); }
    bool has_names() const { return names.get() != Py_None; }
    // The same on another store.
    Ref on(PyObject* store) const { return like(store, size.get(), names.get()); }
    // A collection of the same class, on the same device.
    Ref like(PyObject* store, PyObject* batch_size, PyObject* names_of_it) const {
        return make_of(Py_TYPE(collection.get()), store, batch_size, device.get(), names_of_it);
    }
};

// A plain collection with all that is below it at one moment, owned: keys and values are taken once, together. So a result
// is put together from what its values were computed of, whatever other code does with the collection meanwhile.
class Tree {
public:
    enum class Kind : uint8_t { Tensor, Level, Other };
    struct Node {
        Ref key, value;
        Kind kind = Kind::Other;
        uint32_t count = 0;  // of a level: its entries, which follow, each with its own entries behind it
        uint32_t level = 0;  // that it is an entry of
    };

    explicit Tree(PyObject* collection) { count_ = take(collection, 0); }
    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;

    const Level& root() const { return levels_[0]; }
    size_t size() const { return count_; }  // the entries of the root
    const c10::SmallVector<Node, 8>& nodes() const { return nodes_; }
    const std::vector<Level>& levels() const { return levels_; }
    bool has_others() const { return others_ > 0; }
    bool has_names_below() const { return names_below_; }

    // The tensors of all levels, in order.
    Tensors tensors() const {
        Tensors found;
        found.reserve(tensors_);
        for (const Node& node : nodes_) {
            if (node.kind == Kind::Tensor) found.push_back(THPVariable_Unpack(node.value.get()));
        }
        return found;
    }

    // Put the same tree together with other tensors, in the order of `tensors()`, which are used up.
    //
    // `shape` says what becomes of the rest: `size(level)` returns the batch size, `names(level)` the names, `other(value)`
    // what a value becomes that is neither a tensor nor a plain tree, `done(result, level)` finishes each level.
    template <class Shape>
    Ref rebuilt(Tensors& tensors, const Shape& shape) const {
        if (tensors.size() != tensors_) throw NotNative();
        Building<Shape> building{*this, tensors, shape};
        return building.level(count_);
    }

private:
    c10::SmallVector<Node, 8> nodes_;
    std::vector<Level> levels_;  // the root, then the others in the order of the nodes
    size_t tensors_ = 0, others_ = 0;
    uint32_t count_ = 0;
    bool names_below_ = false;

    // Append the entries of a level and of those below it. Return how many are its own.
    uint32_t take(PyObject* collection, uint32_t above) {
        const Nesting nesting;
        const auto level = static_cast<uint32_t>(levels_.size());
        levels_.emplace_back(collection, level, above);
        if (level > 0 && levels_.back().has_names()) names_below_ = true;
        const Ref store = Ref::borrowed(store_of(collection));
        Py_ssize_t position = 0;
        uint32_t count = 0;
        PyObject *key, *value;
        for (; PyDict_Next(store.get(), &position, &key, &value); ++count) {
            const size_t own = nodes_.size();
            nodes_.push_back({Ref::borrowed(key), Ref::borrowed(value), Kind::Other, 0, level});
            if (is_tensor(value)) {
                nodes_[own].kind = Kind::Tensor;
                ++tensors_;
            } else if (is_plain(value)) {
                nodes_[own].kind = Kind::Level;
                const uint32_t below = take(value, level);
                nodes_[own].count = below;
            } else {
                ++others_;
            }
        }
        return count;
    }

    template <class Shape>
    struct Building {
        const Tree& tree;
        Tensors& tensors;
        const Shape& shape;
        size_t next_node = 0, next_level = 0, next_tensor = 0;

        Ref level(uint32_t count) {
            const Level& source = tree.levels_[next_level++];
            Ref store(PyDict_New());
            if (!store) throw PythonError();
            for (uint32_t i = 0; i < count; ++i) {
                const Node& node = tree.nodes_[next_node++];
                const Ref value = node.kind == Kind::Tensor  ? wrap(std::move(tensors[next_tensor++]))
                                  : node.kind == Kind::Level ? level(node.count)
                                                             : shape.other(node.value.get());
                put(store.get(), node.key.get(), value.get());
            }
            const Ref size = shape.size(source);
            Ref result = source.like(store.get(), size.get(), shape.names(source));
            shape.done(result.get(), source);
            return result;
        }
    };
};

// The same tree: only its tensors are others.
struct Kept {
    static Ref size(const Level& level) { return Ref::borrowed(level.size.get()); }
    static PyObject* names(const Level& level) { return level.names.get(); }
    static Ref other(PyObject*) { throw NotNative(); }
    static void done(PyObject*, const Level&) {}
};

// The arguments of a method behind the collection; the last ones can be missing.
class Arguments {
public:
    Arguments(PyObject* const* first, Py_ssize_t count) : items_(first), count_(count) {}
    Py_ssize_t size() const { return count_; }
    PyObject* operator[](Py_ssize_t position) const {
        if (position >= count_) throw NotNative();
        return items_[position];
    }
    Arguments from(Py_ssize_t position) const { return {items_ + position, count_ - position}; }
    PyObject* get(Py_ssize_t position, PyObject* missing) const { return position < count_ ? items_[position] : missing; }

private:
    PyObject* const* items_;
    Py_ssize_t count_;
};

// -- calls ------------------------------------------------------------------------------------------------------------

// Call `run`. Return None where it throws, and where it returns null, as the operation is left to Python. So are errors of
// torch and of Python, as Python raises better ones, but for interrupts, and for nesting that is too deep: trying again at
// each level would not end.
template <class Run>
PyObject* unless_left(Run&& run) {
    try {
        Ref result = run();
        if (result) return result.release();
    } catch (const NotNative&) {
    } catch (const PythonError&) {
    } catch (python_error& error) {
        error.restore();
    } catch (const std::exception&) {
    }
    if (PyErr_Occurred() != nullptr) {
        if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_RecursionError)) return nullptr;
        PyErr_Clear();
    }
    Py_RETURN_NONE;
}

// Run an operation whose kernels can warn; modes of torch that watch calls see those of Python.
template <class Operation>
PyObject* attempt(Operation&& operation) {
    return unless_left([&] {
        Ref result;  // outlives the handler, which raises warnings that are errors
        if (calls_are_watched()) return result;
        torch::PyWarningHandler warnings;
        try {
            result = operation();
        } catch (...) {
            warnings.set_in_exception();
            throw;
        }
        return result;
    });
}

// Run an operation without kernels.
template <class Operation>
PyObject* attempt_quietly(Operation&& operation) {
    return unless_left([&] { return calls_are_watched() ? Ref() : operation(); });
}

}  // namespace tensorclass

namespace tensorclass {

inline PyCFunction as_function(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}
inline PyObject* wrong_count(const char* name, Py_ssize_t expected, Py_ssize_t given) {
    return PyErr_Format(PyExc_TypeError, "%s: expected %zd arguments, got %zd", name, expected, given);
}

}  // namespace tensorclass

// A line of a table of functions: py_<name> is called with so many arguments.
#define METHOD(name, expected)                                                                     \
    {#name, as_function([](PyObject*, PyObject* const* args, Py_ssize_t given) -> PyObject* {      \
         return given == expected ? py_##name(args) : wrong_count(#name, expected, given);         \
     }),                                                                                           \
     METH_FASTCALL, nullptr}
// The same for what methods of Python try: a call that they would refuse is left to them.
#define OPERATION(name, expected)                                                                  \
    {#name, as_function([](PyObject*, PyObject* const* args, Py_ssize_t given) -> PyObject* {      \
         return given == expected ? py_##name(args) : Py_NewRef(Py_None);                          \
     }),                                                                                           \
     METH_FASTCALL, nullptr}
#define END_OF_METHODS {nullptr, nullptr, 0, nullptr}
