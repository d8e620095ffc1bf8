// The module: one unit of compilation, as torch's headers take longer than this code.
#include "constructing.h"
#include "dictionary.h"
#include "copies.h"
#include "indexing.h"
#include "joining.h"
#include "shapes.h"
#include "writing.h"

using namespace tensorclass;

// bind(Tensor, Size, Collection): tell the module what it works on, before anything else is called.
static PyObject* py_bind(PyObject*, PyObject* args) {
    PyTypeObject *tensor, *size, *collection;
    PyTypeObject* type = &PyType_Type;
    if (!PyArg_ParseTuple(args, "O!O!O!", type, &tensor, type, &size, type, &collection)) return nullptr;
    if (!find_slots(collection, {{"_store", &bound.store}, {"_batch_size", &bound.batch_size}, {"_device", &bound.device},
                                 {"_names", &bound.names}, {"_lock", &bound.lock}, {"_context", &bound.context}})) {
        return nullptr;
    }
    bound.tensor = reinterpret_cast<PyTypeObject*>(Py_NewRef(tensor));
    bound.size = reinterpret_cast<PyTypeObject*>(Py_NewRef(size));
    bound.collection = reinterpret_cast<PyTypeObject*>(Py_NewRef(collection));
    bound.is_plain = interned("_NATIVE");
    bound.no_dims = bound.size->tp_alloc(bound.size, 0);
    bound.empty = PyTuple_New(0);
    return bound.no_dims == nullptr || bound.empty == nullptr ? nullptr : Py_NewRef(Py_None);
}

// bind_tensordict(TensorDict): the class itself, whose base is already in use when it is made.
static PyObject* py_bind_tensordict(PyObject*, PyObject* cls) {
    if (!PyType_Check(cls)) return PyErr_Format(PyExc_TypeError, "bind_tensordict: expected a class");
    bound.tensordict = reinterpret_cast<PyTypeObject*>(Py_NewRef(cls));
    Py_RETURN_NONE;
}

// bind_inverses(copied, resized, permuted, cast): how a `with` statement undoes operations; see td/context.py.
static PyObject* py_bind_inverses(PyObject*, PyObject* args) {
    if (!PyArg_ParseTuple(args, "OOOO", &bound.copied, &bound.resized, &bound.permuted, &bound.cast)) return nullptr;
    Py_INCREF(args);  // and with it what is in it
    Py_RETURN_NONE;
}

static PyMethodDef bind_methods[] = {{"bind", py_bind, METH_VARARGS, nullptr},
                                     {"bind_tensordict", py_bind_tensordict, METH_O, nullptr},
                                     {"bind_inverses", py_bind_inverses, METH_VARARGS, nullptr},
                                     END_OF_METHODS};

// One table for each family, at the end of its header.
static PyMethodDef* families[] = {bind_methods, constructor_methods, dictionary_methods, copy_methods,  index_methods,
                                  join_methods, leaf_methods,        pointwise_methods,  shape_methods, write_methods};

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
