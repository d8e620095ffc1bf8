// Methods of Python classes that native code answers: the function of Python stays what it is, with its signature, its
// documentation and its code, which torch.compile traces. Only a call from the interpreter comes here first. Native code
// answers it, or leaves it to the Python code with nothing done.
#pragma once

#include "collections.h"

namespace tensorclass {

// The arguments of a call: those by position, then those by keyword, whose names are in `names` (null: there are none).
struct Call {
    PyObject* function;
    PyObject* const* args;
    size_t flags;
    PyObject* names;

    Py_ssize_t count() const { return PyVectorcall_NARGS(flags); }
    bool by_position(Py_ssize_t least, Py_ssize_t most) const {
        return names == nullptr && count() >= least && count() <= most;
    }
    // The value of the only keyword, if it has this name.
    PyObject* only_keyword(PyObject* name) const {
        if (names == nullptr || PyTuple_GET_SIZE(names) != 1 || PyTuple_GET_ITEM(names, 0) != name) return nullptr;
        return args[count()];
    }
    PyObject* in_python() const { return _PyFunction_Vectorcall(function, args, flags, names); }
};

// Whether methods are answered at all; see native.switch.
inline bool answering = true;

// `Answer` returns a new reference; null with an error set; or null without one, where the call is left to Python.
template <PyObject* (*Answer)(const Call&)>
PyObject* answered(PyObject* function, PyObject* const* args, size_t flags, PyObject* names) {
    const Call call{function, args, flags, names};
    if (answering) {
        PyObject* result = Answer(call);
        if (result != nullptr || PyErr_Occurred() != nullptr) return result;
    }
    return call.in_python();
}

struct Method {
    const char* owner;
    const char* name;
    vectorcallfunc call;
};

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
// Python 3.11 runs the code of functions in the calling frame without asking how they want to be called. It does not do
// that for other classes of functions, so this is one: the same object, with the same content. Nor does it where
// torch.compile has taken over the running of frames, whose guards want functions of Python's own class. So a function
// that dynamo looks at goes back to that.
inline PyObject* attribute_of(PyObject* function, PyObject* name) {
    if (_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) != _PyEval_EvalFrameDefault) {
        Py_SET_TYPE(function, &PyFunction_Type);
    }
    return PyObject_GenericGetAttr(function, name);
}

// For pickle and copy, which know functions by their class.
inline PyObject* name_of(PyObject* function, PyObject*) { return PyObject_GetAttrString(function, "__qualname__"); }
inline PyMethodDef function_methods[] = {{"__reduce__", name_of, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

inline PyTypeObject* function_class() {
    static PyTypeObject cls = {PyVarObject_HEAD_INIT(nullptr, 0)};
    if (cls.tp_name != nullptr) return &cls;
    cls.tp_name = "function";
    cls.tp_base = &PyFunction_Type;
    cls.tp_basicsize = PyFunction_Type.tp_basicsize;
    cls.tp_flags = PyFunction_Type.tp_flags & ~(Py_TPFLAGS_READY | Py_TPFLAGS_VALID_VERSION_TAG);
    cls.tp_vectorcall_offset = PyFunction_Type.tp_vectorcall_offset;
    cls.tp_dictoffset = PyFunction_Type.tp_dictoffset;
    cls.tp_weaklistoffset = PyFunction_Type.tp_weaklistoffset;
    cls.tp_call = PyFunction_Type.tp_call;
    cls.tp_getattro = attribute_of;
    cls.tp_descr_get = PyFunction_Type.tp_descr_get;
    cls.tp_traverse = PyFunction_Type.tp_traverse;
    cls.tp_clear = PyFunction_Type.tp_clear;
    cls.tp_dealloc = PyFunction_Type.tp_dealloc;
    cls.tp_methods = function_methods;
    if (PyType_Ready(&cls) != 0) return nullptr;
    PyObject* doc = PyDict_GetItemString(PyFunction_Type.tp_dict, "__doc__");  // instead of that of the class
    return doc != nullptr && PyDict_SetItemString(cls.tp_dict, "__doc__", doc) == 0 ? &cls : nullptr;
}

inline bool set_call(PyObject* function, vectorcallfunc call) {
    PyTypeObject* cls = function_class();
    if (cls == nullptr) return false;
    auto* changed = reinterpret_cast<PyFunctionObject*>(function);
    changed->vectorcall = call;
    changed->func_version = 0;
    Py_SET_TYPE(function, cls);
    return true;
}
#elif PY_VERSION_HEX >= 0x030C0000
inline bool set_call(PyObject* function, vectorcallfunc call) {
    PyFunction_SetVectorcall(reinterpret_cast<PyFunctionObject*>(function), call);
    return true;
}
#else
inline bool set_call(PyObject* function, vectorcallfunc call) {
    reinterpret_cast<PyFunctionObject*>(function)->vectorcall = call;
    return true;
}
#endif

}  // namespace tensorclass
