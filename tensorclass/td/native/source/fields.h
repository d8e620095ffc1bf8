// The properties of fields of records: reading and setting one without a call of the functions that it was made of.
#pragma once

#include "dictionary.h"
#include "leaves.h"

namespace tensorclass {

struct FieldClasses {
    PyTypeObject *read = nullptr, *written = nullptr, *object = nullptr;
    Py_ssize_t getter = 0;  // where a property keeps its fget, whose __name__ is that of the field
};
extern FieldClasses field_classes;

inline PyObject* field_name(PyObject* property) {
    PyObject* getter = slot(property, field_classes.getter);
    if (getter == nullptr || !PyObject_TypeCheck(getter, &PyFunction_Type)) return nullptr;
    return reinterpret_cast<PyFunctionObject*>(getter)->func_name;
}

inline PyObject* field_get(PyObject* property, PyObject* record, PyObject* owner) {
    if (answering && record != nullptr && is_plain(record)) {
        PyObject* name = field_name(property);
        PyObject* value = name == nullptr ? nullptr : PyDict_GetItemWithError(store_of(record), name);
        if (value != nullptr) {
            if (Py_TYPE(value) == bound.tensor || is_tree(value)) return Py_NewRef(value);
            if (Py_TYPE(property) == field_classes.object && is_object(value)) {  // NonTensorData, as the getter reads it
                PyObject* objects = slot(value, leaves.objects);
                if (objects != nullptr && PyTuple_CheckExact(objects) && PyTuple_GET_SIZE(objects) > 0) {
                    return Py_NewRef(PyTuple_GET_ITEM(objects, 0));
                }
            }
        } else if (PyErr_Occurred() != nullptr) {
            return nullptr;
        }
    }
    return PyProperty_Type.tp_descr_get(property, record, owner);
}

inline int field_set(PyObject* property, PyObject* record, PyObject* value) {
    if (answering && value != nullptr && is_plain(record) && slot(record, bound.lock) != nullptr &&
        takes(record, value)) {
        PyObject* name = field_name(property);
        if (name != nullptr) return PyDict_SetItem(store_of(record), name, value);
    }
    return PyProperty_Type.tp_descr_set(property, record, value);
}

// For pickle by value, which knows properties by their class.
inline PyObject* reduce_property(PyObject* property, PyObject*) {
    Ref get(PyObject_GetAttrString(property, "fget")), set(PyObject_GetAttrString(property, "fset")),
        remove(PyObject_GetAttrString(property, "fdel")), doc(PyObject_GetAttrString(property, "__doc__"));
    if (!get || !set || !remove || !doc) return nullptr;
    return Py_BuildValue("O(OOOO)", &PyProperty_Type, get.get(), set.get(), remove.get(), doc.get());
}
inline PyMethodDef property_methods[] = {{"__reduce__", reduce_property, METH_NOARGS, nullptr},
                                         {nullptr, nullptr, 0, nullptr}};

// A class of properties, for objects that are properties already.
inline PyTypeObject* property_class(PyTypeObject& cls, descrsetfunc set) {
    cls.tp_name = "property";
    cls.tp_base = &PyProperty_Type;
    cls.tp_basicsize = PyProperty_Type.tp_basicsize;
    cls.tp_flags = PyProperty_Type.tp_flags & ~(Py_TPFLAGS_READY | Py_TPFLAGS_VALID_VERSION_TAG);
    cls.tp_traverse = PyProperty_Type.tp_traverse;
    cls.tp_clear = PyProperty_Type.tp_clear;
    cls.tp_dealloc = PyProperty_Type.tp_dealloc;
    cls.tp_descr_get = field_get;
    cls.tp_descr_set = set;
    cls.tp_methods = property_methods;
    if (PyType_Ready(&cls) != 0) return nullptr;
    PyObject* doc = PyDict_GetItemString(PyProperty_Type.tp_dict, "__doc__");  // instead of that of the class
    return doc != nullptr && PyDict_SetItemString(cls.tp_dict, "__doc__", doc) == 0 ? &cls : nullptr;
}

inline bool make_field_classes() {
    static PyTypeObject read = {PyVarObject_HEAD_INIT(nullptr, 0)}, written = {PyVarObject_HEAD_INIT(nullptr, 0)},
                        object = {PyVarObject_HEAD_INIT(nullptr, 0)};
    if (field_classes.read != nullptr) return true;
    Ref cls = Ref::borrowed(reinterpret_cast<PyObject*>(&PyProperty_Type));
    try {
        field_classes.getter = offset_of(cls.get(), "fget");
    } catch (const PythonError&) {
        return false;
    }
    field_classes.written = property_class(written, field_set);
    field_classes.object = property_class(object, PyProperty_Type.tp_descr_set);
    field_classes.read = property_class(read, PyProperty_Type.tp_descr_set);
    return field_classes.read != nullptr && field_classes.written != nullptr && field_classes.object != nullptr;
}

// answer_field(property, kind): answer reads of the property of a field, whose getter has the name of the field.
// kind: "written" takes every tensor of the batch size, "object" holds one object, "read" is any other.
inline PyObject* py_answer_field(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 2 || Py_TYPE(args[0]) != &PyProperty_Type || !PyUnicode_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "answer_field: expected a property and a kind");
        return nullptr;
    }
    if (!make_field_classes()) return nullptr;
    PyTypeObject* cls = PyUnicode_CompareWithASCIIString(args[1], "written") == 0  ? field_classes.written
                        : PyUnicode_CompareWithASCIIString(args[1], "object") == 0 ? field_classes.object
                                                                                   : field_classes.read;
    Py_SET_TYPE(args[0], cls);
    Py_RETURN_NONE;
}

inline PyMethodDef field_methods[] = {METHOD_ANY(answer_field), {nullptr, nullptr, 0, nullptr}};

}  // namespace tensorclass
