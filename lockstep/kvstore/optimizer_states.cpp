// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/optimizer_states.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/io/archive.h"

namespace lockstep::kvstore {
namespace {

using nlohmann::json;

std::string slot_name(std::size_t slot, const std::string& key) {
  return fmt::format("slot{}/{}", slot, key);
}

bool is_header(const json& header) {
  return header.is_object() && header.contains("rule") && header["rule"].is_string() &&
         header.contains("keys") && header["keys"].is_object();
}

}  // namespace

void OptimizerStates::save(const std::string& path) const {
  json steps = json::object();
  io::Archive archive;
  for (const auto& [key, state] : keys) {
    steps[key] = {{"steps", state.steps}, {"slots", state.slots.size()}};
    for (std::size_t k = 0; k < state.slots.size(); ++k) {
      const Tensor tensor = Tensor::empty({static_cast<std::int64_t>(state.slots[k].size())});
      std::copy(state.slots[k].begin(), state.slots[k].end(), tensor.data<float>());
      archive.tensors.emplace_back(slot_name(k, key), tensor);
    }
  }
  archive.metadata = json{{"rule", rule}, {"keys", steps}}.dump();
  io::write_archive(path, archive);
}

OptimizerStates OptimizerStates::load(const std::string& path, std::string_view rule) {
  const io::Archive archive = io::read_archive(path);
  const json header = json::parse(archive.metadata, nullptr, false);
  if (!is_header(header))
    throw Corrupt("{}: no rule and keys, expected what save_optimizer_states wrote", path);
  OptimizerStates states{header["rule"].get<std::string>()};
  if (states.rule != rule)
    throw InvalidArgument("{}: states of the rule {}, expected {}", path, states.rule, rule);
  std::map<std::string, Tensor> tensors(archive.tensors.begin(), archive.tensors.end());
  for (const auto& [key, of_key] : header["keys"].items()) {
    if (!of_key.is_object() || !of_key.contains("steps") || !of_key["steps"].is_number_unsigned() ||
        !of_key.contains("slots") || !of_key["slots"].is_number_unsigned())
      throw Corrupt("{}: key {} has no steps and slots", path, key);
    OfKey& state = states.keys[key];
    state.steps = of_key["steps"].get<std::int64_t>();
    for (std::size_t k = 0; k < of_key["slots"].get<std::size_t>(); ++k) {
      const auto found = tensors.find(slot_name(k, key));
      if (found == tensors.end() || found->second.dtype() != DType::float32)
        throw Corrupt("{}: no floats '{}'", path, slot_name(k, key));
      const Tensor dense = found->second.contiguous();
      state.slots.emplace_back(dense.data<float>(), dense.data<float>() + dense.numel());
    }
  }
  return states;
}

}  // namespace lockstep::kvstore
