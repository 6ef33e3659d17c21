// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/graph/trace.h"
#include "lockstep/ops/catalogue.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {

// The cases of one file of ops.
struct CaseFamily {
  std::string name;
  std::vector<OpCase> (*cases)();
};
const std::vector<CaseFamily>& case_families();
inline void PrintTo(const CaseFamily& family, std::ostream* out) { *out << family.name; }

using Tensors = std::vector<Tensor>;

Tensors on_device(const Tensors& tensors, const Device& device);
// The op on inputs that are moved there first; ops without inputs are told to make their results
// there.
Tensors apply_on(const Device& device, const OpDef& op, const Tensors& inputs, const Attrs& attrs);

// "conv(float64[1, 2, 5], float64[3, 2, 3]; groups=1): depthwise"
std::string describe(const OpCase& c);
bool has_floating(const Tensors& tensors);
// Floating inputs in another dtype; the others as they are.
Tensors with_dtype(const Tensors& inputs, DType dtype);
// The same values behind strides that are not row major, with other values in between.
Tensor strided_copy(const Tensor& x);
Tensors strided_copies(const Tensors& inputs);

double tolerance_of(const OpCase& c, DType dtype);
// Empty, or where and how much `got` differs by more than tolerance * max(1, |want|). Integers must
// be equal; so must infinities and NaN.
std::string difference(const Tensor& got, const Tensor& want, double tolerance);
// Empty, or what is not the same: shape, dtype, or the first element that differs in bits.
std::string bit_difference(const Tensor& got, const Tensor& want);

// What a device has made has the bits that the host made.
void expect_the_hosts_bits(const std::vector<Tensor>& got, const std::vector<Tensor>& want);

// How the compiler runs a function: traced, then as an executable. `plain` runs the kernels that
// eager calls run; otherwise the compiler fuses, and chooses layouts and algorithms.
enum class Compiled { plain, optimised };
Tensors run_compiled(const TensorFunction& function, const Tensors& inputs, Compiled how);

// Runs `check(op, case)` on every case, naming the case that fails or throws.
template <class F>
void for_each_case(const CaseFamily& family, F&& check) {
  for (const OpCase& c : family.cases()) {
    SCOPED_TRACE(describe(c));
    const OpDef* op = find_op(c.op);
    if (op == nullptr) {
      ADD_FAILURE() << "there is no op '" << c.op << "' in the catalogue";
      continue;
    }
    try {
      check(*op, c);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

}  // namespace lockstep::testing
