// SPDX-License-Identifier: Apache-2.0
#include "tests/docs/op_page.h"

#include <fmt/format.h>

#include <vector>

#include "lockstep/ops/catalogue.h"

namespace lockstep::testing {
namespace {

constexpr const char* kHead =
    "# Ops\n\n"
    "Every op of the catalogue, by family. `make docs` writes this page from the ops' definitions "
    "(lockstep/ops); edit those.\n\n"
    "The first line of an op is its call by name: inputs, those in brackets optional, and "
    "attributes with their defaults. `call_op` (lockstep/ops/call.h) takes these names, "
    "`Symbol::apply` the names of attributes. Most ops have a C++ function of the same name; those "
    "that end in `_backward` are gradients, called by the tape and the compiler. Where a "
    "line says that inputs are cast, functions, symbols and calls by name all do so.\n\n"
    "Functions that are compositions of these ops are no ops themselves and stand in the headers "
    "alone: `einsum`, `flatten`, `stack`, `meshgrid`, `diag`, `diag_embed`, `multinomial` and "
    "their "
    "like. So do `nonzero` and `unique` (lockstep/ops/unique.h), the shapes of whose results "
    "depend "
    "on what a tensor contains: they run eagerly, and are `Unsupported` while a graph is traced.\n";

std::vector<AttrDoc> attrs_of(const OpDef& op) {
  return op.schema.docs == nullptr ? std::vector<AttrDoc>{} : op.schema.docs();
}

std::string in_signature(const ArgumentDoc& input) {
  switch (input.presence) {
    case Presence::required: return std::string(input.name);
    case Presence::optional: return fmt::format("[{}]", input.name);
    case Presence::repeated: return fmt::format("{}...", input.name);
  }
  return {};
}

std::string signature(const OpDef& op) {
  std::string list;
  const auto add = [&](const std::string& item) { list += (list.empty() ? "" : ", ") + item; };
  for (const ArgumentDoc& input : op.docs.inputs) add(in_signature(input));
  for (const AttrDoc& attr : attrs_of(op))
    add(fmt::format("{}={}", attr.name, to_string(attr.default_value)));
  return fmt::format("{}({})", op.name, list);
}

std::string item(const char* what, const ArgumentDoc& argument) {
  const char* how = "";
  if (argument.presence == Presence::optional) how = "optional ";
  if (argument.presence == Presence::repeated) how = "one or more ";
  return fmt::format("- {}{} `{}`: {}\n", how, what, argument.name, argument.text);
}

std::string entry(const OpDef& op) {
  std::string text = fmt::format("\n### {}\n\n`{}`\n\n{}", op.name, signature(op), op.docs.summary);
  if (!op.differentiable()) text += " No gradient.";
  text += "\n\n";
  for (const ArgumentDoc& input : op.docs.inputs) text += item("input", input);
  for (const AttrDoc& attr : attrs_of(op))
    text += fmt::format("- attribute `{}` ({}): {}\n", attr.name, attr.type, attr.text);
  for (const ArgumentDoc& output : op.docs.outputs) text += item("output", output);
  if (op.promotion != Promotion::none) text += fmt::format("- {}\n", describe(op.promotion));
  return text;
}

}  // namespace

std::string op_page() {
  std::string page = kHead;
  for (const OpFamily& family : op_families()) {
    page += fmt::format("\n## {}\n", family.name);
    for (const OpDef* op : family.ops) page += entry(*op);
  }
  return page;
}

}  // namespace lockstep::testing
