// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/run_state.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep::train::detail {
namespace {

using nlohmann::json;

json describe(const std::vector<io::NamedTensor>& tensors) {
  json list = json::array();
  for (const auto& [name, tensor] : tensors)
    list.push_back({name, name_of(tensor.dtype()), tensor.shape().vector()});
  return list;
}

void append(std::string& bytes, const std::vector<io::NamedTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    const Tensor dense = tensor.to(cpu()).contiguous();
    bytes.append(reinterpret_cast<const char*>(dense.raw()), dense.info().bytes());
  }
}

// From the bytes at `place`, which moves on.
std::vector<io::NamedTensor> read(const json& list, const std::string& bytes, std::size_t& place) {
  std::vector<io::NamedTensor> tensors;
  for (const json& one : list) {
    const Tensor tensor = Tensor::empty(Shape(one.at(2).get<std::vector<std::int64_t>>()),
                                        dtype_from_name(one.at(1).get<std::string>()));
    const std::size_t size = tensor.info().bytes();
    if (bytes.size() - place < size) throw Corrupt("state: it ends within {}", one.at(0).dump());
    std::memcpy(tensor.raw(), bytes.data() + place, size);
    place += size;
    tensors.emplace_back(one.at(0).get<std::string>(), tensor);
  }
  return tensors;
}

}  // namespace

std::string to_bytes(const RunState& state) {
  const std::string head = json{
      {"step", state.step},
      {"training", state.training},
      {"run", state.run},
      {"history", state.history},
      {"parameters", describe(state.parameters)},
      {"slots",
       describe(state.slots)}}.dump();
  std::string bytes = std::to_string(head.size()) + "\n" + head;
  append(bytes, state.parameters);
  append(bytes, state.slots);
  return bytes;
}

RunState run_state_from(const std::string& bytes) {
  try {
    const std::size_t line = bytes.find('\n');
    if (line == std::string::npos) throw Corrupt("state: it has no beginning");
    const std::size_t length = std::stoull(bytes.substr(0, line));
    const json head = json::parse(bytes.substr(line + 1, length));
    std::size_t place = line + 1 + length;
    RunState state;
    state.step = head.at("step");
    state.training = head.at("training");
    state.run = head.at("run");
    state.history = head.at("history");
    state.parameters = read(head.at("parameters"), bytes, place);
    state.slots = read(head.at("slots"), bytes, place);
    if (place != bytes.size()) throw Corrupt("state: {} bytes too many", bytes.size() - place);
    return state;
  } catch (const json::exception& error) {
    throw Corrupt("state: {}", error.what());
  } catch (const std::logic_error& error) {
    throw Corrupt("state: {}", error.what());
  }
}

}  // namespace lockstep::train::detail
