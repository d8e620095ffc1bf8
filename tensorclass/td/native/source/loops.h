// Loops over small tensors of real numbers, where torch's kernels take longer to start than to run.
//
// Only functions whose results are rounded once, so that they equal those of torch's kernels bit by bit.
#pragma once

#include "tensors.h"

#include <cmath>

namespace tensorclass {

enum class Loop {
    None,
    // of two operands
    Add, Sub, Rsub, Mul, Div, Rdiv, Pow, Eq, Ne, Lt, Le, Gt, Ge,
    // of one
    Neg, Abs, Square, Reciprocal, Zero,
    // of one, of any dtype, and not in place
    Copy, Zeros
};

// Whether there is a loop for two tensors; division of a number and the power 2 are for numbers.
inline bool loops_over_tensors(Loop loop) {
    return loop != Loop::None && loop != Loop::Rdiv && loop != Loop::Pow;
}
inline bool compares(Loop loop) { return loop >= Loop::Eq && loop <= Loop::Ge; }

// The second operands of a loop: a tensor, or one number.
template <class T>
struct Each {
    const T* values;
    T operator[](int64_t i) const { return values[i]; }
};
template <class T>
struct One {
    T value;
    T operator[](int64_t) const { return value; }
};

template <class T, class Result, class Second>
void run_loop(Loop loop, const T* a, Second b, Result* out, int64_t count) {
    const auto run = [&](auto function) {
        for (int64_t i = 0; i < count; ++i) out[i] = function(a[i], b[i]);
    };
    if constexpr (std::is_same_v<Result, bool>) {
        switch (loop) {
            case Loop::Eq: return run([](T x, T y) { return x == y; });
            case Loop::Ne: return run([](T x, T y) { return x != y; });
            case Loop::Lt: return run([](T x, T y) { return x < y; });
            case Loop::Le: return run([](T x, T y) { return x <= y; });
            case Loop::Gt: return run([](T x, T y) { return x > y; });
            case Loop::Ge: return run([](T x, T y) { return x >= y; });
            default: throw NotNative();
        }
    } else {
        switch (loop) {
            case Loop::Add: return run([](T x, T y) { return x + y; });
            case Loop::Sub: return run([](T x, T y) { return x - y; });
            case Loop::Rsub: return run([](T x, T y) { return y - x; });
            case Loop::Mul: return run([](T x, T y) { return x * y; });
            case Loop::Div: return run([](T x, T y) { return x / y; });
            case Loop::Rdiv: return run([](T x, T y) { return T(1) / x * y; });  // as tensors divide numbers
            case Loop::Neg: return run([](T x, T) { return -x; });
            case Loop::Abs: return run([](T x, T) { return std::abs(x); });
            case Loop::Square: return run([](T x, T) { return x * x; });
            case Loop::Reciprocal: return run([](T x, T) { return T(1) / x; });
            case Loop::Zero: return run([](T, T) { return T(0); });
            default: throw NotNative();
        }
    }
}

// Call `function(type, second)` with a pointer whose type is that of the elements of a real tensor, and the second operand: a
// number, or a tensor of the same dtype.
template <class Function>
void with_type(const at::Tensor& value, double second, const Function& function) {
    if (value.scalar_type() == at::kDouble) return function(static_cast<double*>(nullptr), One<double>{second});
    function(static_cast<float*>(nullptr), One<float>{static_cast<float>(second)});
}
template <class Function>
void with_type(const at::Tensor& value, const at::Tensor& second, const Function& function) {
    if (value.scalar_type() == at::kDouble) {
        return function(static_cast<double*>(nullptr), Each<double>{second.const_data_ptr<double>()});
    }
    function(static_cast<float*>(nullptr), Each<float>{second.const_data_ptr<float>()});
}

// A copy of a tensor, or zeros like it.
inline at::Tensor bytes_like(Loop loop, const at::Tensor& value) {
    at::Tensor result = new_tensor(value.sizes(), value.scalar_type());
    const size_t count = value.numel() * value.itemsize();
    if (count == 0) return result;
    if (loop == Loop::Zeros) {
        std::memset(result.mutable_data_ptr(), 0, count);
    } else {
        std::memcpy(result.mutable_data_ptr(), value.const_data_ptr(), count);
    }
    return result;
}

// `value` is small and real; the other operand is a number, or a tensor of the same shape and dtype.
template <class Other>
at::Tensor loop_over(Loop loop, const at::Tensor& value, const Other& other) {
    at::Tensor result = new_tensor(value.sizes(), compares(loop) ? at::kBool : value.scalar_type());
    with_type(value, other, [&]<class T>(T*, auto second) {
        const T* given = value.const_data_ptr<T>();
        if (compares(loop)) return run_loop(loop, given, second, result.mutable_data_ptr<bool>(), value.numel());
        run_loop(loop, given, second, result.mutable_data_ptr<T>(), value.numel());
    });
    return result;
}
// In place.
template <class Other>
void loop_over_(Loop loop, const at::Tensor& value, const Other& other) {
    with_type(value, other, [&]<class T>(T*, auto second) {
        T* given = value.mutable_data_ptr<T>();
        run_loop(loop, static_cast<const T*>(given), second, given, value.numel());
    });
    value.unsafeGetTensorImpl()->bump_version();
}

}  // namespace tensorclass
