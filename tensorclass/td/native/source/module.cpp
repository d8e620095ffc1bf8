// The module: one unit of compilation, as torch's headers take longer than this code.
#include "collections.h"
#include "constructing.h"
#include "dictionary.h"
#include "copies.h"
#include "indexing.h"
#include "joining.h"
#include "pointwise.h"
#include "shapes.h"
#include "writing.h"

namespace tensorclass {
Bound bound;
Inverses inverses;
Leaves leaves;
}  // namespace tensorclass

using namespace tensorclass;

// bind(Tensor, Size, Collection): tell the module what it works on, before anything else is called.
static PyObject* py_bind(PyObject* const* args) {
    if (!PyType_Check(args[0]) || !PyType_Check(args[1]) || !PyType_Check(args[2])) {
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
    bound.is_plain = interned("_NATIVE");
    bound.no_dims = bound.size->tp_alloc(bound.size, 0);
    bound.empty = PyTuple_New(0);
    if (bound.no_dims == nullptr || bound.empty == nullptr) return nullptr;
    Py_RETURN_NONE;
}

// bind_tensordict(TensorDict): the class itself, whose base is already in use when it is made.
static PyObject* py_bind_tensordict(PyObject* const* args) {
    if (!PyType_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "bind_tensordict: expected a class");
        return nullptr;
    }
    bound.tensordict = reinterpret_cast<PyTypeObject*>(Py_NewRef(args[0]));
    Py_RETURN_NONE;
}

static PyMethodDef bind_methods[] = {METHOD(bind, 3), METHOD(bind_tensordict, 1), END_OF_METHODS};

// One table for each family, at the end of its header.
static PyMethodDef* families[] = {
    bind_methods,
    constructor_methods,
    dictionary_methods,
    copy_methods,
    index_methods,
    join_methods,
    leaf_methods,
    pointwise_methods,
    shape_methods,
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
