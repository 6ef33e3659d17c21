// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fields.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

const char* word_for(FieldRole role) {
  switch (role) {
    case FieldRole::input: return "input";
    case FieldRole::label: return "label";
    case FieldRole::input_and_label: return "input and label";
    case FieldRole::unused: break;
  }
  return "unused";
}

FieldRoles data_and_label(std::size_t count) {
  if (count != 2)
    throw InvalidArgument(
        "fields: a sample has {}, and nothing says which are inputs and which are labels: set "
        "fields, such as {{input(\"x\"), label(\"y\")}}",
        count);
  return {input("data0"), label("label")};
}

}  // namespace

FieldRoles resolve_fields(const FieldRoles& given, std::size_t count) {
  FieldRoles roles = given.empty() ? data_and_label(count) : given;
  for (std::size_t i = 0; i < roles.size(); ++i)
    if (roles[i].name.empty()) roles[i].name = fmt::format("field{}", i);
  if (roles.size() != count)
    throw InvalidArgument("fields: a sample has {}, {} are described: {}", count, roles.size(),
                          to_string(roles));
  if (std::none_of(roles.begin(), roles.end(), [](const Field& f) { return f.is_input(); }))
    throw InvalidArgument("fields: none is an input of the net: {}", to_string(roles));
  return roles;
}

std::string to_string(const FieldRoles& roles) {
  std::string text;
  for (const Field& field : roles)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", field.name, word_for(field.role));
  return text;
}

}  // namespace lockstep::train
