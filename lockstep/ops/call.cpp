// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/call.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/nearest.h"
#include "lockstep/ops/dispatch.h"

namespace lockstep {
namespace {

std::vector<std::string> keywords_of(const OpDef& op) {
  std::vector<std::string> names;
  for (const ArgumentDoc& input : op.docs.inputs) names.emplace_back(input.name);
  if (op.schema.docs != nullptr)
    for (const AttrDoc& attr : op.schema.docs()) names.emplace_back(attr.name);
  return names;
}

[[noreturn]] void fail_keyword(const OpDef& op, const std::string& keyword) {
  const std::vector<std::string> known = keywords_of(op);
  const std::string meant = nearest(keyword, known);
  if (!meant.empty())
    throw InvalidArgument("{}: there is no input or attribute '{}'; did you mean '{}'?", op.name,
                          keyword, meant);
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  throw InvalidArgument("{}: there is no input or attribute '{}' (it has: {})", op.name, keyword,
                        names.empty() ? "none" : names);
}

const ArgumentDoc* find_input(const OpDef& op, std::string_view name) {
  const auto has_name = [&](const ArgumentDoc& input) { return input.name == name; };
  const auto found = std::find_if(op.docs.inputs.begin(), op.docs.inputs.end(), has_name);
  return found == op.docs.inputs.end() ? nullptr : &*found;
}

bool has_keyword(const OpDef& op, const std::string& name) {
  const std::vector<std::string> known = keywords_of(op);
  return std::find(known.begin(), known.end(), name) != known.end();
}

void check_attr_names(const OpDef& op, const std::vector<AttrField>& attrs) {
  for (const AttrField& field : attrs) {
    if (find_input(op, field.name) != nullptr)
      throw InvalidArgument("{}: input {} must be a tensor, got {}", op.name, field.name,
                            to_string(field.value));
    if (!has_keyword(op, field.name)) fail_keyword(op, field.name);
  }
}

// The inputs in their places: as many tensors for each as were given.
class InputPlaces {
 public:
  explicit InputPlaces(const OpDef& op) : op_(op), places_(op.docs.inputs.size()) {}

  void add_positional(const std::vector<Tensor>& tensors) {
    if (op_.max_inputs >= 0 && tensors.size() > places_.size())
      check_input_count(op_, tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].defined()) places_[std::min(i, places_.size() - 1)].push_back(tensors[i]);
  }

  // Then the optional ones may be left out, wherever they stand.
  bool are_all_that_is_required(const std::vector<Tensor>& tensors) const {
    const auto& inputs = op_.docs.inputs;
    const auto required = std::count_if(inputs.begin(), inputs.end(), is_required);
    return std::cmp_equal(tensors.size(), required) &&
           std::all_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.defined(); });
  }

  void add_required(const std::vector<Tensor>& tensors) {
    auto next = tensors.begin();
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (is_required(op_.docs.inputs[i])) places_[i].push_back(*next++);
  }

  void add_named(const NamedTensor& given) {
    const ArgumentDoc* input = find_input(op_, given.name);
    if (input == nullptr && has_keyword(op_, given.name))
      throw InvalidArgument("{}: attribute {} is given a tensor", op_.name, given.name);
    if (input == nullptr) fail_keyword(op_, given.name);
    if (!given.tensor.defined()) return;
    auto& place = places_[static_cast<std::size_t>(input - op_.docs.inputs.data())];
    if (!place.empty() && input->presence != Presence::repeated)
      throw InvalidArgument("{}: input {} is given twice", op_.name, given.name);
    place.push_back(given.tensor);
  }

  std::vector<Tensor> tensors() const {
    std::vector<Tensor> all;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const ArgumentDoc& input = op_.docs.inputs[i];
      if (places_[i].empty() && input.presence != Presence::optional)
        throw InvalidArgument("{}: input {} is missing", op_.name, input.name);
      all.insert(all.end(), places_[i].begin(), places_[i].end());
    }
    return all;
  }

 private:
  static bool is_required(const ArgumentDoc& input) { return input.presence == Presence::required; }

  const OpDef& op_;
  std::vector<std::vector<Tensor>> places_;
};

}  // namespace

std::vector<Tensor> call_op(const OpDef& op, const OpArguments& arguments) {
  InputPlaces places(op);
  if (arguments.inputs.empty() && places.are_all_that_is_required(arguments.positional))
    places.add_required(arguments.positional);
  else
    places.add_positional(arguments.positional);
  for (const NamedTensor& given : arguments.inputs) places.add_named(given);
  check_attr_names(op, arguments.attrs);
  const Attrs attrs = make_attrs(op, arguments.attrs);
  return apply_promoted(op, places.tensors(), attrs);
}

}  // namespace lockstep
