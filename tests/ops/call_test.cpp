// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/call.h"

#include <gtest/gtest.h>

#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/ops.h"
#include "tests/message.h"
#include "tests/ops/check_cases.h"

namespace lockstep::testing {
namespace {

Tensor numbers(const Shape& shape) { return random_tensor(shape, 1); }

std::string call_message(const char* op, const OpArguments& arguments) {
  return message_of([&] { call_op(get_op(op), arguments); });
}

TEST(CallOp, TakesTensorsByPositionAndByName) {
  const Tensor x = numbers({2, 3}), weight = numbers({4, 3}), bias = numbers({4});
  const Tensor want = dense(x, weight, bias);
  const OpDef& op = get_op("dense");
  EXPECT_EQ(bit_difference(call_op(op, {.positional = {x, weight, bias}})[0], want), "");
  const OpArguments named{.inputs = {{"bias", bias}, {"x", x}, {"weight", weight}}};
  EXPECT_EQ(bit_difference(call_op(op, named)[0], want), "");
  const OpArguments mixed{.positional = {x}, .inputs = {{"bias", bias}, {"weight", weight}}};
  EXPECT_EQ(bit_difference(call_op(op, mixed)[0], want), "");
}

TEST(CallOp, LeavesOutOptionalInputsThatAreUndefined) {
  const Tensor x = numbers({2, 3}), weight = numbers({4, 3});
  const Tensor want = dense(x, weight);
  EXPECT_EQ(bit_difference(call_op(get_op("dense"), {.positional = {x, weight, {}}})[0], want), "");
  const OpArguments named{.positional = {x, weight}, .inputs = {{"bias", {}}}};
  EXPECT_EQ(bit_difference(call_op(get_op("dense"), named)[0], want), "");
}

TEST(CallOp, FindsThePlaceOfAnOptionalInputBetweenOthers) {
  const Tensor x = numbers({5, 2, 3}), h0 = numbers({2, 4});
  const OpArguments gru{.positional = {x, h0},
                        .inputs = {{"w_input", numbers({12, 3})},
                                   {"w_hidden", numbers({12, 4})},
                                   {"b_input", numbers({12})},
                                   {"b_hidden", numbers({12})}},
                        .attrs = {{"mode", std::string("gru")}}};
  EXPECT_EQ(call_op(get_op("rnn_layer"), gru)[0].shape(), (Shape{5, 2, 4}));
  OpArguments by_place{.positional = {x, h0}, .attrs = gru.attrs};
  for (const NamedTensor& given : gru.inputs) by_place.positional.push_back(given.tensor);
  EXPECT_EQ(bit_difference(call_op(get_op("rnn_layer"), by_place)[0],
                           call_op(get_op("rnn_layer"), gru)[0]),
            "");
}

TEST(CallOp, TakesARepeatedInputAsOftenAsItIsGiven) {
  const Tensor a = numbers({2}), b = numbers({3});
  const OpDef& op = get_op("concat");
  const Tensor want = concat({a, b, a});
  EXPECT_EQ(bit_difference(call_op(op, {.positional = {a, b, a}})[0], want), "");
  const OpArguments named{.inputs = {{"parts", a}, {"parts", b}, {"parts", a}}};
  EXPECT_EQ(bit_difference(call_op(op, named)[0], want), "");
}

TEST(CallOp, FillsInDefaultsAndTakesAttributesByName) {
  const Tensor x = numbers({2, 3});
  EXPECT_EQ(bit_difference(call_op(get_op("sum"), {.positional = {x}})[0], sum(x)), "");
  const OpArguments rows{.positional = {x}, .attrs = {{"keepdims", true}, {"axes", Ints{1}}}};
  EXPECT_EQ(bit_difference(call_op(get_op("sum"), rows)[0], sum(x, {1}, true)), "");
}

TEST(CallOp, NamesTheKeywordThatWasMeant) {
  const Tensor x = numbers({2, 3});
  EXPECT_EQ(call_message("softmax", {.positional = {x}, .attrs = {{"axes", Ints{1}}}}),
            "softmax: there is no input or attribute 'axes'; did you mean 'axis'?");
  EXPECT_EQ(call_message("dense", {.positional = {x}, .inputs = {{"wieght", x}}}),
            "dense: there is no input or attribute 'wieght'; did you mean 'weight'?");
  EXPECT_EQ(call_message("softmax", {.positional = {x}, .attrs = {{"temperature", 2.0}}}),
            "softmax: there is no input or attribute 'temperature' (it has: x, axis)");
}

TEST(CallOp, NamesTheInputThatIsMissingOrGivenTwice) {
  const Tensor x = numbers({2, 3});
  EXPECT_EQ(call_message("dense", {.positional = {x}}), "dense: input weight is missing");
  EXPECT_EQ(call_message("dense", {.inputs = {{"weight", x}}}), "dense: input x is missing");
  EXPECT_EQ(call_message("concat", {}), "concat: input parts is missing");
  EXPECT_EQ(call_message("dense", {.positional = {x, x}, .inputs = {{"x", x}}}),
            "dense: input x is given twice");
  EXPECT_EQ(call_message("add", {.positional = {x, x, x}}), "add: takes 2 inputs, got 3");
  EXPECT_EQ(call_message("eye", {.positional = {x}}), "eye: takes 0 inputs, got 1");
}

TEST(CallOp, TellsTensorsFromAttributes) {
  const Tensor x = numbers({2, 3});
  EXPECT_EQ(call_message("softmax", {.positional = {x}, .inputs = {{"axis", x}}}),
            "softmax: attribute axis is given a tensor");
  EXPECT_EQ(call_message("dense", {.positional = {x}, .attrs = {{"weight", 1.5}}}),
            "dense: input weight must be a tensor, got 1.5");
}

// A value of another type than the attribute's that does not serve as one of it.
AttrValue wrong_value(const AttrDoc& attr) {
  if (attr.type == "string") return true;
  return std::string("no such thing");
}

TEST(CallOp, RefusesAnAttributeOfAnotherTypeInTheOpsName) {
  for (const OpDef* op : all_ops()) {
    if (op->schema.docs == nullptr) continue;
    for (const AttrDoc& attr : op->schema.docs()) {
      const OpArguments wrong{.attrs = {{std::string(attr.name), wrong_value(attr)}}};
      const std::string message = message_of([&] { call_op(*op, wrong); });
      EXPECT_TRUE(message.starts_with(std::string(op->name) + ": ")) << message;
      EXPECT_NE(message.find(attr.type == "dtype" ? "is not a dtype" : attr.name),
                std::string::npos)
          << op->name << ": " << message;
    }
  }
}

TEST(CallOp, RefusesAWrongKeywordInTheOpsName) {
  for (const OpDef* op : all_ops()) {
    const std::string start = std::string(op->name) + ": there is no input or attribute 'zzzzzz'";
    const OpArguments attr{.attrs = {{"zzzzzz", true}}};
    const OpArguments input{.inputs = {{"zzzzzz", numbers({2})}}};
    for (const OpArguments& wrong : {attr, input}) {
      const std::string message = message_of([&] { call_op(*op, wrong); });
      EXPECT_TRUE(message.starts_with(start)) << message;
    }
  }
}

TEST(CallOp, GivenTheDefaultsItDoesWhatItDoesWithoutThem) {
  for (const OpDef* op : all_ops()) {
    if (op->schema.defaults == nullptr) continue;
    const std::vector<AttrField> defaults = op->schema.defaults();
    EXPECT_EQ(make_attrs(*op, defaults), make_attrs(*op, {})) << op->name;
    EXPECT_EQ(make_attrs(*op, {}).fields(), defaults) << op->name;
  }
}

// The inputs of a case under their names.
std::vector<NamedTensor> named_inputs(const OpDef& op, const Tensors& inputs) {
  std::vector<NamedTensor> named;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    named.push_back(
        {std::string(op.docs.inputs[std::min(i, op.docs.inputs.size() - 1)].name), inputs[i]});
  return named;
}

TEST(CallOp, ByNamesGivesWhatTheOpGives) {
  for (const CaseFamily& family : case_families())
    for_each_case(family, [](const OpDef& op, const OpCase& c) {
      if (op.docs.inputs.size() > c.inputs.size() && op.name.starts_with("rnn_layer")) return;
      const OpArguments arguments{.inputs = named_inputs(op, c.inputs), .attrs = c.attrs.fields()};
      const Tensors got = call_op(op, arguments), want = apply(op, c.inputs, c.attrs);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(bit_difference(got[i], want[i]), "");
    });
}

}  // namespace
}  // namespace lockstep::testing
