// SPDX-License-Identifier: Apache-2.0
// One rule for each op: its function, Symbol::apply and a call by name promote alike.
#include "lockstep/ops/promotion.h"

#include <gtest/gtest.h>

#include <set>

#include "lockstep/graph/symbol.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/ops.h"
#include "tests/ops/check_cases.h"
#include "tests/ops/op_functions.h"

namespace lockstep::testing {
namespace {

// What a call gave, or what its error says.
struct Outcome {
  Tensors outputs = {};
  std::string error = {};
};

template <class F>
Outcome outcome_of(F&& call) {
  try {
    return {.outputs = call()};
  } catch (const Error& error) {
    return {.error = error.what()};
  }
}

// An op whose function gives fewer outputs is compared in those it gives.
std::string difference(const Outcome& got, const Outcome& want) {
  if (got.error != want.error) return "'" + got.error + "' instead of '" + want.error + "'";
  for (std::size_t i = 0; i < std::min(got.outputs.size(), want.outputs.size()); ++i) {
    const std::string text = bit_difference(got.outputs[i], want.outputs[i]);
    if (!text.empty()) return "output " + std::to_string(i) + ": " + text;
  }
  return "";
}

Tensors run_symbol(const OpDef& op, const Tensors& inputs, const Attrs& attrs,
                   std::size_t outputs) {
  std::vector<Symbol> variables;
  InfoMap infos;
  TensorMap values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = "in" + std::to_string(i);
    variables.push_back(Symbol::variable(name));
    infos.emplace(name, inputs[i].info());
    values.emplace(name, inputs[i]);
  }
  const Symbol symbol = Symbol::apply(std::string(op.name), variables, attrs.fields());
  std::vector<Symbol> all;
  for (std::size_t i = 0; i < outputs; ++i) all.push_back(symbol.output(i));
  const CompileOptions plain{
      .simplify = false, .fuse = false, .choose_layouts = false, .winograd = false};
  return Symbol::group(all).bind(infos, {}, plain).run(values).outputs;
}

Outcome call_by_name(const OpDef& op, const Tensors& inputs, const Attrs& attrs) {
  return outcome_of([&] { return call_op(op, {.positional = inputs, .attrs = attrs.fields()}); });
}

void expect_agreement(const OpDef& op, const Tensors& inputs, const Attrs& attrs) {
  const Outcome named = call_by_name(op, inputs, attrs);
  EXPECT_TRUE(named.error.empty() || named.error.starts_with(std::string(op.name) + ": "))
      << named.error;
  const std::size_t outputs = std::max<std::size_t>(named.outputs.size(), 1);
  const Outcome symbol = outcome_of([&] { return run_symbol(op, inputs, attrs, outputs); });
  EXPECT_EQ(difference(symbol, named), "") << "Symbol::apply";
  const auto function = op_functions().find(std::string(op.name));
  if (function == op_functions().end()) return;
  const Outcome direct = outcome_of([&] { return function->second(inputs, attrs); });
  EXPECT_EQ(difference(direct, named), "") << "the function";
}

// The first in one dtype, the others in another; numbers of several magnitudes, so that casts show.
Tensors with_dtypes(const Tensors& inputs, DType first, DType rest) {
  Tensors made;
  for (const Tensor& x : inputs) {
    const Tensor values = is_floating(x.dtype()) ? multiply(x, 5.0) : x;
    made.push_back(cast(values, made.empty() ? first : rest));
  }
  return made;
}

bool has_elements(const OpCase& c) {
  for (const Tensor& x : c.inputs)
    if (x.numel() == 0) return false;
  return true;
}

// Optional inputs between others are told apart by name alone.
bool is_positional(const OpDef& op, const OpCase& c) {
  return !op.name.starts_with("rnn_layer") || c.inputs.size() == op.docs.inputs.size();
}

class PromotionOf : public ::testing::TestWithParam<CaseFamily> {};

TEST_P(PromotionOf, FunctionsSymbolsAndCallsByNameAgreeInEveryPairOfDtypes) {
  std::set<std::string> seen;
  for_each_case(GetParam(), [&](const OpDef& op, const OpCase& c) {
    if (!has_elements(c) || !is_positional(op, c) || !seen.insert(c.op).second) return;
    for (int first = 0; first < kDTypeCount; ++first)
      for (int rest = 0; rest < (c.inputs.size() > 1 ? kDTypeCount : 1); ++rest) {
        const auto a = static_cast<DType>(first), b = static_cast<DType>(rest);
        SCOPED_TRACE(fmt::format("{} and {}", name_of(a), name_of(b)));
        expect_agreement(op, with_dtypes(c.inputs, a, b), c.attrs);
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Ops, PromotionOf, ::testing::ValuesIn(case_families()),
                         [](const auto& family) { return family.param.name; });

TEST(Promotion, EveryOpThatPromotesIsComparedWithItsFunction) {
  for (const OpDef* op : all_ops())
    EXPECT_TRUE(op->promotion == Promotion::none || op_functions().contains(std::string(op->name)))
        << op->name;
}

TEST(Promotion, IsDoneOnce) {
  const Promotion rules[] = {Promotion::none,
                             Promotion::common,
                             Promotion::floating,
                             Promotion::boolean,
                             Promotion::condition,
                             Promotion::like_first,
                             Promotion::floats_like_first,
                             Promotion::rest_int64};
  for (Promotion rule : rules)
    for (int code = 0; code < kDTypeCount * kDTypeCount * kDTypeCount; ++code) {
      const DType given[] = {static_cast<DType>(code % kDTypeCount),
                             static_cast<DType>(code / kDTypeCount % kDTypeCount),
                             static_cast<DType>(code / kDTypeCount / kDTypeCount)};
      DType once[3];
      for (std::size_t i = 0; i < 3; ++i) once[i] = promoted_dtype(rule, given, i);
      for (std::size_t i = 0; i < 3; ++i)
        ASSERT_EQ(promoted_dtype(rule, once, i), once[i]) << describe(rule);
    }
}

TEST(Promotion, CastsWhatTheRuleSays) {
  const Tensor ints = cast(arange(0, 3), DType::int32), halves = cast(ints, DType::float16);
  const auto dtype_of_call = [](const char* op, const Tensors& inputs) {
    return call_op(get_op(op), {.positional = inputs})[0].dtype();
  };
  EXPECT_EQ(dtype_of_call("add", {ints, halves}), DType::float16);
  EXPECT_EQ(dtype_of_call("divide", {ints, ints}), DType::float32);
  EXPECT_EQ(dtype_of_call("exp", {ints}), DType::float32);
  EXPECT_EQ(dtype_of_call("abs", {ints}), DType::int32);
  EXPECT_EQ(dtype_of_call("logical_and", {ints, halves}), DType::boolean);
  EXPECT_EQ(dtype_of_call("where", {ints, ints, halves}), DType::float16);
  EXPECT_EQ(dtype_of_call("sigmoid_cross_entropy", {halves, ints}), DType::float16);
}

TEST(Promotion, ANumberTakesTheDtypeOfTheTensorBesideIt) {
  EXPECT_EQ(number_dtype(DType::float16, 0.5), DType::float16);
  EXPECT_EQ(number_dtype(DType::int8, 100), DType::int8);
  EXPECT_EQ(number_dtype(DType::int8, 1000), DType::int32);
  EXPECT_EQ(number_dtype(DType::int16, -32768), DType::int16);
  EXPECT_EQ(number_dtype(DType::int16, 32768), DType::int32);
  EXPECT_EQ(number_dtype(DType::int32, 0x1p40), DType::int64);
  EXPECT_EQ(number_dtype(DType::int64, 0.5), DType::float32);
  EXPECT_EQ(number_dtype(DType::boolean, 1), DType::int32);
}

}  // namespace
}  // namespace lockstep::testing
