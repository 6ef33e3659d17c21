// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "lockstep/graph/graph.h"
#include "tests/ops/check_cases.h"

// A graph file may ask for anything: sizes that overflow, attributes at the ends of their range,
// other ranks, dtypes and numbers of inputs. Inference gives shapes or refuses with a typed error.
// What it must not do, overflow above all, is for UndefinedBehaviorSanitizer to see.
namespace lockstep::testing {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kIntegers[] = {
    kLeast, kLeast + 1, -4294967297, -2147483648, -3,        -2,        -1,        0,    1,
    2,      3,          2147483647,  1LL << 32,   1LL << 61, 1LL << 62, kMost - 1, kMost};
constexpr std::int64_t kSizes[] = {0, 1, 2, 3, 7, 1LL << 31, 1LL << 40, 1LL << 59};
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNumbers[] = {-kInf, -1e308, -1e19, -1.0,
                               -0.0,  1e-320, 0.5,   1.0,
                               1e19,  1e308,  kInf,  std::numeric_limits<double>::quiet_NaN()};

// What may stand in an attribute's place.
struct Extremes {
  std::vector<AttrValue> operator()(std::int64_t) const {
    return std::vector<AttrValue>(std::begin(kIntegers), std::end(kIntegers));
  }
  std::vector<AttrValue> operator()(double) const {
    return std::vector<AttrValue>(std::begin(kNumbers), std::end(kNumbers));
  }
  std::vector<AttrValue> operator()(const Device&) const { return (*this)(std::int64_t{0}); }
  std::vector<AttrValue> operator()(bool v) const { return {!v}; }
  std::vector<AttrValue> operator()(const std::string&) const { return {std::string("?")}; }
  std::vector<AttrValue> operator()(DType) const {
    std::vector<AttrValue> values;
    for (int i = 0; i < kDTypeCount; ++i) values.emplace_back(static_cast<DType>(i));
    return values;
  }
  std::vector<AttrValue> operator()(const Ints& list) const {
    std::vector<AttrValue> values{Ints{}, Ints(9, 1), Ints(3, kMost)};
    for (std::int64_t value : kIntegers) {
      values.emplace_back(Ints{value});
      for (std::size_t i = 0; i < list.size(); ++i) {
        Ints changed = list;
        changed[i] = value;
        values.emplace_back(changed);
      }
      values.emplace_back(Ints(list.size(), value));
    }
    return values;
  }
};

void expect_answer_or_refusal(const OpDef& op, const Infos& inputs,
                              const std::vector<AttrField>& fields) {
  std::string text;
  for (const TensorInfo& input : inputs) text += input.str() + " ";
  for (const AttrField& field : fields) text += field.name + "=" + to_string(field.value) + " ";
  try {
    Graph graph;
    std::vector<ValueId> ids;
    for (const TensorInfo& input : inputs) ids.push_back(graph.add_input(input, "x"));
    const Attrs attrs = op.schema.make != nullptr ? op.schema.make(op.name, fields) : Attrs{};
    const ValueId node = graph.add_node(op, ids, attrs);
    for (const TensorInfo& output : graph.node(node).outputs)
      for (std::int64_t size : output.shape) ASSERT_GE(size, 0) << text;
  } catch (const Error&) {
  } catch (const std::exception& error) {
    FAIL() << text << ": " << error.what();
  }
}

std::vector<AttrField> fields_of(const OpDef& op, const Attrs& attrs) {
  return attrs.empty() && op.schema.defaults != nullptr ? op.schema.defaults() : attrs.fields();
}

Infos infos_of(const Tensors& tensors) {
  Infos infos;
  for (const Tensor& tensor : tensors) infos.push_back(tensor.info());
  return infos;
}

class ExtremeInputs : public ::testing::TestWithParam<CaseFamily> {};

TEST_P(ExtremeInputs, AttributesGetShapesOrATypedError) {
  for_each_case(GetParam(), [](const OpDef& op, const OpCase& c) {
    const std::vector<AttrField> fields = fields_of(op, c.attrs);
    for (std::size_t i = 0; i < fields.size(); ++i)
      for (const AttrValue& value : std::visit(Extremes{}, fields[i].value)) {
        std::vector<AttrField> changed = fields;
        changed[i].value = value;
        expect_answer_or_refusal(op, infos_of(c.inputs), changed);
      }
  });
}

TEST_P(ExtremeInputs, SizesGetShapesOrATypedError) {
  for_each_case(GetParam(), [](const OpDef& op, const OpCase& c) {
    const std::vector<AttrField> fields = fields_of(op, c.attrs);
    const Infos infos = infos_of(c.inputs);
    for (std::int64_t size : kSizes) {
      Infos all = infos;
      for (std::size_t i = 0; i < infos.size(); ++i)
        for (int axis = 0; axis < infos[i].shape.rank(); ++axis) {
          Infos one = infos;
          one[i].shape[axis] = size;
          expect_answer_or_refusal(op, one, fields);
          // One axis alone keeps every input countable; their combinations need not be.
          if (axis == static_cast<int>(i) % infos[i].shape.rank()) all[i].shape[axis] = size;
        }
      expect_answer_or_refusal(op, all, fields);
    }
  });
}

TEST_P(ExtremeInputs, RanksGetShapesOrATypedError) {
  for_each_case(GetParam(), [](const OpDef& op, const OpCase& c) {
    const std::vector<AttrField> fields = fields_of(op, c.attrs);
    const Infos infos = infos_of(c.inputs);
    for (std::size_t i = 0; i < infos.size(); ++i)
      for (int rank = 0; rank <= kMaxRank; ++rank) {
        Infos changed = infos;
        Shape& shape = changed[i].shape;
        while (shape.rank() > rank) shape.erase(0);
        while (shape.rank() < rank) shape.insert(0, 2);
        expect_answer_or_refusal(op, changed, fields);
        for (TensorInfo& info : changed) info.shape = shape;
        expect_answer_or_refusal(op, changed, fields);
      }
  });
}

TEST_P(ExtremeInputs, DtypesAndCountsGetShapesOrATypedError) {
  for_each_case(GetParam(), [](const OpDef& op, const OpCase& c) {
    const std::vector<AttrField> fields = fields_of(op, c.attrs);
    const Infos infos = infos_of(c.inputs);
    for (std::size_t i = 0; i < infos.size(); ++i)
      for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
        Infos changed = infos;
        changed[i].dtype = static_cast<DType>(dtype);
        expect_answer_or_refusal(op, changed, fields);
      }
    for (std::size_t count = 0; count < infos.size() + 4; ++count) {
      Infos changed = infos;
      changed.resize(count, infos.empty() ? TensorInfo{} : infos[0]);
      expect_answer_or_refusal(op, changed, fields);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ops, ExtremeInputs, ::testing::ValuesIn(case_families()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::testing
