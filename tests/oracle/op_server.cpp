// SPDX-License-Identifier: Apache-2.0
//
// Runs ops and small programs for a test in another language. Requests on standard input and
// answers on standard output are frames: the length of a JSON text (uint32, little-endian), the
// text, and the elements of the tensors that it describes, float64 where they are floating and
// int64 elsewhere.
//   {"command": "list"}                   every op's name and default attributes, and the ways
//   {"command": "seen"}                   {"ops": [...]}: which have run
//   {"command": "infer", "case": ...}     {"nodes": [[{"dtype", "shape"}, ...], ...]}
//   {"command": "run", "case": ..., "ways": [...]} and the inputs' elements: for each way
//       {"begin": name}, then {"way": name, "tensors": [null | {"dtype", "shape"}, ...]} with
//       elements or {"error": ...}; then {"done": true}
//   {"command": "conv" | "pool", "seed": n}  a random geometry
// A case is described in case.h.
#include <cstring>
#include <iostream>
#include <string>

#include "lockstep/graph/trace.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/instruction_set.h"
#include "lockstep/tensor/storage.h"
#include "tests/ops/random_geometry.h"
#include "tests/oracle/ways.h"

namespace lockstep::testing {
namespace {

using nlohmann::json;

void write_frame(const json& text, const std::string& elements = {}) {
  const std::string bytes = text.dump();
  const auto length = static_cast<std::uint32_t>(bytes.size());
  std::cout.write(reinterpret_cast<const char*>(&length), sizeof length);
  std::cout << bytes << elements << std::flush;
}

bool read_frame(json& text) {
  std::uint32_t length = 0;
  if (!std::cin.read(reinterpret_cast<char*>(&length), sizeof length)) return false;
  std::string bytes(length, '\0');
  std::cin.read(bytes.data(), length);
  text = json::parse(bytes);
  return true;
}

template <class T>
Tensor read_elements(const TensorInfo& info) {
  std::vector<T> elements(static_cast<std::size_t>(info.shape.numel()));
  std::cin.read(reinterpret_cast<char*>(elements.data()),
                static_cast<std::streamsize>(elements.size() * sizeof(T)));
  const Tensor exact = Tensor::from(elements, info.shape);
  const Tensor result = Tensor::empty(info.shape, info.dtype);
  result.assign(exact);
  return result;
}

Tensor read_tensor(const TensorInfo& info) {
  return is_floating(info.dtype) ? read_elements<double>(info) : read_elements<std::int64_t>(info);
}

template <class T>
void append_elements(std::string& bytes, const std::vector<T>& elements) {
  bytes.append(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T));
}

json describe(const TensorInfo& info) {
  return {{"dtype", name_of(info.dtype)}, {"shape", info.shape.vector()}};
}

void write_tensors(std::string_view way, const Tensors& tensors) {
  json list = json::array();
  std::string elements;
  for (const Tensor& tensor : tensors) {
    list.push_back(tensor.defined() ? describe(tensor.info()) : json());
    if (!tensor.defined()) continue;
    if (is_floating(tensor.dtype()))
      append_elements(elements, tensor.to_vector<double>());
    else
      append_elements(elements, tensor.to_vector<std::int64_t>());
  }
  write_frame({{"way", way}, {"tensors", list}}, elements);
}

void run_way(const Way& way, const Case& c, const Tensors& inputs) {
  write_frame({{"begin", way.name}});
  try {
    write_tensors(way.name, way.run(c, inputs));
  } catch (const std::exception& error) {
    write_frame({{"way", way.name}, {"error", error.what()}});
  }
}

void run(const json& request) {
  const Case c(request.at("case"));
  Tensors inputs;
  for (const TensorInfo& info : c.infos) inputs.push_back(read_tensor(info));
  const auto names = request.at("ways").get<std::vector<std::string>>();
  for (const Way& way : all_ways())
    if (std::find(names.begin(), names.end(), way.name) != names.end()) run_way(way, c, inputs);
  write_frame({{"done", true}});
}

json list() {
  json ops = json::object();
  for (const OpDef* op : all_ops()) {
    json defaults = json::object();
    if (op->schema.defaults != nullptr)
      for (const AttrField& field : op->schema.defaults())
        defaults[field.name] = to_string(field.value);
    ops[std::string(op->name)] = defaults;
  }
  json ways = json::array();
  for (const Way& way : all_ways()) ways.push_back(way.name);
  return {{"ops", ops}, {"ways", ways}};
}

json infer(const Case& c) {
  json nodes = json::array();
  trace(
      [&](const Tensors& inputs) {
        for (const Tensors& results : c.results(inputs)) {
          nodes.push_back(json::array());
          for (const Tensor& result : results) nodes.back().push_back(describe(result.info()));
        }
        return inputs;
      },
      c.infos);
  return {{"nodes", nodes}};
}

json window(const SpatialList& kernel, const SpatialList& stride, const SpatialList& padding) {
  return {{"kernel", kernel}, {"stride", stride}, {"padding", padding}};
}

json draw_conv(std::uint64_t seed) {
  Dice dice(seed);
  const ConvGeometry g = random_conv(dice, 1000000);
  json text = window(g.kernel, g.stride, g.padding);
  text.update({{"batch", g.batch},
               {"groups", g.groups},
               {"input", g.input},
               {"in_channels", g.in_channels},
               {"out_channels", g.out_channels},
               {"dilation", g.dilation}});
  return text;
}

json draw_pool(std::uint64_t seed) {
  Dice dice(seed);
  const PoolGeometry g = random_pool(dice);
  json text = window(g.kernel, g.stride, g.padding);
  text.update({{"batch", g.batch},
               {"channels", g.channels},
               {"input", g.input},
               {"dilation", g.dilation},
               {"ceil_mode", g.ceil_mode},
               {"count_include_pad", g.count_include_pad}});
  return text;
}

json answer(const json& request) {
  const std::string command = request.at("command");
  if (command == "list") return list();
  if (command == "seen") return {{"ops", seen_ops()}};
  if (command == "infer") return infer(Case(request.at("case")));
  if (command == "conv") return draw_conv(request.at("seed"));
  if (command == "pool") return draw_pool(request.at("seed"));
  throw InvalidArgument("op_server: there is no command '{}'", command);
}

void serve(const json& request) {
  if (request.at("command") == "run") return run(request);
  try {
    write_frame(answer(request));
  } catch (const std::exception& error) {
    write_frame({{"error", error.what()}});
  }
}

}  // namespace
}  // namespace lockstep::testing

int main() {
  lockstep::keep_blocks_whole();  // guarded_memory.cpp watches their ends
  std::ios::sync_with_stdio(false);
  lockstep::limit_instruction_set(lockstep::best_instruction_set());  // LOCKSTEP_ISA
  for (nlohmann::json request; lockstep::testing::read_frame(request);)
    lockstep::testing::serve(request);
}
