// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/einsum.h"

#include <gtest/gtest.h>

#include <map>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/executable.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "tests/message.h"
#include "tests/ops/coordinates.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;

// Equations without dots, and with all that is implied written out.
struct Written {
  std::string equation;
  std::vector<std::string> operands;
  std::string result;
};

// The sum over every letter of the products of what the operands have there.
Tensor naive(const Written& w, const Tensors& tensors) {
  std::map<char, std::int64_t> sizes;
  std::string letters;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    for (std::size_t axis = 0; axis < w.operands[i].size(); ++axis) {
      const std::int64_t size = tensors[i].shape()[static_cast<int>(axis)];
      auto& known = sizes.emplace(w.operands[i][axis], size).first->second;
      if (known == 1) known = size;
    }
  Shape space, shape;
  for (const auto& [letter, size] : sizes) {
    letters += letter;
    space.push_back(size);
  }
  for (char letter : w.result) shape.push_back(sizes.at(letter));
  Array result(shape, DType::float64);
  for_each_coordinate(space, [&](const Ints& at) {
    const auto place = [&](const std::string& labels, const Shape& own) {
      Ints where;
      for (std::size_t i = 0; i < labels.size(); ++i)
        where.push_back(own[static_cast<int>(i)] == 1 ? 0 : at[letters.find(labels[i])]);
      return where;
    };
    double product = 1.0;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      product *= Array(tensors[i])(place(w.operands[i], tensors[i].shape()));
    result(place(w.result, shape)) += product;
  });
  return result.tensor();
}

struct Row {
  Written written;
  std::vector<Shape> shapes;
};

const Row kRows[] = {
    {{"ij,jk->ik", {"ij", "jk"}, "ik"}, {{2, 3}, {3, 4}}},
    {{"ij,jk", {"ij", "jk"}, "ik"}, {{2, 3}, {3, 4}}},
    {{"ba,ca", {"ba", "ca"}, "bc"}, {{2, 3}, {4, 3}}},
    {{" bij , bjk -> bik ", {"bij", "bjk"}, "bik"}, {{2, 3, 4}, {2, 4, 5}}},
    {{"bqhd,bkhd->bhqk", {"bqhd", "bkhd"}, "bhqk"}, {{2, 3, 2, 4}, {2, 5, 2, 4}}},
    {{"bhqk,bkhd->bqhd", {"bhqk", "bkhd"}, "bqhd"}, {{2, 2, 3, 5}, {2, 5, 2, 4}}},
    {{"ij,j->i", {"ij", "j"}, "i"}, {{3, 4}, {4}}},
    {{"j,ij->i", {"j", "ij"}, "i"}, {{4}, {3, 4}}},
    {{"i,i->", {"i", "i"}, ""}, {{5}, {5}}},
    {{"i,j->ji", {"i", "j"}, "ji"}, {{3}, {4}}},
    {{"bi,bi->b", {"bi", "bi"}, "b"}, {{3, 4}, {3, 4}}},
    {{"ij,ij->ij", {"ij", "ij"}, "ij"}, {{3, 4}, {3, 4}}},
    {{"ij->ji", {"ij"}, "ji"}, {{3, 4}}},
    {{"ba", {"ba"}, "ab"}, {{3, 4}}},
    {{"ij->", {"ij"}, ""}, {{3, 4}}},
    {{"ii->i", {"ii"}, "i"}, {{4, 4}}},
    {{"ii", {"ii"}, ""}, {{4, 4}}},
    {{"iji->j", {"iji"}, "j"}, {{3, 4, 3}}},
    {{"iii->i", {"iii"}, "i"}, {{3, 3, 3}}},
    {{"ii,ij->j", {"ii", "ij"}, "j"}, {{3, 3}, {3, 2}}},
    {{"ab,bc,cd->ad", {"ab", "bc", "cd"}, "ad"}, {{2, 3}, {3, 4}, {4, 5}}},
    {{"abc,cd,bd->a", {"abc", "cd", "bd"}, "a"}, {{2, 3, 4}, {4, 5}, {3, 5}}},
    {{"abcd,dcef->fabe", {"abcd", "dcef"}, "fabe"}, {{2, 3, 4, 2}, {2, 4, 3, 2}}},
    {{"ab,cd->", {"ab", "cd"}, ""}, {{2, 3}, {4, 5}}},
    {{"ij,jk->ik", {"ij", "jk"}, "ik"}, {{2, 1}, {3, 4}}},
    {{"ij,jk->ik", {"ij", "jk"}, "ik"}, {{0, 3}, {3, 4}}},
    {{"...ij,...jk->...ik", {"xyij", "yjk"}, "xyik"}, {{2, 3, 2, 2}, {3, 2, 4}}},
    {{"...ij,...jk", {"xyij", "xyjk"}, "xyik"}, {{2, 1, 2, 2}, {2, 3, 2, 4}}},
    {{"i...->...", {"ixy"}, "xy"}, {{2, 3, 4}}},
    {{"...", {"xy"}, "xy"}, {{3, 4}}},
    {{"...i,i->i...", {"xi", "i"}, "ix"}, {{3, 4}, {4}}},
    {{"...i,...i->", {"xi", "xi"}, ""}, {{3, 4}, {3, 4}}},
};

Tensors inputs_of(const Row& row) {
  Tensors inputs;
  for (std::size_t i = 0; i < row.shapes.size(); ++i)
    inputs.push_back(random_tensor(row.shapes[i], 50 + i));
  return inputs;
}

void expect_close(const Tensor& got, const Tensor& want, double tolerance, const Row& row) {
  ASSERT_EQ(got.shape(), want.shape()) << row.written.equation;
  const auto a = got.to_vector<double>(), b = want.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], tolerance) << row.written.equation << " at " << i;
}

TEST(Einsum, IsTheSumOfProductsThatItsEquationSays) {
  for (const Row& row : kRows) {
    const Tensors inputs = inputs_of(row);
    expect_close(einsum(row.written.equation, inputs), naive(row.written, inputs), 1e-12, row);
  }
}

TEST(Einsum, ReadsStridedOperands) {
  for (const Row& row : kRows) {
    const Tensors inputs = inputs_of(row);
    Tensors strided;
    for (const Tensor& x : inputs) strided.push_back(transpose(transpose(x).copy()));
    expect_close(einsum(row.written.equation, strided), naive(row.written, inputs), 1e-12, row);
  }
}

TEST(Einsum, CanBeCompiled) {
  for (const Row& row : kRows) {
    const Tensors inputs = inputs_of(row);
    Infos infos;
    for (const Tensor& x : inputs) infos.push_back(x.info());
    const auto function = [&](const Tensors& in) {
      return Tensors{einsum(row.written.equation, in)};
    };
    const Tensor got = Executable::compile(trace(function, infos)).run(inputs)[0];
    expect_close(got, naive(row.written, inputs), 1e-12, row);
  }
}

// It is linear in each operand, so a difference of any size is exact.
TEST(Einsum, HasTheGradientOfEachOperand) {
  for (const Row& row : kRows) {
    const Tensors inputs = inputs_of(row);
    for (const Tensor& x : inputs) autograd::attach_grad(x);
    Tensor weights, loss;
    {
      const autograd::RecordScope record;
      const Tensor y = einsum(row.written.equation, inputs);
      weights = random_tensor(y.shape(), 60);
      loss = sum(y * weights);
      autograd::backward(loss);
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Tensors moved = inputs;
      const Tensor step = random_tensor(inputs[i].shape(), 61);
      moved[i] = inputs[i] + step;
      const double change = sum(naive(row.written, moved) * weights).item() - loss.item();
      EXPECT_NEAR(sum(autograd::gradient(inputs[i]) * step).item(), change, 1e-10)
          << row.written.equation << ", operand " << i;
    }
  }
}

TEST(Einsum, KeepsTheDtypeThatOperandsPromoteTo) {
  const Tensor ints = Tensor::full({2, 2}, 3, DType::int32);
  EXPECT_EQ(einsum("ij->i", {ints}).dtype(), DType::int32);
  EXPECT_EQ(einsum("ij->i", {ints}).to_vector<double>(), (std::vector<double>{6, 6}));
  EXPECT_EQ(einsum("ij,jk", {ints, Tensor::zeros({2, 2})}).dtype(), DType::float32);
}

std::string refusal(const std::string& equation, const std::vector<Shape>& shapes) {
  Tensors inputs;
  for (const Shape& shape : shapes) inputs.push_back(Tensor::zeros(shape));
  return message_of([&] { einsum(equation, inputs); });
}

TEST(Einsum, SaysWhatIsWrongWithAnEquation) {
  EXPECT_EQ(refusal("ij,jk", {{2, 3}}), "einsum: 'ij,jk': 1 operands are given, 2 are named");
  EXPECT_EQ(refusal("ij", {{2}}), "einsum: 'ij': operand 0 has shape [2], 2 axes are named");
  EXPECT_EQ(refusal("i...j", {{2}}), "einsum: 'i...j': operand 0 has shape [2], 2 axes are named");
  EXPECT_EQ(refusal("ij,jk", {{2, 3}, {4, 5}}), "einsum: 'ij,jk': 'j' has sizes 3 and 4");
  EXPECT_EQ(refusal("ii", {{2, 3}}),
            "einsum: 'ii': the axes 'i' of one operand have sizes 2 and 3");
  EXPECT_EQ(refusal("ij->ik", {{2, 3}}),
            "einsum: 'ij->ik': the result has 'k', which no operand has");
  EXPECT_EQ(refusal("ij->ii", {{2, 3}}), "einsum: 'ij->ii': the result has 'i' twice");
  EXPECT_EQ(refusal("i1", {{2, 3}}), "einsum: 'i1': '1' is no letter");
  EXPECT_EQ(refusal("......", {{2, 3}}), "einsum: '......': '.' is no letter");
  EXPECT_EQ(refusal("i,j->ij->k", {{2}, {3}}), "einsum: 'i,j->ij->k': '-' is no letter");
  EXPECT_EQ(message_of([] { einsum("i", {Tensor()}); }), "einsum: input 0 is undefined");
}

}  // namespace
}  // namespace lockstep::testing
