// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::train {

// What a field of a sample is for.
enum class FieldRole { input, label, input_and_label, unused };

struct Field {
  FieldRole role = FieldRole::input;
  std::string name = {};  // for messages; empty: its number

  bool is_input() const { return role == FieldRole::input || role == FieldRole::input_and_label; }
  bool is_label() const { return role == FieldRole::label || role == FieldRole::input_and_label; }
};

// One for each field of a sample, in its order: the net is called with the inputs, the loss gets
// the net's outputs and the labels. Empty: two fields, an input and a label.
//
//   .fields = {input("user"), input("item"), label("rating")}
//   .fields = {input_and_label("image")}                        an autoencoder
using FieldRoles = std::vector<Field>;

inline Field input(std::string name = {}) { return {FieldRole::input, std::move(name)}; }
inline Field label(std::string name = {}) { return {FieldRole::label, std::move(name)}; }
inline Field input_and_label(std::string name = {}) {
  return {FieldRole::input_and_label, std::move(name)};
}
inline Field unused(std::string name = {}) { return {FieldRole::unused, std::move(name)}; }

// The roles of samples with `count` fields, each with a name of its own. Throws InvalidArgument
// when the given ones are not as many, when none is an input, or when there are none and nothing is
// obvious.
FieldRoles resolve_fields(const FieldRoles& given, std::size_t count);

// "user (input), item (input), rating (label)"
std::string to_string(const FieldRoles& roles);

// Those of the values, one a field, that are inputs, or labels.
template <class T>
std::vector<T> inputs_of(const FieldRoles& roles, const std::vector<T>& values) {
  std::vector<T> chosen;
  for (std::size_t i = 0; i < roles.size(); ++i)
    if (roles[i].is_input()) chosen.push_back(values[i]);
  return chosen;
}

template <class T>
std::vector<T> labels_of(const FieldRoles& roles, const std::vector<T>& values) {
  std::vector<T> chosen;
  for (std::size_t i = 0; i < roles.size(); ++i)
    if (roles[i].is_label()) chosen.push_back(values[i]);
  return chosen;
}

}  // namespace lockstep::train
