// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/initializer.h"

#include <cmath>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/ops/random_ops.h"

namespace lockstep::nn::init {
namespace {

// How many inputs and outputs a unit of a weight has: [outputs, inputs, kernel...].
struct Fans {
  double in = 1.0, out = 1.0;

  Fans(const char* name, const Shape& shape) {
    if (shape.rank() < 2)
      throw InvalidArgument("{}: shape is {}, expected two axes or more", name, shape.str());
    in = static_cast<double>(shape[1]);
    out = static_cast<double>(shape[0]);
    for (int axis = 2; axis < shape.rank(); ++axis) {
      in *= static_cast<double>(shape[axis]);
      out *= static_cast<double>(shape[axis]);
    }
  }

  double of(Fan fan) const {
    if (fan == Fan::in) return in;
    return fan == Fan::out ? out : (in + out) / 2.0;
  }
};

const char* name_of(Fan fan) {
  if (fan == Fan::in) return "in";
  return fan == Fan::out ? "out" : "average";
}

void check_positive(const char* name, const char* what, double value) {
  if (!(value > 0.0) || !std::isfinite(value))
    throw InvalidArgument("{}: {} is {}, expected more than 0", name, what, value);
}

Tensor scaled_draw(bool gaussian, const Shape& shape, double scale) {
  return gaussian ? lockstep::normal(shape, 0.0, scale) : lockstep::uniform(shape, -scale, scale);
}

// Rows of a matrix, row major, made orthonormal in turn: modified Gram-Schmidt, each row twice, as
// the second pass removes what rounding left of the first.
void orthonormalise_rows(std::vector<double>& matrix, std::size_t rows, std::size_t columns) {
  const auto remove = [&](double* row, const double* unit) {
    double along = 0.0;
    for (std::size_t j = 0; j < columns; ++j) along += row[j] * unit[j];
    for (std::size_t j = 0; j < columns; ++j) row[j] -= along * unit[j];
  };
  for (std::size_t i = 0; i < rows; ++i) {
    double* row = &matrix[i * columns];
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t before = 0; before < i; ++before) remove(row, &matrix[before * columns]);
    double square = 0.0;
    for (std::size_t j = 0; j < columns; ++j) square += row[j] * row[j];
    for (std::size_t j = 0; j < columns; ++j) row[j] /= std::sqrt(square);
  }
}

Tensor make_orthogonal(const Shape& shape, double scale) {
  const Fans check("orthogonal", shape);
  const auto rows = static_cast<std::size_t>(shape[0]);
  const std::size_t columns = rows == 0 ? 0 : static_cast<std::size_t>(shape.numel()) / rows;
  const bool wide = rows <= columns;
  std::vector<double> matrix = lockstep::normal(shape, 0.0, 1.0).to_vector<double>();
  orthonormalise_rows(matrix, wide ? rows : columns, wide ? columns : rows);
  std::vector<float> values(matrix.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j)
      values[i * columns + j] =
          static_cast<float>(scale * matrix[wide ? i * columns + j : j * rows + i]);
  return Tensor::from(values, shape);
}

Tensor make_bilinear(const Shape& shape) {
  if (shape.rank() != 4)
    throw InvalidArgument("bilinear: shape is {}, expected [in, out, height, width]", shape.str());
  const auto weight = [](std::int64_t at, std::int64_t size) {
    const double half = std::ceil(static_cast<double>(size) / 2.0);
    const double centre = (2.0 * half - 1.0 - std::fmod(half, 2.0)) / (2.0 * half);
    return 1.0 - std::abs(static_cast<double>(at) / half - centre);
  };
  std::vector<float> values;
  for (std::int64_t plane = 0; plane < shape[0] * shape[1]; ++plane)
    for (std::int64_t y = 0; y < shape[2]; ++y)
      for (std::int64_t x = 0; x < shape[3]; ++x)
        values.push_back(static_cast<float>(weight(y, shape[2]) * weight(x, shape[3])));
  return Tensor::from(values, shape);
}

Tensor make_lstm_bias(const Shape& shape, double forget) {
  if (shape.rank() != 1 || shape[0] % 4 != 0)
    throw InvalidArgument("lstm_bias: shape is {}, expected [4 hidden]", shape.str());
  const std::int64_t hidden = shape[0] / 4;
  const Tensor bias = Tensor::zeros(shape);
  for (std::int64_t i = hidden; i < 2 * hidden; ++i)
    bias.data<float>()[i] = static_cast<float>(forget);
  return bias;
}

}  // namespace

Initializer zero() {
  return {"zero", [](const Shape& shape) { return Tensor::zeros(shape); }};
}

Initializer one() {
  return {"one", [](const Shape& shape) { return Tensor::full(shape, 1.0); }};
}

Initializer constant(double value) {
  return {fmt::format("constant({})", value),
          [value](const Shape& shape) { return Tensor::full(shape, value); }};
}

Initializer uniform(double scale) {
  check_positive("uniform", "scale", scale);
  return {fmt::format("uniform({})", scale),
          [scale](const Shape& shape) { return scaled_draw(false, shape, scale); }};
}

Initializer normal(double sigma) {
  check_positive("normal", "sigma", sigma);
  return {fmt::format("normal({})", sigma),
          [sigma](const Shape& shape) { return scaled_draw(true, shape, sigma); }};
}

Initializer fan_in() {
  return {"fan_in", [](const Shape& shape) {
            const double inputs =
                shape.rank() < 2 ? static_cast<double>(shape.numel()) : Fans("fan_in", shape).in;
            return scaled_draw(false, shape, 1.0 / std::sqrt(inputs > 0.0 ? inputs : 1.0));
          }};
}

Initializer xavier(bool gaussian, Fan fan, double magnitude) {
  check_positive("xavier", "magnitude", magnitude);
  return {
      fmt::format("xavier({}, {}, {})", gaussian ? "gaussian" : "uniform", name_of(fan), magnitude),
      [=](const Shape& shape) {
        const double size = Fans("xavier", shape).of(fan);
        return scaled_draw(gaussian, shape, std::sqrt(magnitude / size));
      }};
}

Initializer msra_prelu(Fan fan, double slope) {
  return {fmt::format("msra_prelu({}, {})", name_of(fan), slope), [=](const Shape& shape) {
            const double size = Fans("msra_prelu", shape).of(fan);
            return scaled_draw(true, shape, std::sqrt(2.0 / (1.0 + slope * slope) / size));
          }};
}

Initializer orthogonal(double scale) {
  check_positive("orthogonal", "scale", scale);
  return {fmt::format("orthogonal({})", scale),
          [scale](const Shape& shape) { return make_orthogonal(shape, scale); }};
}

Initializer bilinear() { return {"bilinear", make_bilinear}; }

Initializer lstm_bias(double forget) {
  return {fmt::format("lstm_bias({})", forget),
          [forget](const Shape& shape) { return make_lstm_bias(shape, forget); }};
}

}  // namespace lockstep::nn::init
