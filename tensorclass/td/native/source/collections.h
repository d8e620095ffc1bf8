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

// Thrown where an operation is left to the Python code.
struct NotNative {};
// Thrown where a call into Python has set an error.
struct PythonError {};

inline PyObject*& slot(PyObject* object, Py_ssize_t offset) {
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
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

inline bool is_collection(PyObject* value) { return PyObject_TypeCheck(value, bound.collection); }

// Whether native code may treat an object as a tree of values: a dict, and a class that overrides none of the methods.
inline bool is_plain(PyObject* value) {
    return _PyType_Lookup(Py_TYPE(value), bound.is_plain) == Py_True && store_of(value) != nullptr &&
           PyDict_CheckExact(store_of(value)) && batch_size_of(value) != nullptr &&
           slot(value, bound.device) != nullptr && slot(value, bound.names) != nullptr;  // not made halfway
}
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

inline Sizes sizes_of(PyObject* size) {
    Sizes sizes;
    const Py_ssize_t count = PyTuple_GET_SIZE(size);
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* entry = PyTuple_GET_ITEM(size, i);
        if (!PyLong_CheckExact(entry)) throw NotNative();
        sizes.push_back(PyLong_AsLongLong(entry));
    }
    return sizes;
}
inline Ref as_size(c10::ArrayRef<int64_t> sizes) {
    if (sizes.empty()) return Ref::borrowed(bound.no_dims);
    Ref made(bound.size->tp_alloc(bound.size, static_cast<Py_ssize_t>(sizes.size())));  // a subclass of tuple
    if (!made) throw PythonError();
    for (size_t i = 0; i < sizes.size(); ++i) {
        PyObject* entry = PyLong_FromLongLong(sizes[i]);
        if (entry == nullptr) throw PythonError();
        PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), entry);
    }
    return made;
}

// Ints of Python, not bools or others that have an __index__.
inline int64_t as_int(PyObject* number) {
    if (!PyLong_CheckExact(number)) throw NotNative();
    int overflow = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow != 0) throw NotNative();
    return value;
}

// A collection; steals no references.
inline Ref make_of(PyTypeObject* cls, PyObject* store, PyObject* batch_size, PyObject* device, PyObject* names) {
    PyObject* made = cls->tp_alloc(cls, 0);
    if (made == nullptr) throw PythonError();
    slot(made, bound.store) = Py_NewRef(store);
    slot(made, bound.batch_size) = Py_NewRef(batch_size);
    slot(made, bound.device) = Py_NewRef(device);
    slot(made, bound.names) = Py_NewRef(names);
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

inline void put(PyObject* dict, PyObject* key, PyObject* value) {
    if (PyDict_SetItem(dict, key, value) != 0) throw PythonError();
}

// A level of nesting: collections that contain themselves, or very deep ones, are left to Python, which raises the error.
class NestedLevel {
public:
    NestedLevel() {
        if (Py_EnterRecursiveCall("") != 0) throw PythonError();
    }
    NestedLevel(const NestedLevel&) = delete;
    NestedLevel& operator=(const NestedLevel&) = delete;
    ~NestedLevel() { Py_LeaveRecursiveCall(); }
};

// Append the tensors of all levels, in order. Values that are neither tensors nor plain trees are left out, or, without
// `others`, leave the operation to Python.
inline void collect(PyObject* collection, Tensors& tensors, bool others) {
    const NestedLevel level;
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(store_of(collection), &position, &key, &value)) {
        if (is_tensor(value)) {
            tensors.push_back(THPVariable_Unpack(value));
        } else if (is_collection(value) && is_plain(value)) {
            if (has_names(value)) throw NotNative();
            collect(value, tensors, others);
        } else if (!others) {
            throw NotNative();
        }
    }
}

// Put a tree together from the tensors that belong at the places of those that `collect` found.
//
// `Shape` says what becomes of the rest: `size(collection)` returns the batch size of the result, `other(value)` what a
// value becomes that is neither a tensor nor a plain tree, `done(result, source)` finishes each level.
template <class Shape>
Ref build(PyObject* source, Tensors& tensors, size_t& next, const Shape& shape, PyObject* names) {
    const NestedLevel level;
    Ref store(PyDict_New());
    if (!store) throw PythonError();
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(store_of(source), &position, &key, &value)) {
        if (is_tensor(value)) {
            if (next >= tensors.size()) throw NotNative();  // another thread has written
            put(store.get(), key, wrap(std::move(tensors[next++])).get());
        } else if (is_collection(value) && is_plain(value)) {
            put(store.get(), key, build(value, tensors, next, shape, Py_None).get());
        } else {
            Ref kept_key = Ref::borrowed(key), kept = Ref::borrowed(value);  // Python code can change the store
            Ref made = shape.other(value);
            put(store.get(), key, made.get());
        }
    }
    Ref size = shape.size(source);
    Ref result = make(source, store.get(), size.get(), names);
    shape.done(result.get(), source);
    return result;
}

// Run an operation. Return None where it is left to Python; errors of torch are, as Python raises better ones.
template <class Operation>
PyObject* attempt(Operation&& operation) {
    try {
        torch::PyWarningHandler warnings;
        try {
            if (calls_are_watched()) Py_RETURN_NONE;
            return operation().release();
        } catch (...) {
            warnings.set_in_exception();
            throw;
        }
    } catch (const NotNative&) {
    } catch (const PythonError&) {
    } catch (python_error& error) {
        error.restore();
    } catch (const std::exception&) {
    }
    if (PyErr_Occurred() != nullptr) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;  // an interrupt
        PyErr_Clear();
    }
    Py_RETURN_NONE;
}

}  // namespace tensorclass

// A line of a table of methods, for the function py_<name>.
#define METHOD(name) {#name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(py_##name)), METH_FASTCALL, nullptr}
