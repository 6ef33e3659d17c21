// SPDX-License-Identifier: Apache-2.0
// Every op of the catalogue is documented, and what is written agrees with what it takes and gives.
#include "lockstep/ops/op_docs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/dispatch.h"
#include "tests/ops/check_cases.h"

namespace lockstep::testing {
namespace {

std::vector<AttrDoc> attrs_of(const OpDef& op) {
  return op.schema.docs == nullptr ? std::vector<AttrDoc>{} : op.schema.docs();
}

bool is_keyword(std::string_view name) {
  const auto plain = [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '_'; };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), plain);
}

// How many of the list there may be: at least, at most (-1: any number).
std::pair<int, int> counts(std::span<const ArgumentDoc> list) {
  int least = 0;
  for (const ArgumentDoc& argument : list) least += argument.presence != Presence::optional;
  const bool any = !list.empty() && list.back().presence == Presence::repeated;
  return {least, any ? -1 : static_cast<int>(list.size())};
}

void expect_lines(std::span<const ArgumentDoc> list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_TRUE(is_keyword(list[i].name)) << "'" << list[i].name << "'";
    EXPECT_FALSE(list[i].text.empty()) << list[i].name;
    EXPECT_TRUE(list[i].presence != Presence::repeated || i + 1 == list.size()) << list[i].name;
  }
}

TEST(OpDocs, EveryOpHasASummaryAndALineForEachInputOutputAndAttribute) {
  for (const OpDef* op : all_ops()) {
    SCOPED_TRACE(op->name);
    EXPECT_TRUE(op->docs.summary.ends_with('.')) << op->docs.summary;
    EXPECT_FALSE(op->docs.outputs.empty());
    expect_lines(op->docs.inputs);
    expect_lines(op->docs.outputs);
    for (const AttrDoc& attr : attrs_of(*op)) {
      EXPECT_TRUE(is_keyword(attr.name)) << attr.name;
      EXPECT_FALSE(attr.text.empty()) << attr.name;
    }
  }
}

TEST(OpDocs, NoKeywordMeansTwoThings) {
  for (const OpDef* op : all_ops()) {
    std::set<std::string_view> names;
    for (const ArgumentDoc& input : op->docs.inputs)
      EXPECT_TRUE(names.insert(input.name).second) << op->name << " " << input.name;
    for (const AttrDoc& attr : attrs_of(*op))
      EXPECT_TRUE(names.insert(attr.name).second) << op->name << " " << attr.name;
  }
}

TEST(OpDocs, InputsAreAsManyAsTheOpTakes) {
  for (const OpDef* op : all_ops()) {
    const auto [least, most] = counts(op->docs.inputs);
    EXPECT_EQ(least, op->min_inputs) << op->name;
    EXPECT_EQ(most, op->max_inputs) << op->name;
  }
}

TEST(OpDocs, OutputsAreAsManyAsTheOpGives) {
  for (const CaseFamily& family : case_families())
    for_each_case(family, [](const OpDef& op, const OpCase& c) {
      Infos infos;
      for (const Tensor& x : c.inputs) infos.push_back(x.info());
      const auto given = static_cast<int>(infer(op, infos, c.attrs).size());
      const auto [least, most] = counts(op.docs.outputs);
      EXPECT_GE(given, least);
      EXPECT_TRUE(most < 0 || given <= most) << given;
    });
}

TEST(OpDocs, AttributesAreDocumentedWithTheirDefaults) {
  for (const OpDef* op : all_ops()) {
    if (op->schema.defaults == nullptr) continue;
    const std::vector<AttrField> defaults = op->schema.defaults();
    const std::vector<AttrDoc> docs = op->schema.docs();
    ASSERT_EQ(docs.size(), defaults.size()) << op->name;
    for (std::size_t i = 0; i < docs.size(); ++i) {
      EXPECT_EQ(docs[i].name, defaults[i].name) << op->name;
      EXPECT_EQ(docs[i].default_value, defaults[i].value) << op->name << " " << docs[i].name;
    }
  }
}

}  // namespace
}  // namespace lockstep::testing
