// Functions of each element: of one tensor, or with a second operand, which is a number, a tensor over the batch or a
// collection; also in place.
#pragma once

#include "loops.h"

#include <ATen/ScalarOps.h>

#include <functional>
#include <string>
#include <unordered_map>

namespace tensorclass {

using at::Scalar;
using at::Tensor;

// A function of one operand, or of two. Those in place return what they have written.
struct Function {
    Tensor (*unary)(const Tensor&) = nullptr;
    Tensor (*tensors)(const Tensor&, const Tensor&) = nullptr;
    Tensor (*number)(const Tensor&, const Scalar&) = nullptr;
    Loop loop = Loop::None;
    bool in_place = false;
};

#define ONE(name, loop) {#name, {[](T a) { return at::name(a); }, nullptr, nullptr, Loop::loop}}
#define ONE_(name, loop) {#name, {[](T a) -> Tensor { return a.name(); }, nullptr, nullptr, Loop::loop, true}}
#define TENSORS(name) {#name, {nullptr, [](T a, T b) { return at::name(a, b); }}}
#define TWO(name, loop) \
    {#name, {nullptr, [](T a, T b) { return at::name(a, b); }, [](T a, N b) { return at::name(a, b); }, Loop::loop}}
#define TWO_(name, loop)                                                                                     \
    {#name, {nullptr, [](T a, T b) -> Tensor { return a.name(b); }, [](T a, N b) -> Tensor { return a.name(b); }, \
             Loop::loop, true}}

// By name, as in td/pointwise.py.
inline const std::unordered_map<std::string, Function>& functions() {
    using T = const Tensor&;
    using N = const Scalar&;
    static const std::unordered_map<std::string, Function> table = {
        ONE(abs, Abs), ONE(acos, None), ONE(asin, None), ONE(atan, None), ONE(bitwise_not, None), ONE(ceil, None),
        ONE(clone, Copy), ONE(cos, None), ONE(cosh, None), ONE(empty_like, None), ONE(erf, None), ONE(erfc, None),
        ONE(exp, None), ONE(expm1, None), ONE(floor, None), ONE(frac, None), ONE(isfinite, None), ONE(isinf, None),
        ONE(isnan, None), ONE(isneginf, None), ONE(isposinf, None), ONE(isreal, None), ONE(lgamma, None), ONE(log, None),
        ONE(log10, None), ONE(log1p, None), ONE(log2, None), ONE(logical_not, None), ONE(neg, Neg), ONE(ones_like, None),
        ONE(reciprocal, Reciprocal), ONE(round, None), ONE(rsqrt, None), ONE(sigmoid, None), ONE(sign, None),
        ONE(sin, None), ONE(sinh, None), ONE(sqrt, None), ONE(square, Square), ONE(tan, None), ONE(tanh, None),
        ONE(trunc, None), ONE(zeros_like, Zeros),
        // in place
        ONE_(abs_, Abs), ONE_(ceil_, None), ONE_(exp_, None), ONE_(floor_, None), ONE_(log_, None), ONE_(neg_, Neg),
        ONE_(reciprocal_, Reciprocal), ONE_(round_, None), ONE_(sigmoid_, None), ONE_(sqrt_, None), ONE_(tanh_, None),
        ONE_(trunc_, None), ONE_(zero_, Zero),
        // of two operands
        TWO(add, Add), TWO(sub, Sub), TWO(rsub, Rsub), TWO(mul, Mul), TWO(div, Div), TWO(pow, Pow), TWO(eq, Eq),
        TWO(ne, Ne), TWO(lt, Lt), TWO(le, Le), TWO(gt, Gt), TWO(ge, Ge), TWO(remainder, None), TWO(fmod, None),
        TWO(floor_divide, None), TWO(clamp_min, None), TWO(clamp_max, None), TWO(bitwise_and, None),
        TWO(bitwise_or, None), TWO(bitwise_xor, None), TENSORS(logical_and), TENSORS(logical_or), TENSORS(logical_xor),
        {"rdiv", {nullptr, [](T a, T b) { return at::div(b, a); }, [](T a, N b) { return at::mul(at::reciprocal(a), b); },
                  Loop::Rdiv}},
        // in place
        TWO_(add_, Add), TWO_(sub_, Sub), TWO_(mul_, Mul), TWO_(div_, Div), TWO_(pow_, None), TWO_(clamp_min_, None),
        TWO_(clamp_max_, None),
    };
    return table;
}

// The functions of Python that are one of these: kernels of torch and others, see td/foreach.py.
inline std::unordered_map<PyObject*, const Function*> bound_functions;

// -- second operands --------------------------------------------------------------------------------------------------

// The second operand of every tensor, or one number for all.
struct Second {
    Tensors tensors;
    bool is_number = false;
    Scalar number;
    double real = 0;       // the number, or the value of a tensor without dimensions
    bool is_real = false;  // whether `real` is that, exactly
};

// A tensor over the batch, with dimensions of size 1 so that it is aligned with the batch dimensions of each value.
inline bool spread_over(PyObject* batch_size, const Tensor& other, const Tensors& values, Tensors& others) {
    if (other.dim() == 0) {
        others.assign(values.size(), other);
        return true;
    }
    const int64_t ndim = PyTuple_GET_SIZE(batch_size), missing = ndim - other.dim();
    if (missing < 0) return false;
    Sizes shape(missing, 1);
    for (int64_t dim = missing; dim < ndim; ++dim) {
        const int64_t size = other.size(dim - missing);
        if (size != 1 && size != as_int(PyTuple_GET_ITEM(batch_size, dim))) return false;
        shape.push_back(size);
    }
    for (const Tensor& value : values) {
        if (value.dim() < ndim) return false;
        shape.resize(value.dim(), 1);
        others.push_back(shape.size() == static_cast<size_t>(other.dim()) ? other : other.reshape(shape));
    }
    return true;
}

// A number of Python, exactly.
inline bool as_number(PyObject* value, Scalar& number) {
    if (PyBool_Check(value)) {
        number = Scalar(value == Py_True);
    } else if (PyLong_CheckExact(value)) {
        number = Scalar(as_int(value));
    } else if (PyFloat_CheckExact(value)) {
        number = Scalar(PyFloat_AS_DOUBLE(value));
    } else {
        return false;
    }
    return true;
}

// Read the second operand. False, or thrown: left to Python.
inline bool as_second(const TensorTree& tree, PyObject* given, Second& second) {
    constexpr double exact = int64_t(1) << 53;  // beyond, ints are rounded
    if (!PyBool_Check(given) && as_number(given, second.number)) {
        second.is_number = true;
        second.real = second.number.toDouble();
        second.is_real = second.number.isFloatingPoint() || std::abs(second.real) < exact;
    } else if (Py_TYPE(given) == bound.tensor) {
        if (!is_tensor(given)) return false;
        const Tensor other = THPVariable_Unpack(given);
        if (!other.is_cpu() || !spread_over(tree.root().size.get(), other, tree.values, second.tensors)) return false;
        if (other.dim() == 0 && is_untracked(other) && is_small_real(other)) {
            second.is_real = true;
            second.real = other.scalar_type() == at::kFloat ? *other.const_data_ptr<float>()
                                                            : *other.const_data_ptr<double>();
        }
    } else {
        if (!is_plain(given)) return false;
        const Ref other = Ref::borrowed(given);
        const Beside rows(tree, other);
        second.tensors.reserve(tree.values.size());
        for (size_t i = 0; i < tree.nodes().size(); ++i) {
            if (tree.nodes()[i].kind != Tree::Kind::Tensor) continue;
            PyObject* value = rows[i][0].get();
            if (!is_tensor(value)) return false;
            second.tensors.push_back(THPVariable_Unpack(value));
            if (second.tensors.back().sizes() != tree.values[second.tensors.size() - 1].sizes()) return false;
        }
    }
    return true;
}

inline bool are_alike(const Tensor& value, const Tensor& other) {
    return other.scalar_type() == value.scalar_type() && other.sizes() == value.sizes();
}

// -- new tensors ------------------------------------------------------------------------------------------------------

inline Tensor applied(const Function& by, const Tensor& value, bool unrecorded) {
    if (unrecorded && by.loop >= Loop::Copy && is_small(value)) return bytes_like(by.loop, value);
    if (unrecorded && by.loop != Loop::None && by.loop < Loop::Copy && is_small_real(value)) {
        return loop_over(by.loop, value, 0.0);
    }
    return by.unary(value);
}

// With the second operand at a position.
inline Tensor applied(const Function& by, const Tensor& value, const Second& second, size_t at, bool unrecorded) {
    if (unrecorded && is_small_real(value)) {
        // a tensor without dimensions takes part with the dtype of a value only if that has some
        if (second.is_real && (second.is_number || value.dim() > 0)) {
            const Loop loop = by.loop == Loop::Pow && second.is_number && second.real == 2 ? Loop::Square : by.loop;
            if (second.is_number ? loop != Loop::None && loop != Loop::Pow : loops_over_tensors(loop)) {
                return loop_over(loop, value, second.real);
            }
        } else if (!second.is_number && loops_over_tensors(by.loop) && are_alike(value, second.tensors[at]) &&
                   is_small(second.tensors[at])) {
            return loop_over(by.loop, value, second.tensors[at]);
        }
    }
    return second.is_number ? by.number(value, second.number) : by.tensors(value, second.tensors[at]);
}

inline Ref computed(PyObject* collection, const Function& by, PyObject* given = nullptr) {
    TensorTree tree(collection);
    Second second;
    if (given != nullptr && !as_second(tree, given, second)) return Ref();
    if (second.is_number && by.number == nullptr) return Ref();
    Tensors& values = tree.values;
    if (!are_all(values, std::not_fn(has_history)) || !are_all(second.tensors, std::not_fn(has_history))) return Ref();
    run_kernels(true, [&] {
        const bool unrecorded = are_calls_unseen() && are_all(values, is_untracked) && are_all(second.tensors, is_untracked);
        std::optional<at::AutoDispatchBelowADInplaceOrView> without_autograd;  // which would find nothing to do
        if (unrecorded) without_autograd.emplace();
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = given == nullptr ? applied(by, values[i], unrecorded) : applied(by, values[i], second, i, unrecorded);
        }
    });
    return tree.result();
}

// -- in place ---------------------------------------------------------------------------------------------------------

// Whether two tensors share no memory, or all of it.
inline bool is_apart(const Tensor& value, const Tensor& other) {
    if (value.is_same(other) || !value.storage().is_alias_of(other.storage())) return true;
    return value.const_data_ptr() == other.const_data_ptr() && value.strides() == other.strides();
}

// Write all tensors, if no write can fail.
inline bool compute_in_place(PyObject* collection, const Function& by, PyObject* given) {
    if (!are_calls_unseen()) return false;
    const TensorTree tree(collection);
    const Tensors& values = tree.values;
    Second second;
    if (given != nullptr && !as_second(tree, given, second)) return false;
    for (size_t i = 0; i < values.size(); ++i) {
        if (!is_writable(values[i]) || !values[i].is_non_overlapping_and_dense()) return false;
        if (!is_real(values[i]) && by.loop != Loop::Zero) return false;
        if (second.tensors.empty()) continue;
        const Tensor& other = second.tensors[i];
        if (!is_untracked(other) || !are_alike(values[i], other) || !is_apart(values[i], other)) return false;
    }
    const pybind11::gil_scoped_release without_lock;
    const at::AutoDispatchBelowAutograd without_autograd;
    for (size_t i = 0; i < values.size(); ++i) {
        const bool loops = by.loop != Loop::None && is_small_real(values[i]);
        if (given == nullptr) {
            loops ? loop_over_(by.loop, values[i], 0.0) : void(by.unary(values[i]));
        } else if (second.is_number) {
            loops && second.is_real ? loop_over_(by.loop, values[i], second.real) : void(by.number(values[i], second.number));
        } else {
            loops && is_small(second.tensors[i]) ? loop_over_(by.loop, values[i], second.tensors[i])
                                                 : void(by.tensors(values[i], second.tensors[i]));
        }
    }
    return true;
}

// -- methods ----------------------------------------------------------------------------------------------------------

// bind_function(function, name): let calls of a function of Python run the function of a name. Returns whether there is one.
inline PyObject* py_bind_function(PyObject*, PyObject* args) {
    PyObject* function;
    const char* name;
    if (!PyArg_ParseTuple(args, "Os", &function, &name)) return nullptr;
    const auto found = functions().find(name);
    if (found == functions().end()) Py_RETURN_FALSE;
    bound_functions.insert_or_assign(Py_NewRef(function), &found->second);
    Py_RETURN_TRUE;
}

// The function that a call with so many arguments names, if it is bound and works as `in_place` says.
inline const Function* function_of(const Arguments& args, Py_ssize_t count, bool in_place) {
    const auto found = args.size() == count ? bound_functions.find(args[1]) : bound_functions.end();
    if (found == bound_functions.end() || found->second->in_place != in_place) return nullptr;
    return (found->second->unary != nullptr) == (count == 2) ? found->second : nullptr;
}

// unary(collection, function), binary(collection, function, other).
template <Py_ssize_t count>
Ref pointwise(const Arguments& args) {
    const Function* by = function_of(args, count, false);
    return by == nullptr ? Ref() : computed(args[0], *by, args.get(2, nullptr));
}
// The same in place: the collection, if it was written.
template <Py_ssize_t count>
Ref pointwise_(const Arguments& args) {
    const Function* by = function_of(args, count, true);
    return by != nullptr && compute_in_place(args[0], *by, args.get(2, nullptr)) ? Ref::borrowed(args[0]) : Ref();
}
constexpr Operation unary = pointwise<2>, unary_ = pointwise_<2>, binary = pointwise<3>, binary_ = pointwise_<3>;

inline PyMethodDef pointwise_methods[] = {{"bind_function", py_bind_function, METH_VARARGS, nullptr}, OPERATION(unary, 2),
                                          OPERATION(unary_, 2), OPERATION(binary, 3), OPERATION(binary_, 3),
                                          END_OF_METHODS};

}  // namespace tensorclass
