// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "lockstep/ops/dispatch.h"
#include "tests/ops/check_cases.h"
#include "tests/seed.h"

namespace lockstep::testing {
namespace {

constexpr std::int64_t kLargestRun = 1 << 16;  // elements

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : generator_(seed) {}

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(bound));
  }

  std::int64_t odd_integer() {
    constexpr std::int64_t kOdd[] = {
        -1, 0, 1, 2, 3, -2, 7, -100, 1 << 20, std::int64_t{1} << 62, INT64_MIN, INT64_MAX};
    return kOdd[below(std::size(kOdd))];
  }

  void change(Shape& shape) {
    switch (below(4)) {
      case 0:
        if (shape.rank() < kMaxRank) shape.insert(int_below(shape.rank() + 1), below(4));
        break;
      case 1:
        if (shape.rank() > 0) shape.erase(int_below(shape.rank()));
        break;
      case 2:
        if (shape.rank() > 0) shape[int_below(shape.rank())] = below(5);
        break;
      default:
        if (shape.rank() > 0) shape[int_below(shape.rank())] += 1;
    }
  }

  void change(AttrValue& value) {
    if (auto* b = std::get_if<bool>(&value)) *b = !*b;
    if (auto* i = std::get_if<std::int64_t>(&value)) *i = odd_integer();
    if (auto* d = std::get_if<double>(&value)) *d = static_cast<double>(odd_integer());
    if (auto* s = std::get_if<std::string>(&value)) *s += "?";
    if (auto* d = std::get_if<DType>(&value)) *d = any_dtype();
    if (auto* list = std::get_if<Ints>(&value)) change(*list);
  }

  void change(Ints& list) {
    const std::int64_t what = below(3);
    if (what == 0 || list.empty())
      list.push_back(odd_integer());
    else if (what == 1)
      list.pop_back();
    else
      list[static_cast<std::size_t>(below(static_cast<std::int64_t>(list.size())))] = odd_integer();
  }

  DType any_dtype() { return static_cast<DType>(below(kDTypeCount)); }
  std::size_t index_below(std::size_t n) {
    return static_cast<std::size_t>(below(static_cast<std::int64_t>(n)));
  }

 private:
  int int_below(int bound) { return static_cast<int>(below(bound)); }

  std::mt19937_64 generator_;
};

std::string describe_call(const OpDef& op, const Infos& inputs, const Attrs& attrs) {
  std::string text = std::string(op.name) + "(";
  for (const TensorInfo& info : inputs) text += info.str() + " ";
  return text + "; " + attrs.str() + ")";
}

bool is_small(const Infos& infos) {
  std::int64_t total = 0;
  for (const TensorInfo& info : infos) {
    std::int64_t count = 1;
    for (std::int64_t d : info.shape)
      if (d < 0 || d > kLargestRun || (count *= std::max<std::int64_t>(d, 1)) > kLargestRun)
        return false;
    total += count;
  }
  return total <= kLargestRun;
}

// Inference accepts or refuses with a typed error that names the op; what it accepts can be run, or
// is refused for its contents or for want of a kernel.
void expect_run_or_typed_error(const OpDef& op, const Infos& inputs, const Attrs& attrs,
                               std::int64_t fill) {
  SCOPED_TRACE(describe_call(op, inputs, attrs));
  try {
    const Infos outputs = infer(op, inputs, attrs);
    for (const TensorInfo& info : outputs)
      for (std::int64_t d : info.shape) EXPECT_GE(d, 0);
    if (!is_small(inputs) || !is_small(outputs)) return;
    Tensors tensors;
    for (const TensorInfo& info : inputs)
      tensors.push_back(Tensor::full(info.shape, static_cast<double>(fill), info.dtype));
    apply(op, tensors, attrs);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(": "), std::string::npos) << error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not a typed error: " << error.what();
  }
}

Infos infos_of(const OpCase& c) {
  Infos infos;
  for (const Tensor& x : c.inputs) infos.push_back(x.info());
  return infos;
}

class BadInput : public ::testing::TestWithParam<CaseFamily> {};

TEST_P(BadInput, AWrongNumberOfInputsIsRefusedByName) {
  for_each_case(GetParam(), [](const OpDef& op, const OpCase& c) {
    Infos few = infos_of(c);
    few.resize(static_cast<std::size_t>(std::max(op.min_inputs - 1, 0)));
    if (op.min_inputs > 0) {
      EXPECT_THROW(infer(op, few, c.attrs), InvalidArgument);
    }
    if (op.max_inputs < 0) return;
    Infos many = infos_of(c);
    many.resize(static_cast<std::size_t>(op.max_inputs) + 1);
    EXPECT_THROW(infer(op, many, c.attrs), InvalidArgument);
  });
}

TEST_P(BadInput, ChangedDtypesShapesAndAttributesRunOrGiveATypedError) {
  Mutator mutator(seed_of_this_run());
  for_each_case(GetParam(), [&](const OpDef& op, const OpCase& c) {
    const Infos infos = infos_of(c);
    for (int round = 0; round < 12; ++round) {
      Infos changed = infos;
      Attrs attrs = c.attrs;
      const std::int64_t what = mutator.below(3);
      if (what == 0 && !changed.empty())
        changed[mutator.index_below(changed.size())].dtype = mutator.any_dtype();
      if (what == 1 && !changed.empty())
        mutator.change(changed[mutator.index_below(changed.size())].shape);
      if (what == 2 && !attrs.empty() && op.schema.make != nullptr) {
        auto fields = attrs.fields();
        if (fields.empty()) continue;
        mutator.change(fields[mutator.index_below(fields.size())].value);
        try {
          attrs = op.schema.make(op.name, fields);
        } catch (const Error&) {
          continue;
        }
      }
      const std::int64_t fills[] = {0, 1, -1, 100};
      expect_run_or_typed_error(op, changed, attrs, fills[mutator.below(4)]);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ops, BadInput, ::testing::ValuesIn(case_families()),
                         [](const auto& family) { return family.param.name; });

}  // namespace
}  // namespace lockstep::testing
