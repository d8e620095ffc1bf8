// The module: one unit of compilation, as torch's headers take longer than this code.
#include "buffers.h"
#include "collections.h"
#include "constructing.h"
#include "dictionary.h"
#include "fields.h"
#include "copies.h"
#include "indexing.h"
#include "joining.h"
#include "lazy.h"
#include "locks.h"
#include "modules.h"
#include "pointwise.h"
#include "reducing.h"
#include "shapes.h"
#include "splitting.h"
#include "trees.h"
#include "utf8.h"
#include "writing.h"

namespace tensorclass {
Bound bound;
Inverses inverses;
Lazy lazy;
Leaves leaves;
KeyObjects key_objects;
Undo undo;
Constructors constructors;
FieldClasses field_classes;
Trees trees;
}  // namespace tensorclass

using namespace tensorclass;

// bind(Tensor, Size, Collection): tell the module what it works on, before anything else is called.
static PyObject* py_bind(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 3 || !PyType_Check(args[0]) || !PyType_Check(args[1]) || !PyType_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "bind: expected Tensor, Size and Collection");
        return nullptr;
    }
    try {
        bound.store = offset_of(args[2], "_store");
        bound.batch_size = offset_of(args[2], "_batch_size");
        bound.device = offset_of(args[2], "_device");
        bound.names = offset_of(args[2], "_names");
        bound.lock = offset_of(args[2], "_lock");
        bound.context = offset_of(args[2], "_context");
        bound.buffer = offset_of(args[2], "_buffer");
    } catch (const PythonError&) {
        return nullptr;
    }
    bound.tensor = reinterpret_cast<PyTypeObject*>(Py_NewRef(args[0]));
    bound.collection = reinterpret_cast<PyTypeObject*>(Py_NewRef(args[2]));
    bound.size = reinterpret_cast<PyTypeObject*>(Py_NewRef(args[1]));
    bound.is_plain = PyUnicode_InternFromString("_NATIVE");
    bound.no_dims = bound.size->tp_alloc(bound.size, 0);
    bound.empty = PyTuple_New(0);
    Py_RETURN_NONE;
}

// The methods that native code answers, one table for each family.
static const Method* answers[] = {constructor_answers, dictionary_answers, lazy_answers, lock_answers, tree_answers};

// answer(class): answer calls of methods of a class; of TensorCollection, KeyView, ... by name.
static PyObject* py_answer(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 1 || !PyType_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "answer: expected a class");
        return nullptr;
    }
    auto* cls = reinterpret_cast<PyTypeObject*>(args[0]);
    if (std::string_view(cls->tp_name) == "TensorDict") {
        bound.tensordict = cls;
        constructors.tensordict = _PyType_Lookup(cls, init_name());
        constructors.plan = interned("__native_plan__");
        cls->tp_vectorcall = new_tensordict;
    }
    for (const Method* methods : answers) {
        for (const Method* method = methods; method->name != nullptr; ++method) {
            if (std::string_view(method->owner) != cls->tp_name) continue;
            PyObject* member = PyDict_GetItemString(cls->tp_dict, method->name);
            if (member == nullptr) return PyErr_Format(PyExc_TypeError, "%s has no %s", cls->tp_name, method->name);
            Ref of_class(Py_TYPE(member) == &PyClassMethod_Type ? PyObject_GetAttrString(member, "__func__") : nullptr);
            PyObject* function = of_class ? of_class.get() : member;
            if (!PyFunction_Check(function)) {
                if (PyObject_TypeCheck(function, &PyFunction_Type)) continue;  // done already
                PyErr_Format(PyExc_TypeError, "%s.%s is no function", cls->tp_name, method->name);
                return nullptr;
            }
            if (!set_call(function, method->call)) return nullptr;
        }
    }
    PyType_Modified(cls);
    Py_RETURN_NONE;
}

// switch_answers(on): whether calls of methods are answered.
static PyObject* py_switch_answers(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 1 || !PyBool_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "switch_answers: expected a bool");
        return nullptr;
    }
    answering = args[0] == Py_True;
    Py_RETURN_NONE;
}

static PyMethodDef bind_methods[] = {
    METHOD_ANY(bind), METHOD_ANY(answer), METHOD_ANY(switch_answers), {nullptr, nullptr, 0, nullptr}};

// One table for each family, at the end of its header.
static PyMethodDef* families[] = {buffer_methods, 
    bind_methods,
    constructor_methods,
    dictionary_methods,
    field_methods,
    copy_methods,
    index_methods,
    join_methods,
    lazy_methods,
    leaf_methods,
    lock_methods,
    module_methods,
    pointwise_methods,
    reduce_methods,
    shape_methods,
    split_methods,
    tree_methods,
    utf8_methods,
    write_methods,
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "Operations on collections, compiled.", -1, nullptr,
    nullptr, nullptr, nullptr, nullptr};

#define INIT_OF(name) PyInit_##name
#define INIT(name) INIT_OF(name)
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)() {
    PyObject* module = PyModule_Create(&definition);
    if (module == nullptr) return nullptr;
    for (PyMethodDef* methods : families) {
        if (PyModule_AddFunctions(module, methods) == 0) continue;
        Py_DECREF(module);
        return nullptr;
    }
    return module;
}
