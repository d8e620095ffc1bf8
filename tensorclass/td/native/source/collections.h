// Collections as native code sees them: a dict of values and slots at known offsets, walked level by level.
//
// Every operation is tried, not demanded: what it does not know it leaves, with nothing done, to the Python code of the
// same method. So it needs no errors of its own.
#pragma once

#include <torch/csrc/autograd/python_variable.h>  // includes Python.h first

#include <ATen/ATen.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/util/SmallVector.h>
#include <c10/util/safe_numerics.h>
#include <torch/csrc/Exceptions.h>

#include <structmember.h>

#include <algorithm>
#include <utility>

namespace tensorclass {

using Sizes = c10::SmallVector<int64_t, 6>;
using Tensors = c10::SmallVector<at::Tensor, 8>;

// What Python hands over at the start, which lives as long as the program.
struct Bound {
    PyTypeObject *tensor, *size, *collection;              // torch.Tensor, torch.Size, td.collection.Collection
    PyTypeObject* tensordict;                              // td.tensordict.TensorDict, once it is made
    Py_ssize_t store, batch_size, device, names, lock, context;  // slots of collections
    PyObject *copied, *resized, *permuted, *cast;          // how a `with` statement undoes operations: td/context.py
    PyObject *is_plain, *no_dims, *empty;                  // "_NATIVE", torch.Size([]), ()
};
inline Bound bound{};

// An owned reference.
class Ref {
public:
    explicit Ref(PyObject* object = nullptr) : object_(object) {}
    Ref(Ref&& other) noexcept : object_(other.release()) {}
    Ref& operator=(Ref&& other) noexcept {
        const Ref before(std::exchange(object_, other.release()));
        return *this;
    }
    ~Ref() { Py_XDECREF(object_); }
    static Ref borrowed(PyObject* object) { return Ref(Py_XNewRef(object)); }
    Ref copy() const { return borrowed(object_); }
    PyObject* get() const { return object_; }
    PyObject* release() { return std::exchange(object_, nullptr); }
    explicit operator bool() const { return object_ != nullptr; }

private:
    PyObject* object_;
};
using Refs = c10::ArrayRef<Ref>;

inline Ref none() { return Ref::borrowed(Py_None); }
inline Ref yes() { return Ref::borrowed(Py_True); }

// Thrown where an operation is left to the Python code.
struct NotNative {};
// Thrown where a call into Python has set an error.
struct PythonError {};

// What a call into Python has returned.
inline Ref owned(PyObject* made) {
    if (made == nullptr) throw PythonError();
    return Ref(made);
}
inline Ref as_long(int64_t number) { return owned(PyLong_FromLongLong(number)); }

// A name that lives as long as the program.
inline PyObject* interned(const char* text) {
    PyObject* made = PyUnicode_InternFromString(text);
    if (made == nullptr) Py_FatalError("tensorclass: no memory for a name");
    return made;
}

inline PyObject*& slot(PyObject* object, Py_ssize_t offset) {
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}
// Find where slots of a class lie in its instances. False: an error is set.
inline bool find_slots(PyTypeObject* cls, std::initializer_list<std::pair<const char*, Py_ssize_t*>> slots) {
    for (const auto& [name, offset] : slots) {
        const Ref member(PyObject_GetAttrString(reinterpret_cast<PyObject*>(cls), name));
        if (!member) return false;
        if (Py_TYPE(member.get()) != &PyMemberDescr_Type) return PyErr_Format(PyExc_TypeError, "%s is no slot", name);
        *offset = reinterpret_cast<PyMemberDescrObject*>(member.get())->d_member->offset;
    }
    return true;
}

inline PyObject* store_of(PyObject* collection) { return slot(collection, bound.store); }
inline PyObject* batch_size_of(PyObject* collection) { return slot(collection, bound.batch_size); }
inline bool has_names(PyObject* collection) { return slot(collection, bound.names) != Py_None; }
inline bool is_locked(PyObject* collection) { return slot(collection, bound.lock) != Py_None; }

// A class of the package has Collection next to the end of its bases, which is quicker to see than to search.
inline bool is_collection(PyObject* value) {
    PyObject* bases = Py_TYPE(value)->tp_mro;
    const Py_ssize_t count = bases == nullptr ? 0 : PyTuple_GET_SIZE(bases);
    auto* collection = reinterpret_cast<PyObject*>(bound.collection);
    return (count > 1 && PyTuple_GET_ITEM(bases, count - 2) == collection) || PyObject_TypeCheck(value, bound.collection);
}

// Whether a collection is on a dict, and not made halfway.
inline bool is_made(PyObject* collection) {
    PyObject *store = store_of(collection), *size = batch_size_of(collection);
    return store != nullptr && PyDict_CheckExact(store) && size != nullptr && PyTuple_Check(size) &&
           slot(collection, bound.device) != nullptr && slot(collection, bound.names) != nullptr &&
           slot(collection, bound.lock) != nullptr;
}
// Whether native code may treat an object as a tree of values: a collection whose class overrides none of the methods.
inline bool is_plain(PyObject* value) {
    return is_collection(value) && _PyType_Lookup(Py_TYPE(value), bound.is_plain) == Py_True && is_made(value);
}
// Whether this is a TensorDict itself: any key fits, and no method is another class's.
inline bool is_tensordict(PyObject* value) { return Py_TYPE(value) == bound.tensordict && is_plain(value); }

// Whether a value is a tensor that torch's kernels take as it is; subclasses have a say of their own.
inline bool is_tensor(PyObject* value) {
    if (Py_TYPE(value) != bound.tensor) return false;
    const c10::TensorImpl* impl = THPVariable_Unpack(value).unsafeGetTensorImpl();
    return !impl->has_symbolic_sizes_strides() && !impl->is_nested();
}
inline Ref wrap(at::Tensor tensor) { return owned(THPVariable_Wrap(std::move(tensor))); }

// Memory that another thread can write meanwhile: what is checked is what is used.
template <class T>
T read_once(const T* address) {
    return *static_cast<const volatile T*>(address);
}

// -- sizes ------------------------------------------------------------------------------------------------------------

// Ints of Python, not bools or others that have an __index__.
inline int64_t as_int(PyObject* number) {
    int overflow = 0;
    const int64_t value = PyLong_CheckExact(number) ? PyLong_AsLongLongAndOverflow(number, &overflow) : 0;
    if (overflow != 0 || !PyLong_CheckExact(number)) throw NotNative();
    return value;
}

// The ints of a tuple or a list, or one int.
inline Sizes sizes_of(PyObject* given) {
    if (PyLong_CheckExact(given)) return {as_int(given)};
    if (!PyTuple_Check(given) && !PyList_CheckExact(given)) throw NotNative();
    Sizes sizes;
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(given);
    for (Py_ssize_t i = 0; i < count; ++i) sizes.push_back(as_int(PySequence_Fast_GET_ITEM(given, i)));
    return sizes;
}
inline Ref as_size(c10::IntArrayRef sizes) {
    if (sizes.empty()) return Ref::borrowed(bound.no_dims);
    Ref made = owned(bound.size->tp_alloc(bound.size, static_cast<Py_ssize_t>(sizes.size())));  // a subclass of tuple
    for (size_t i = 0; i < sizes.size(); ++i) PyTuple_SET_ITEM(made.get(), i, as_long(sizes[i]).release());
    return made;
}

// Whether sizes begin with those of a tuple.
inline bool begins_with(c10::IntArrayRef own, PyObject* batch_size) {
    const auto ndim = static_cast<size_t>(PyTuple_GET_SIZE(batch_size));
    if (own.size() < ndim) return false;
    for (size_t dim = 0; dim < ndim; ++dim) {
        if (as_int(PyTuple_GET_ITEM(batch_size, dim)) != own[dim]) return false;
    }
    return true;
}
// Whether a tensor can be stored in a collection of this batch size and without a device as it is.
inline bool fits(PyObject* value, PyObject* batch_size) {
    return is_tensor(value) && begins_with(THPVariable_Unpack(value).sizes(), batch_size);
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

// The position of a dimension, counted from the front.
inline int64_t wrapped(int64_t dim, int64_t ndim) {
    if (dim < -ndim || dim >= ndim) throw NotNative();
    return dim < 0 ? dim + ndim : dim;
}

// -- collections and dicts --------------------------------------------------------------------------------------------

// A collection. What it is made of is owned before it is: making it can run Python code.
inline Ref make(PyTypeObject* cls, Ref store, Ref batch_size, Ref device = none(), Ref names = none()) {
    Ref made = owned(cls->tp_alloc(cls, 0));
    slot(made.get(), bound.store) = store.release();
    slot(made.get(), bound.batch_size) = batch_size.release();
    slot(made.get(), bound.device) = device.release();
    slot(made.get(), bound.names) = names.release();
    slot(made.get(), bound.lock) = Py_NewRef(Py_None);
    return made;
}

// Set how a `with` statement undoes an operation: by an inverse, with an argument if it takes one.
inline void set_inverse(PyObject* result, PyObject* source, PyObject* inverse, const Ref& argument = Ref()) {
    const Ref reference = owned(PyWeakref_NewRef(source, nullptr));
    Ref context = owned(PyTuple_Pack(argument ? 4 : 3, bound.empty, inverse, reference.get(), argument.get()));
    Py_XSETREF(slot(result, bound.context), context.release());
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

// The entries of a dict at one moment, owned: no Python code runs while they are taken, and whoever changes the dict
// afterwards does not change them. Nothing but this and `Tree` loops over a dict.
using Entries = c10::SmallVector<std::pair<Ref, Ref>, 8>;
inline Entries entries_of(PyObject* dict) {
    Entries entries;
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &position, &key, &value)) entries.emplace_back(Ref::borrowed(key), Ref::borrowed(value));
    return entries;
}

// A copy of a dict with what `change(key, value)` makes of each value. Null: it returned null.
template <class Change>
Ref changed_copy(PyObject* dict, const Change& change) {
    const Nesting level;
    Ref copy = owned(PyDict_Copy(dict));
    for (const auto& [key, value] : entries_of(copy.get())) {
        const Ref changed = change(key.get(), value.get());
        if (!changed) return Ref();
        if (changed.get() != value.get()) put(copy.get(), key.get(), changed.get());
    }
    return copy;
}

// -- trees ------------------------------------------------------------------------------------------------------------

// The dict behind a level of a tree: a plain collection, or a dict that stands for one.
inline PyObject* dict_behind(PyObject* level) { return PyDict_CheckExact(level) ? level : store_of(level); }

// What a level of a collection is beside its values; of a dict there is nothing more.
struct Level {
    Ref collection, size, device, names;
    uint32_t position, above;  // among the levels of a tree, and of the level that it is a value of

    explicit Level(PyObject* of, uint32_t at = 0, uint32_t above_it = 0)
        : collection(Ref::borrowed(of)), position(at), above(above_it) {
        if (PyDict_CheckExact(of)) return;
        size = Ref::borrowed(batch_size_of(of));
        device = Ref::borrowed(slot(of, bound.device));
        names = Ref::borrowed(slot(of, bound.names));
    }
    bool is_root() const { return position == 0; }
    int64_t ndim() const { return PyTuple_GET_SIZE(size.get()); }
    // A collection of the same class, on the same device.
    Ref like(Ref store, Ref batch_size, Ref its_names) const {
        return make(Py_TYPE(collection.get()), std::move(store), std::move(batch_size), device.copy(), std::move(its_names));
    }
    // A collection on another store, with the same batch size and names.
    Ref same(Ref store) const { return like(std::move(store), size.copy(), names.copy()); }
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

    // `dicts` stand for nested collections, too.
    explicit Tree(PyObject* collection, bool dicts = false) : dicts_(dicts) { count_ = take(collection, 0); }
    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;

    const Level& root() const { return levels_[0]; }
    uint32_t size() const { return count_; }  // the entries of the root
    const c10::SmallVector<Node, 8>& nodes() const { return nodes_; }
    const c10::SmallVector<Level, 2>& levels() const { return levels_; }
    bool has_others() const { return others_; }
    bool has_names() const { return names_; }

    // The tensors of all levels, in order.
    Tensors tensors() const {
        Tensors found;
        found.reserve(nodes_.size());
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
        return Building<Shape>{*this, tensors.begin(), shape}.level(count_);
    }

private:
    c10::SmallVector<Node, 8> nodes_;
    c10::SmallVector<Level, 2> levels_;  // the root, then the others in the order of the nodes
    uint32_t count_ = 0;
    bool others_ = false, names_ = false;
    const bool dicts_;

    // Append the entries of a level and of those below it. Return how many are its own.
    uint32_t take(PyObject* collection, uint32_t above) {
        const Nesting nesting;
        const auto level = static_cast<uint32_t>(levels_.size());
        const Level& own = levels_.emplace_back(collection, level, above);
        names_ = names_ || (own.names && own.names.get() != Py_None);
        const Ref store = Ref::borrowed(dict_behind(collection));
        nodes_.reserve(nodes_.size() + PyDict_GET_SIZE(store.get()));
        Py_ssize_t position = 0;
        uint32_t count = 0;
        PyObject *key, *value;
        for (; PyDict_Next(store.get(), &position, &key, &value); ++count) {
            const size_t at = nodes_.size();
            const Kind kind = is_tensor(value)                                           ? Kind::Tensor
                              : is_plain(value) || (dicts_ && PyDict_CheckExact(value)) ? Kind::Level
                                                                                         : Kind::Other;
            nodes_.push_back({Ref::borrowed(key), Ref::borrowed(value), kind, 0, level});
            others_ = others_ || kind == Kind::Other;
            const uint32_t below = kind == Kind::Level ? take(value, level) : 0;
            nodes_[at].count = below;
        }
        return count;
    }

    template <class Shape>
    struct Building {
        const Tree& tree;
        at::Tensor* next_tensor;
        const Shape& shape;
        size_t next_node = 0, next_level = 0;

        Ref level(uint32_t count) {
            const Level& source = tree.levels_[next_level++];
            Ref store = owned(PyDict_New());
            for (uint32_t i = 0; i < count; ++i) {
                const Node& node = tree.nodes_[next_node++];
                const Ref value = node.kind == Kind::Tensor  ? wrap(std::move(*next_tensor++))
                                  : node.kind == Kind::Level ? level(node.count)
                                                             : shape.other(node.value.get());
                put(store.get(), node.key.get(), value.get());
            }
            Ref result = source.like(std::move(store), shape.size(source), shape.names(source));
            shape.done(result.get(), source);
            return result;
        }
    };
};

// Trees beside another one: the values that they have under its keys, owned.
class Beside {
public:
    // `exact`: they have no more keys.
    Beside(const Tree& first, Refs others, bool exact = true) : first_(first), count_(others.size()), exact_(exact) {
        values_.reserve(first.nodes().size() * count_);  // so that none moves
        take(others, first.size());
    }
    // The values under the key of a node.
    Refs operator[](size_t node) const { return {values_.data() + node * count_, count_}; }
    // The batch sizes beside a level, read with its values; empty for a dict.
    Refs sizes(size_t level) const { return {sizes_.data() + level * count_, count_}; }

private:
    const Tree& first_;
    const size_t count_;
    const bool exact_;
    c10::SmallVector<Ref, 8> values_, sizes_;
    size_t next_ = 0;

    void take(Refs levels, uint32_t entries) {
        c10::SmallVector<Ref, 8> stores;
        for (const Ref& level : levels) {
            if (!PyDict_CheckExact(level.get()) && !is_plain(level.get())) throw NotNative();
            stores.push_back(Ref::borrowed(dict_behind(level.get())));
            sizes_.push_back(PyDict_CheckExact(level.get()) ? Ref() : Ref::borrowed(batch_size_of(level.get())));
            if (exact_ && PyDict_GET_SIZE(stores.back().get()) != static_cast<Py_ssize_t>(entries)) throw NotNative();
        }
        for (uint32_t i = 0; i < entries; ++i) {
            const size_t at = next_++;
            const Tree::Node& node = first_.nodes()[at];
            for (const Ref& store : stores) {
                values_.push_back(lookup(store.get(), node.key.get()));
                if (!values_.back()) throw NotNative();
            }
            if (node.kind == Tree::Kind::Level) take((*this)[at], node.count);
        }
    }
};

// Results of another shape: they have no names, and nothing else is to be done.
struct Reshaped {
    static Ref names(const Level&) { return none(); }
    static void done(PyObject*, const Level&) {}
};
// The same tree: only its tensors are others.
struct Kept {
    static Ref size(const Level& level) { return level.size.copy(); }
    static Ref names(const Level& level) { return level.names.copy(); }
    static Ref other(PyObject*) { throw NotNative(); }
    static void done(PyObject*, const Level&) {}
};

// -- calls ------------------------------------------------------------------------------------------------------------

// The arguments of a call; those that are missing are left to Python, unless there is a default.
class Arguments {
public:
    Arguments(PyObject* const* first, Py_ssize_t count) : items_(first), count_(count) {}
    Py_ssize_t size() const { return count_; }
    PyObject* operator[](Py_ssize_t position) const {
        if (position >= count_) throw NotNative();
        return items_[position];
    }
    PyObject* get(Py_ssize_t position, PyObject* missing) const { return position < count_ ? items_[position] : missing; }
    // The ints from a position on, given one by one or as one sequence.
    Sizes ints(Py_ssize_t position) const {
        if (count_ == position + 1) return sizes_of(items_[position]);
        Sizes sizes;
        for (Py_ssize_t i = position; i < count_; ++i) sizes.push_back(as_int(items_[i]));
        return sizes;
    }

private:
    PyObject* const* items_;
    Py_ssize_t count_;
};

// Modes of torch that see calls of functions (and tracing, which records sizes) need the calls from Python.
inline bool calls_are_watched() {
    return at::impl::torch_function_mode_enabled() || c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Tracer);
}

// Run an operation with the warnings of kernels as those of Python.
template <class Operation>
Ref with_warnings(const Operation& operation) {
    Ref result;  // outlives the handler, which raises warnings that are errors
    torch::PyWarningHandler warnings;
    try {
        result = operation();
    } catch (...) {
        warnings.set_in_exception();
        throw;
    }
    return result;
}

// Call `run`. Return None where it throws, and where it returns null, as the operation is left to Python. So are errors of
// torch and of Python, as Python raises better ones, but for interrupts, and for nesting that is too deep: trying again at
// each level would not end.
template <class Run>
PyObject* unless_left(const Run& run) {
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

// What methods of Python try: a function of the arguments. A call that they would refuse is left to them. What is often left is
// told from the first argument: to throw takes longer than most operations.
using Operation = Ref (*)(const Arguments&);
enum class First { Any, Plain, Unnamed };
template <Operation operation, Py_ssize_t most, bool kernels, First first>
PyObject* call(PyObject*, PyObject* const* args, Py_ssize_t given) {
    if (given < 1 || given > most || (first != First::Any && !is_plain(args[0])) || calls_are_watched()) Py_RETURN_NONE;
    if (first == First::Unnamed && has_names(args[0])) Py_RETURN_NONE;
    return unless_left([&] {
        const Arguments arguments(args, given);
        if constexpr (kernels) return with_warnings([&] { return operation(arguments); });
        return operation(arguments);
    });
}
constexpr Py_ssize_t MANY = PY_SSIZE_T_MAX;

}  // namespace tensorclass

// A line of a table of functions, with the greatest number of arguments: of a plain collection, run by kernels;
#define OPERATION(name, most) METHOD(name, (tensorclass::call<name, most, true, tensorclass::First::Plain>))
// of one whose dimensions have no names;
#define UNNAMED_OPERATION(name, most) METHOD(name, (tensorclass::call<name, most, true, tensorclass::First::Unnamed>))
// of a plain collection, without kernels;
#define QUIET_OPERATION(name, most) METHOD(name, (tensorclass::call<name, most, false, tensorclass::First::Plain>))
// of something else, which the function looks at.
#define FUNCTION(name, most) METHOD(name, (tensorclass::call<name, most, true, tensorclass::First::Any>))
#define QUIET_FUNCTION(name, most) METHOD(name, (tensorclass::call<name, most, false, tensorclass::First::Any>))
#define METHOD(name, function) \
    {#name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), METH_FASTCALL, nullptr}
#define END_OF_METHODS {nullptr, nullptr, 0, nullptr}
