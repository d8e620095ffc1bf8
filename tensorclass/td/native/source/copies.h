// Copies, casts and moves: clone, detach, contiguous, zeros_like, to, double, ...
#pragma once

#include "pointwise.h"
#include "shapes.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>

namespace tensorclass {

// Set how a `with` statement undoes an operation: `arguments` are those of the inverse.
inline void set_inverse(PyObject* result, PyObject* source, PyObject* inverse, PyObject* arguments) {
    const Py_ssize_t count = PyTuple_GET_SIZE(arguments);
    Ref reference(PyWeakref_NewRef(source, nullptr)), context(PyTuple_New(3 + count));
    if (!reference || !context) throw PythonError();
    PyTuple_SET_ITEM(context.get(), 0, Py_NewRef(bound.empty));
    PyTuple_SET_ITEM(context.get(), 1, Py_NewRef(inverse));
    PyTuple_SET_ITEM(context.get(), 2, reference.release());
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyTuple_SET_ITEM(context.get(), 3 + i, Py_NewRef(PyTuple_GET_ITEM(arguments, i)));
    }
    Py_XSETREF(slot(result, bound.context), context.release());
}

// -- casts ------------------------------------------------------------------------------------------------------------

template <class From, class To>
Tensor converted(const Tensor& value) {
    Tensor result = new_tensor(value.sizes(), c10::CppTypeToScalarType<To>::value);
    const From* given = value.const_data_ptr<From>();
    To* made = result.mutable_data_ptr<To>();
    const int64_t count = value.numel();
    for (int64_t i = 0; i < count; ++i) made[i] = static_cast<To>(given[i]);
    return result;
}

inline Tensor cast(const Tensor& value, at::ScalarType dtype, bool unrecorded) {
    if (value.scalar_type() == dtype) return value;
    if (unrecorded && is_small_real(value)) {
        if (dtype == at::kDouble) return converted<float, double>(value);
        if (dtype == at::kFloat) return converted<double, float>(value);
    }
    return value.to(dtype);
}

inline bool is_inexact(at::ScalarType dtype) { return at::isFloatingType(dtype) || at::isComplexType(dtype); }

// Records keep integers if the dtype is floating or complex, also in what they contain.
inline bool casts_integers(PyObject* collection) {
    static PyObject* name = interned("_CASTS_INTEGERS");
    return _PyType_Lookup(Py_TYPE(collection), name) == Py_True;
}

// A cast of all levels, as `to` (with an inverse) and `type` (without one) do it; see td/devices.py.
class Cast : public Kept {
public:
    Cast(const Tree& tree, at::ScalarType dtype, PyObject* inverse) : inverse_(inverse) {
        for (const Level& level : tree.levels()) {
            const bool all = whole_.empty() || whole_[level.above];
            whole_.push_back((all && casts_integers(level.collection.get())) || !is_inexact(dtype));
        }
    }
    // Whether a tensor of a level is cast.
    bool takes(uint32_t level, at::ScalarType dtype) const { return whole_[level] || is_inexact(dtype); }

    void done(PyObject* result, const Level& level) const {
        if (inverse_ == nullptr || (!level.is_root() && !whole_[level.above])) return;
        set_inverse(result, level.collection.get(), inverse_, bound.empty);
    }

private:
    PyObject* inverse_;
    std::vector<bool> whole_;  // of each level: whether integers are cast, too
};

inline Ref cast_all(PyObject* collection, PyObject* given, PyObject* inverse) {
    const at::ScalarType dtype = reinterpret_cast<THPDtype*>(given)->scalar_type;
    TensorTree tree(collection);
    const Cast shape(tree, dtype, inverse);
    c10::SmallVector<size_t, 8> positions;  // of the tensors that are cast
    size_t next = 0;
    for (const Tree::Node& node : tree.nodes()) {
        if (node.kind != Tree::Kind::Tensor) continue;
        const at::ScalarType own = tree.values[next].scalar_type();
        if (own != dtype && shape.takes(node.level, own)) positions.push_back(next);
        ++next;
    }
    run_kernels(!positions.empty(), [&] {
        const bool unrecorded = are_calls_unseen() && are_untracked(tree.values);
        const Unrecorded guard(unrecorded);
        for (const size_t at : positions) tree.values[at] = cast(tree.values[at], dtype, unrecorded);
    });
    return tree.result(shape);
}

// -- moves ------------------------------------------------------------------------------------------------------------

// `collection.to("cpu")` of tensors that are there, without nested collections; null: it is something else.
inline Ref placed_on_cpu(PyObject* collection, PyObject* inverse) {
    PyObject* before = slot(collection, bound.device);
    if (THPDevice_Check(before) && reinterpret_cast<THPDevice*>(before)->device == at::Device(at::kCPU)) {
        return Ref::borrowed(collection);
    }
    static PyObject* cpu = THPDevice_New(at::Device(at::kCPU));
    if (cpu == nullptr) throw PythonError();
    const Level level(collection);
    const Ref store(PyDict_Copy(store_of(collection)));
    if (!store) throw PythonError();
    for (const auto& [key, value] : Entries(store.get())) {
        if (!is_tensor(value) || !THPVariable_Unpack(value).device().is_cpu()) return Ref();
    }
    Ref result = make_of(Py_TYPE(collection), store.get(), level.size.get(), cpu, level.names.get());
    set_inverse(result.get(), collection, inverse, bound.empty);
    return result;
}

// Whether a collection may be one piece of memory, which the Python code copies and casts whole.
inline bool is_locked(PyObject* collection) { return slot(collection, bound.lock) != Py_None; }

// clone(collection).
inline PyObject* py_clone(PyObject* const* args) {
    if (!is_plain(args[0])) Py_RETURN_NONE;
    static const UnaryFunction& by = unary_functions().at("clone");
    return attempt([&] { return unary(args[0], by); });
}

// to(collection, target), for a dtype or the CPU.
inline PyObject* py_to(PyObject* const* args) {
    if (!is_plain(args[0]) || is_locked(args[0])) Py_RETURN_NONE;
    return attempt([&]() -> Ref {
        PyObject* target = args[1];
        if (THPDtype_Check(target)) return cast_all(args[0], target, inverses.cast);
        const bool cpu = PyUnicode_Check(target)
                             ? PyUnicode_CompareWithASCIIString(target, "cpu") == 0
                             : THPDevice_Check(target) &&
                                   reinterpret_cast<THPDevice*>(target)->device == at::Device(at::kCPU);
        return cpu ? placed_on_cpu(args[0], inverses.cast) : Ref();
    });
}

// type(collection, dtype).
inline PyObject* py_type(PyObject* const* args) {
    if (!is_plain(args[0]) || is_locked(args[0]) || !THPDtype_Check(args[1])) Py_RETURN_NONE;
    return attempt([&] { return cast_all(args[0], args[1], nullptr); });
}

// detach(collection).
inline PyObject* py_detach(PyObject* const* args) {
    if (!is_plain(args[0])) Py_RETURN_NONE;
    return attempt([&] {
        TensorTree tree(args[0]);
        for (Tensor& value : tree.values) value = value.detach();
        return tree.result();
    });
}

// contiguous(collection): tensors that are contiguous already are shared.
inline PyObject* py_contiguous(PyObject* const* args) {
    if (!is_plain(args[0])) Py_RETURN_NONE;
    return attempt([&] {
        TensorTree tree(args[0]);
        run_kernels(!are_contiguous(tree.values), [&] {
            for (Tensor& value : tree.values) value = value.contiguous();
        });
        return tree.result();
    });
}

inline PyMethodDef copy_methods[] = {OPERATION(clone, 1), OPERATION(contiguous, 1), OPERATION(detach, 1),
                                     OPERATION(to, 2),    OPERATION(type, 2),       END_OF_METHODS};

}  // namespace tensorclass
