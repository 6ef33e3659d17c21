// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

// What each element-wise op does to single values. These serve every dtype that has no vector code.
namespace lockstep::kernels::scalar {

template <class T>
inline constexpr bool is_bool = std::is_same_v<T, bool>;

// Integers wrap around; through unsigned types this is defined.
template <class T, class F>
T wrap(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::conditional_t<(sizeof(T) > 4), unsigned long long, unsigned>;
    return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b)));
  } else {
    return f(a, b);
  }
}

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (is_bool<T>)
      return a || b;
    else
      return wrap(a, b, [](auto x, auto y) { return x + y; });
  }
};

struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    return wrap(a, b, [](auto x, auto y) { return x - y; });
  }
};

struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (is_bool<T>)
      return a && b;
    else
      return wrap(a, b, [](auto x, auto y) { return x * y; });
  }
};

struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
};

// The sign of b, as Python's %. Integers modulo 0 are 0, as NumPy's.
struct Remainder {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      const T r = std::fmod(a, b);
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    } else {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return 0;
      const T r = static_cast<T>(a % b);
      return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
    }
  }
};

struct FloorDivide {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (b == 0) return a / b;
      const T r = std::fmod(a, b);
      const T below = r != 0 && (r < 0) != (b < 0) ? T{1} : T{0};
      return std::round((a - r) / b) - below;
    } else {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return Subtract{}(T{0}, a);
      const T q = static_cast<T>(a / b);
      return a % b != 0 && (a < 0) != (b < 0) ? static_cast<T>(q - 1) : q;
    }
  }
};

struct Power {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::pow(a, b);
    else
      return integer_power(a, b);
  }

 private:
  template <class T>
  static T integer_power(T base, T exponent) {
    if constexpr (std::is_signed_v<T>)
      if (exponent < 0) {
        if (base == 1) return 1;
        return base == -1 ? (exponent % 2 == 0 ? T{1} : T{-1}) : T{0};
      }
    T result = 1;
    for (T rest = exponent; rest > 0; rest = static_cast<T>(rest / 2)) {
      if (rest % 2 != 0) result = Multiply{}(result, base);
      base = Multiply{}(base, base);
    }
    return result;
  }
};

// NaN wins.
struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};

struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

struct Negative {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return -x;
    else
      return Subtract{}(T{0}, x);
  }
};

struct Square {
  template <class T>
  T operator()(T x) const {
    return Multiply{}(x, x);
  }
};

struct Abs {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fabs(x);
    else
      return x < 0 ? Negative{}(x) : x;
  }
};

struct Sign {
  template <class T>
  T operator()(T x) const {
    return static_cast<T>((x > 0) - (x < 0));
  }
};

struct Relu {
  template <class T>
  T operator()(T x) const {
    return x < 0 ? T{0} : x;
  }
};

struct Floor {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::floor(x);
    else
      return x;
  }
};

struct Ceil {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::ceil(x);
    else
      return x;
  }
};

struct Round {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::nearbyint(x);
    else
      return x;
  }
};

template <class T>
T sigmoid(T x) {
  return 1 / (1 + std::exp(-x));
}

// The distribution function of the standard normal, exact in its lower tail too.
template <class T>
T normal_cdf(T x) {
  return T(0.5) * std::erfc(-x * T(0.70710678118654752440));
}

template <class T>
T normal_density(T x) {
  return T(0.39894228040143267794) * std::exp(T(-0.5) * x * x);
}

// gelu's tanh form is x * sigmoid(2 u), u = sqrt(2 / pi) * (x + 0.044715 x^3).
inline constexpr double kGeluScale = 0.79788456080286535588;
inline constexpr double kGeluCube = 0.044715;

template <class T>
T gelu(T x, bool approximate) {
  if (!approximate) return x * normal_cdf(x);
  return x * sigmoid(2 * T(kGeluScale) * (x + T(kGeluCube) * x * x * x));
}

template <class T>
T gelu_slope(T x, bool approximate) {
  if (!approximate) return normal_cdf(x) + x * normal_density(x);
  const T s = sigmoid(2 * T(kGeluScale) * (x + T(kGeluCube) * x * x * x));
  const T inner = 2 * T(kGeluScale) * (1 + 3 * T(kGeluCube) * x * x);
  return s + x * s * (1 - s) * inner;
}

template <class T>
T softplus(T x) {
  return std::max(x, T{0}) + std::log1p(std::exp(-std::fabs(x)));
}

inline constexpr double kSeluScale = 1.0507009873554804934193349852946;
inline constexpr double kSeluAlpha = 1.6732632423543772848170429916717;

template <class T>
T elu(T x, T alpha) {
  return x > 0 ? x : alpha * std::expm1(x);
}

}  // namespace lockstep::kernels::scalar
