// Functions of each element: of one tensor, or with a second operand, which is a number, a tensor over the batch or a
// collection; also in place.
#pragma once

#include "loops.h"

#include <ATen/ScalarOps.h>

#include <string>
#include <unordered_map>

namespace tensorclass {

using at::Scalar;
using at::Tensor;

struct UnaryFunction {
    Tensor (*function)(const Tensor&);
    Loop loop = Loop::None;
};
struct UnaryWrite {
    Tensor& (*function)(Tensor&);
    Loop loop = Loop::None;
};
struct BinaryFunction {
    Tensor (*tensors)(const Tensor&, const Tensor&);
    Tensor (*number)(const Tensor&, const Scalar&);
    Loop loop = Loop::None;
};
struct BinaryWrite {
    void (*tensors)(const Tensor&, const Tensor&);
    void (*number)(const Tensor&, const Scalar&);
    Loop loop = Loop::None;
};

inline const std::unordered_map<std::string, UnaryFunction>& unary_functions() {
    static const std::unordered_map<std::string, UnaryFunction> table = {
        {"abs", {at::abs, Loop::Abs}},
        {"acos", {at::acos}},
        {"asin", {at::asin}},
        {"atan", {at::atan}},
        {"bitwise_not", {at::bitwise_not}},
        {"ceil", {at::ceil}},
        {"clone", {[](const Tensor& a) { return a.clone(); }, Loop::Copy}},
        {"cos", {at::cos}},
        {"cosh", {at::cosh}},
        {"empty_like", {[](const Tensor& a) { return at::empty_like(a); }}},
        {"erf", {at::erf}},
        {"erfc", {at::erfc}},
        {"exp", {at::exp}},
        {"expm1", {at::expm1}},
        {"floor", {at::floor}},
        {"frac", {at::frac}},
        {"isfinite", {at::isfinite}},
        {"isinf", {at::isinf}},
        {"isnan", {at::isnan}},
        {"isneginf", {at::isneginf}},
        {"isposinf", {at::isposinf}},
        {"isreal", {at::isreal}},
        {"lgamma", {at::lgamma}},
        {"log", {at::log}},
        {"log10", {at::log10}},
        {"log1p", {at::log1p}},
        {"log2", {at::log2}},
        {"logical_not", {at::logical_not}},
        {"neg", {at::neg, Loop::Neg}},
        {"ones_like", {[](const Tensor& a) { return at::ones_like(a); }}},
        {"reciprocal", {at::reciprocal, Loop::Reciprocal}},
        {"round", {at::round}},
        {"rsqrt", {at::rsqrt}},
        {"sigmoid", {at::sigmoid}},
        {"sign", {at::sign}},
        {"sin", {at::sin}},
        {"sinh", {at::sinh}},
        {"sqrt", {at::sqrt}},
        {"square", {at::square, Loop::Square}},
        {"tan", {at::tan}},
        {"tanh", {at::tanh}},
        {"trunc", {at::trunc}},
        {"zeros_like", {[](const Tensor& a) { return at::zeros_like(a); }, Loop::Zeros}},
    };
    return table;
}

inline const std::unordered_map<std::string, UnaryWrite>& unary_writes() {
    static const std::unordered_map<std::string, UnaryWrite> table = {
        {"abs_", {at::abs_, Loop::Abs}},
        {"ceil_", {at::ceil_}},
        {"exp_", {at::exp_}},
        {"floor_", {at::floor_}},
        {"log_", {at::log_}},
        {"neg_", {at::neg_, Loop::Neg}},
        {"reciprocal_", {at::reciprocal_, Loop::Reciprocal}},
        {"round_", {at::round_}},
        {"sigmoid_", {at::sigmoid_}},
        {"sqrt_", {at::sqrt_}},
        {"tanh_", {at::tanh_}},
        {"trunc_", {at::trunc_}},
        {"zero_", {at::zero_, Loop::Zero}},
    };
    return table;
}

inline const std::unordered_map<std::string, BinaryFunction>& binary_functions() {
    using T = const Tensor&;
    using N = const Scalar&;
    static const std::unordered_map<std::string, BinaryFunction> table = {
        {"add", {[](T a, T b) { return at::add(a, b); }, [](T a, N b) { return at::add(a, b); }, Loop::Add}},
        {"sub", {[](T a, T b) { return at::sub(a, b); }, [](T a, N b) { return at::sub(a, b); }, Loop::Sub}},
        {"rsub", {[](T a, T b) { return at::rsub(a, b); }, [](T a, N b) { return at::rsub(a, b); }, Loop::Rsub}},
        {"mul", {[](T a, T b) { return at::mul(a, b); }, [](T a, N b) { return at::mul(a, b); }, Loop::Mul}},
        {"div", {[](T a, T b) { return at::div(a, b); }, [](T a, N b) { return at::div(a, b); }, Loop::Div}},
        {"rdiv",
         {[](T a, T b) { return at::div(b, a); }, [](T a, N b) { return at::mul(at::reciprocal(a), b); }, Loop::Rdiv}},
        {"pow", {[](T a, T b) { return at::pow(a, b); }, [](T a, N b) { return at::pow(a, b); }, Loop::Pow}},
        {"remainder", {[](T a, T b) { return at::remainder(a, b); }, [](T a, N b) { return at::remainder(a, b); }}},
        {"fmod", {[](T a, T b) { return at::fmod(a, b); }, [](T a, N b) { return at::fmod(a, b); }}},
        {"floor_divide",
         {[](T a, T b) { return at::floor_divide(a, b); }, [](T a, N b) { return at::floor_divide(a, b); }}},
        {"clamp_min", {[](T a, T b) { return at::clamp_min(a, b); }, [](T a, N b) { return at::clamp_min(a, b); }}},
        {"clamp_max", {[](T a, T b) { return at::clamp_max(a, b); }, [](T a, N b) { return at::clamp_max(a, b); }}},
        {"bitwise_and",
         {[](T a, T b) { return at::bitwise_and(a, b); }, [](T a, N b) { return at::bitwise_and(a, b); }}},
        {"bitwise_or", {[](T a, T b) { return at::bitwise_or(a, b); }, [](T a, N b) { return at::bitwise_or(a, b); }}},
        {"bitwise_xor",
         {[](T a, T b) { return at::bitwise_xor(a, b); }, [](T a, N b) { return at::bitwise_xor(a, b); }}},
        {"logical_and", {at::logical_and, nullptr}},
        {"logical_or", {at::logical_or, nullptr}},
        {"logical_xor", {at::logical_xor, nullptr}},
        {"eq", {[](T a, T b) { return at::eq(a, b); }, [](T a, N b) { return at::eq(a, b); }, Loop::Eq}},
        {"ne", {[](T a, T b) { return at::ne(a, b); }, [](T a, N b) { return at::ne(a, b); }, Loop::Ne}},
        {"lt", {[](T a, T b) { return at::lt(a, b); }, [](T a, N b) { return at::lt(a, b); }, Loop::Lt}},
        {"le", {[](T a, T b) { return at::le(a, b); }, [](T a, N b) { return at::le(a, b); }, Loop::Le}},
        {"gt", {[](T a, T b) { return at::gt(a, b); }, [](T a, N b) { return at::gt(a, b); }, Loop::Gt}},
        {"ge", {[](T a, T b) { return at::ge(a, b); }, [](T a, N b) { return at::ge(a, b); }, Loop::Ge}},
    };
    return table;
}

inline const std::unordered_map<std::string, BinaryWrite>& binary_writes() {
    using T = const Tensor&;
    using N = const Scalar&;
    static const std::unordered_map<std::string, BinaryWrite> table = {
        {"add_", {[](T a, T b) { a.add_(b); }, [](T a, N b) { a.add_(b); }, Loop::Add}},
        {"sub_", {[](T a, T b) { a.sub_(b); }, [](T a, N b) { a.sub_(b); }, Loop::Sub}},
        {"mul_", {[](T a, T b) { a.mul_(b); }, [](T a, N b) { a.mul_(b); }, Loop::Mul}},
        {"div_", {[](T a, T b) { a.div_(b); }, [](T a, N b) { a.div_(b); }, Loop::Div}},
        {"pow_", {[](T a, T b) { a.pow_(b); }, [](T a, N b) { a.pow_(b); }}},
        {"clamp_min_", {[](T a, T b) { a.clamp_min_(b); }, [](T a, N b) { a.clamp_min_(b); }}},
        {"clamp_max_", {[](T a, T b) { a.clamp_max_(b); }, [](T a, N b) { a.clamp_max_(b); }}},
    };
    return table;
}

// The functions of Python that have an entry in a table: kernels of torch and others, see td/foreach.py.
template <class Entry>
std::unordered_map<PyObject*, Entry>& known() {
    static std::unordered_map<PyObject*, Entry> functions;
    return functions;
}
template <class Entry>
const Entry* entry_of(PyObject* function) {
    const auto found = known<Entry>().find(function);
    return found == known<Entry>().end() ? nullptr : &found->second;
}
template <class Entry>
bool remember(PyObject* function, const std::string& name, const std::unordered_map<std::string, Entry>& table) {
    const auto found = table.find(name);
    if (found != table.end()) known<Entry>().insert_or_assign(Py_NewRef(function), found->second);
    return found != table.end();
}

inline Tensor applied(const UnaryFunction& by, const Tensor& value, bool unrecorded) {
    if (unrecorded && by.loop != Loop::None) {
        if (by.loop >= Loop::Copy) {
            if (is_small(value)) return bytes_like(by.loop, value);
        } else if (is_small_real(value)) {
            return loop_over(by.loop, value, 0.0);
        }
    }
    return by.function(value);
}

inline Ref unary(PyObject* collection, const UnaryFunction& by) {
    TensorTree tree(collection);
    if (have_history(tree.values)) return Ref();
    run_kernels(true, [&] {
        const bool unrecorded = are_calls_unseen() && are_untracked(tree.values);
        const Unrecorded guard(unrecorded);
        for (Tensor& value : tree.values) value = applied(by, value, unrecorded);
    });
    return tree.result();
}

// -- second operands --------------------------------------------------------------------------------------------------

// The second operand of every tensor, or one number for all.
struct Second {
    Tensors tensors;
    bool is_number = false;
    Scalar number;
    double real = 0;      // the number, or the value of a tensor without dimensions
    bool is_real = false;  // whether `real` is that, exactly
};

// The tensors of a second tree with the keys of a first, in the order of the first. Left to Python: the trees differ.
class Beside {
public:
    Beside(const TensorTree& first, PyObject* second, Tensors& others) : first_(first), others_(others) {
        others.reserve(first.values.size());
        level(second, static_cast<uint32_t>(first.size()));
    }

private:
    const TensorTree& first_;
    Tensors& others_;
    size_t next_ = 0;

    void level(PyObject* second, uint32_t count) {
        const Ref store = Ref::borrowed(store_of(second));
        if (PyDict_GET_SIZE(store.get()) != count) throw NotNative();
        for (uint32_t i = 0; i < count; ++i) {
            const Tree::Node& node = first_.nodes()[next_++];
            const Ref other = lookup(store.get(), node.key.get());
            if (!other) throw NotNative();
            if (node.kind == Tree::Kind::Tensor) {
                if (!is_tensor(other.get())) throw NotNative();
                others_.push_back(THPVariable_Unpack(other.get()));
                if (others_.back().sizes() != first_.values[others_.size() - 1].sizes()) throw NotNative();
            } else if (is_plain(other.get())) {
                level(other.get(), node.count);
            } else {
                throw NotNative();
            }
        }
    }
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

inline bool as_second(const TensorTree& tree, PyObject* given, Second& second) {
    constexpr int64_t exact = int64_t(1) << 53;
    if (PyFloat_CheckExact(given)) {
        second.is_number = second.is_real = true;
        second.number = second.real = PyFloat_AS_DOUBLE(given);
    } else if (PyLong_CheckExact(given)) {
        int overflow = 0;
        const int64_t value = PyLong_AsLongLongAndOverflow(given, &overflow);
        if (overflow != 0) return false;
        second.is_number = true;
        second.number = value;
        second.is_real = value >= -exact && value <= exact;
        second.real = static_cast<double>(value);
    } else if (Py_TYPE(given) == bound.tensor) {
        if (!is_tensor(given)) return false;
        const Tensor other = THPVariable_Unpack(given);
        if (!other.device().is_cpu() || !spread_over(tree.root().size.get(), other, tree.values, second.tensors)) {
            return false;
        }
        if (other.dim() == 0 && is_untracked(other) && is_small_real(other)) {
            second.is_real = true;
            second.real = other.scalar_type() == at::kFloat ? *other.const_data_ptr<float>()
                                                            : *other.const_data_ptr<double>();
        }
    } else {
        if (!is_plain(given)) return false;
        Beside(tree, given, second.tensors);
    }
    return true;
}

// Whether a number or a tensor without dimensions takes part with the dtype of a value: tensors without dimensions do
// so only beside tensors that have some.
inline bool takes_dtype_of(const Second& second, const Tensor& value) {
    return second.is_real && (second.is_number || value.dim() > 0);
}
inline bool are_alike(const Tensor& value, const Tensor& other) {
    return other.scalar_type() == value.scalar_type() && other.sizes() == value.sizes();
}

inline Tensor combined(const BinaryFunction& by, const Tensor& value, const Second& second, size_t at,
                       bool unrecorded) {
    if (unrecorded && is_small_real(value)) {
        if (takes_dtype_of(second, value)) {
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

inline Ref binary(PyObject* collection, PyObject* given, const BinaryFunction& by) {
    TensorTree tree(collection);
    Second second;
    if (!as_second(tree, given, second)) return Ref();
    if (second.is_number ? by.number == nullptr : by.tensors == nullptr) return Ref();
    if (have_history(tree.values) || have_history(second.tensors)) return Ref();
    run_kernels(true, [&] {
        const bool unrecorded = are_calls_unseen() && are_untracked(tree.values) && are_untracked(second.tensors);
        const Unrecorded guard(unrecorded);
        for (size_t i = 0; i < tree.values.size(); ++i) {
            tree.values[i] = combined(by, tree.values[i], second, i, unrecorded);
        }
    });
    return tree.result();
}

// -- in place ---------------------------------------------------------------------------------------------------------

// Whether a write to a tensor cannot fail: so that no tensor is written if another one cannot be.
inline bool is_writable(const Tensor& tensor) {
    return is_untracked(tensor) && tensor.is_non_overlapping_and_dense() &&
           (!tensor.is_inference() || c10::InferenceMode::is_enabled());
}
inline bool is_real(const Tensor& tensor) {
    return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
}

// Whether two tensors share no memory, or all of it.
inline bool is_apart(const Tensor& value, const Tensor& other) {
    if (value.is_same(other) || !value.storage().is_alias_of(other.storage())) return true;
    return value.const_data_ptr() == other.const_data_ptr() && value.strides() == other.strides();
}

inline bool unary_(PyObject* collection, const UnaryWrite& by) {
    if (!are_calls_unseen()) return false;
    TensorTree tree(collection);
    Tensors& tensors = tree.values;
    const bool any_dtype = by.loop == Loop::Zero;
    for (const Tensor& tensor : tensors) {
        if (!is_writable(tensor) || !(any_dtype || is_real(tensor))) return false;
    }
    const pybind11::gil_scoped_release without_lock;
    const at::AutoDispatchBelowAutograd guard;
    for (Tensor& tensor : tensors) {
        if (by.loop != Loop::None && is_small_real(tensor)) {
            loop_over_(by.loop, tensor, 0.0);
        } else {
            by.function(tensor);
        }
    }
    return true;
}

inline bool binary_(PyObject* collection, PyObject* given, const BinaryWrite& by) {
    if (!are_calls_unseen()) return false;
    const TensorTree tree(collection);
    const Tensors& values = tree.values;
    Second second;
    if (!as_second(tree, given, second)) return false;
    for (size_t i = 0; i < values.size(); ++i) {
        if (!is_writable(values[i]) || !is_real(values[i])) return false;
        if (second.is_number) continue;
        const Tensor& other = second.tensors[i];
        if (!is_untracked(other) || !are_alike(values[i], other) || !is_apart(values[i], other)) return false;
    }
    const pybind11::gil_scoped_release without_lock;
    const at::AutoDispatchBelowAutograd guard;
    for (size_t i = 0; i < values.size(); ++i) {
        const bool loops = by.loop != Loop::None && is_small_real(values[i]);
        if (second.is_number) {
            loops && second.is_real ? loop_over_(by.loop, values[i], second.real) : by.number(values[i], second.number);
        } else {
            loops && is_small(second.tensors[i]) ? loop_over_(by.loop, values[i], second.tensors[i])
                                                 : by.tensors(values[i], second.tensors[i]);
        }
    }
    return true;
}

// -- methods ----------------------------------------------------------------------------------------------------------

// know(function, name): take calls of a function of Python for the entry of a name. Whether there is one.
inline PyObject* py_know(PyObject* const* args) {
    const char* name = PyUnicode_AsUTF8(args[1]);
    if (name == nullptr) return nullptr;
    const bool found = remember(args[0], name, unary_functions()) || remember(args[0], name, unary_writes()) ||
                       remember(args[0], name, binary_functions()) || remember(args[0], name, binary_writes());
    return PyBool_FromLong(found);
}

// unary(collection, function).
inline PyObject* py_unary(PyObject* const* args) {
    const UnaryFunction* by = is_plain(args[0]) ? entry_of<UnaryFunction>(args[1]) : nullptr;
    if (by == nullptr) Py_RETURN_NONE;
    return attempt([&] { return unary(args[0], *by); });
}

// unary_(collection, function): the collection, if it was written.
inline PyObject* py_unary_(PyObject* const* args) {
    const UnaryWrite* by = is_plain(args[0]) ? entry_of<UnaryWrite>(args[1]) : nullptr;
    if (by == nullptr) Py_RETURN_NONE;
    return attempt([&] { return unary_(args[0], *by) ? Ref::borrowed(args[0]) : Ref(); });
}

// binary(collection, function, other).
inline PyObject* py_binary(PyObject* const* args) {
    const BinaryFunction* by = is_plain(args[0]) ? entry_of<BinaryFunction>(args[1]) : nullptr;
    if (by == nullptr) Py_RETURN_NONE;
    return attempt([&] { return binary(args[0], args[2], *by); });
}

// binary_(collection, function, other): the collection, if it was written.
inline PyObject* py_binary_(PyObject* const* args) {
    const BinaryWrite* by = is_plain(args[0]) ? entry_of<BinaryWrite>(args[1]) : nullptr;
    if (by == nullptr) Py_RETURN_NONE;
    return attempt([&] { return binary_(args[0], args[2], *by) ? Ref::borrowed(args[0]) : Ref(); });
}

inline PyMethodDef pointwise_methods[] = {METHOD(know, 2),   OPERATION(unary, 2),   OPERATION(unary_, 2),
                                          OPERATION(binary, 3), OPERATION(binary_, 3), END_OF_METHODS};

}  // namespace tensorclass
