// Loops over small tensors of real numbers, where torch's kernels take longer to start than to run.
//
// Only functions whose results are rounded once, so that they equal those of torch's kernels bit by bit.
#pragma once

#include "levels.h"

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

template <class T, class Second>
void run_loop(Loop loop, const T* a, Second b, T* out, int64_t count) {
    const auto run = [&](auto function) {
        for (int64_t i = 0; i < count; ++i) out[i] = function(a[i], b[i]);
    };
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

template <class T, class Second>
void run_comparison(Loop loop, const T* a, Second b, bool* out, int64_t count) {
    const auto run = [&](auto function) {
        for (int64_t i = 0; i < count; ++i) out[i] = function(a[i], b[i]);
    };
    switch (loop) {
        case Loop::Eq: return run([](T x, T y) { return x == y; });
        case Loop::Ne: return run([](T x, T y) { return x != y; });
        case Loop::Lt: return run([](T x, T y) { return x < y; });
        case Loop::Le: return run([](T x, T y) { return x <= y; });
        case Loop::Gt: return run([](T x, T y) { return x > y; });
        case Loop::Ge: return run([](T x, T y) { return x >= y; });
        default: throw NotNative();
    }
}

template <class T, class Second>
at::Tensor loop_result(Loop loop, const at::Tensor& value, Second second) {
    const T* given = value.const_data_ptr<T>();
    if (compares(loop)) {
        at::Tensor result = new_tensor(value.sizes(), at::kBool);
        run_comparison(loop, given, second, result.mutable_data_ptr<bool>(), value.numel());
        return result;
    }
    at::Tensor result = new_tensor(value.sizes(), value.scalar_type());
    run_loop(loop, given, second, result.mutable_data_ptr<T>(), value.numel());
    return result;
}

template <class T, class Second>
void loop_in_place(Loop loop, const at::Tensor& value, Second second) {
    T* given = value.mutable_data_ptr<T>();
    run_loop(loop, given, second, given, value.numel());
}

// Call `function` with a pointer whose type is that of the elements of a real tensor.
template <class Function>
decltype(auto) with_type(const at::Tensor& value, Function&& function) {
    return value.scalar_type() == at::kFloat ? function(static_cast<float*>(nullptr))
                                             : function(static_cast<double*>(nullptr));
}

template <class T>
Each<T> each_of(const at::Tensor& other, T*) {
    return {other.const_data_ptr<T>()};
}
template <class T>
One<T> each_of(double number, T*) {
    return {static_cast<T>(number)};
}

// A copy of a tensor, or zeros like it.
inline at::Tensor bytes_like(Loop loop, const at::Tensor& value) {
    at::Tensor result = new_tensor(value.sizes(), value.scalar_type());
    const size_t count = value.numel() * value.element_size();
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
    return with_type(value, [&]<class T>(T* type) { return loop_result<T>(loop, value, each_of(other, type)); });
}
// In place. `is_new`: nobody else has seen the tensor, so its version stays.
template <class Other>
void loop_over_(Loop loop, const at::Tensor& value, const Other& other, bool is_new = false) {
    with_type(value, [&]<class T>(T* type) { loop_in_place<T>(loop, value, each_of(other, type)); });
    if (!is_new) value.unsafeGetTensorImpl()->bump_version();
}

}  // namespace tensorclass
