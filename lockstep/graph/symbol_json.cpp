// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "lockstep/base/hex.h"
#include "lockstep/graph/symbol.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/tensor/sizes.h"

// {"format": "lockstep-graph", "version": 2, "nodes": [...], "outputs": [[node, output], ...]}
// A node is {"op", "name", "attrs", "inputs": [[node, output], ...]}; op "variable" may have
// "dtype", "shape" and "device" (cpu's number, where it is not 0); op "constant" has them and
// "data", its little-endian bytes in hexadecimal. "arguments": [node, ...], where there is one,
// says which variables are the graph's inputs, used or not, and in which order.
namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
using Node = Symbol::Node;
using Entry = Symbol::Entry;
using NodePtr = std::shared_ptr<const Node>;

constexpr const char* kFormat = "lockstep-graph";
constexpr int kVersion = 2;
// Version 1 is the same, but for the heads of attention's results: they stood before the rows.
constexpr int kOldest = 1;
constexpr const char* kChangedSince1[] = {"attention", "attention_backward"};
// Ours has five levels. Deeper ones are refused while reading: copying and printing them recurses.
constexpr int kDeepest = 16;

// JSON has no infinities.
Json number_to_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

struct ValueToJson {
  Json operator()(double v) const { return number_to_json(v); }
  Json operator()(DType v) const { return std::string(name_of(v)); }
  Json operator()(const Device& v) const {
    if (v.is_host()) return v.index;
    throw InvalidArgument(
        "symbol: {} has no name outside this process, so the graph cannot be saved", v.str());
  }
  template <class T>
  Json operator()(const T& v) const {
    return v;
  }
};

std::string hex_of(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  return to_hex({dense.raw(), dense.info().bytes()});
}

void info_to_json(Json& json, const TensorInfo& info) {
  json["dtype"] = std::string(name_of(info.dtype));
  json["shape"] = info.shape.vector();
  if (info.device != Device()) json["device"] = ValueToJson{}(info.device);
}

Json entries_to_json(const std::vector<Entry>& entries,
                     const std::unordered_map<const Node*, std::size_t>& ids) {
  Json list = Json::array();
  for (const Entry& entry : entries)
    list.push_back(Json::array({ids.at(entry.node.get()), entry.output}));
  return list;
}

Json node_to_json(const Node& node, const std::unordered_map<const Node*, std::size_t>& ids) {
  Json json;
  json["op"] = node.op ? std::string(node.op->name) : node.is_variable() ? "variable" : "constant";
  json["name"] = node.name;
  if (node.info) info_to_json(json, *node.info);
  if (node.constant.defined()) json["data"] = hex_of(node.constant);
  if (node.op == nullptr) return json;
  for (const AttrField& field : node.attrs.fields())
    json["attrs"][field.name] = std::visit(ValueToJson{}, field.value);
  json["inputs"] = entries_to_json(node.inputs, ids);
  return json;
}

// Reads one document. Everything that is wrong is Corrupt, with the source and the node in front.
class Reader {
 public:
  Reader(const std::string& text, const std::string& source) : source_(source) {
    bool too_deep = false;
    const auto keep = [&](int depth, Json::parse_event_t, Json&) {
      too_deep = too_deep || depth > kDeepest;
      return !too_deep;
    };
    root_ = Json::parse(text, keep, false);
    if (too_deep) fail(fmt::format("is nested more than {} deep", kDeepest));
    if (root_.is_discarded()) fail("is not JSON, or ends early");
  }

  Symbol read() {
    if (!root_.is_object() || root_.value("format", Json()) != kFormat)
      fail(fmt::format("is not a {} file", kFormat));
    const Json version = root_.value("version", Json());
    if (version != kVersion && version != kOldest)
      fail(fmt::format("has version {}, this build reads {} and {}", version.dump(), kOldest,
                       kVersion));
    is_old_ = version == kOldest;
    for (const Json& json : array(root_, "nodes")) nodes_.push_back(read_node(json));
    where_ = "outputs";
    std::vector<Entry> outputs = read_entries(array(root_, "outputs"));
    if (outputs.empty()) fail("there are none");
    where_ = "arguments";
    return Symbol(std::move(outputs), read_arguments());
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Corrupt("{}: {}{}{}", source_, where_, where_.empty() ? "" : ": ", what);
  }

  const Json& array(const Json& json, const char* key) const {
    static const Json kEmpty = Json::array();
    const auto found = json.find(key);
    if (found == json.end()) return kEmpty;
    if (!found->is_array()) fail(fmt::format("'{}' is not a list", key));
    return *found;
  }

  std::string text(const Json& json, const char* key) const {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_string())
      fail(fmt::format("'{}' is missing or not a string", key));
    return found->get<std::string>();
  }

  NodePtr read_node(const Json& json) {
    where_ = fmt::format("node {}", nodes_.size());
    if (!json.is_object()) fail("is not an object");
    auto node = std::make_shared<Node>();
    node->name = text(json, "name");
    if (!node->name.empty()) where_ += " '" + node->name + "'";
    const std::string op = text(json, "op");
    if (is_old_ && std::count(std::begin(kChangedSince1), std::end(kChangedSince1), op) > 0)
      fail(
          fmt::format("op '{}' gives its heads in another order since version {}: make the graph "
                      "again",
                      op, kVersion));
    if (op == "variable" || op == "constant")
      read_leaf(json, op, *node);
    else
      read_op(json, op, *node);
    return node;
  }

  std::vector<Entry> read_arguments() const {
    std::vector<Entry> arguments;
    std::unordered_set<std::uint64_t> known;
    for (const Json& id : array(root_, "arguments")) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= nodes_.size() ||
          !nodes_[id.get<std::uint64_t>()]->is_variable())
        fail(fmt::format("has {}, expected a variable's number", id.dump()));
      if (!known.insert(id.get<std::uint64_t>()).second)
        fail(fmt::format("has {} twice", id.dump()));
      arguments.push_back({nodes_[id.get<std::uint64_t>()], 0});
    }
    return arguments;
  }

  void read_leaf(const Json& json, const std::string& op, Node& node) const {
    const bool constant = op == "constant";
    if (!constant && node.name.empty()) fail("a variable needs a name");
    if (constant || json.contains("dtype") || json.contains("shape"))
      node.info = read_info(json, op);
    if (constant) node.constant = read_data(json, *node.info);
  }

  TensorInfo read_info(const Json& json, const std::string& op) const {
    Ints shape;
    for (const Json& size : array(json, "shape")) {
      if (!size.is_number_integer() || size.get<std::int64_t>() < 0)
        fail(fmt::format("shape has the size {}", size.dump()));
      shape.push_back(size.get<std::int64_t>());
    }
    if (shape.size() > kMaxRank)
      fail(fmt::format("shape has {} axes, at most {} are supported", shape.size(), kMaxRank));
    try {
      const DType dtype = dtype_from_name(text(json, "dtype"));
      return {detail::checked_shape(op.c_str(), Shape(shape), item_size(dtype)), dtype,
              read_device(json)};
    } catch (const InvalidArgument& error) {
      fail(error.what());
    }
  }

  Device read_device(const Json& json) const {
    const Json index = json.value("device", Json(0u));
    if (!index.is_number_unsigned() || !std::in_range<int>(index.get<std::uint64_t>()))
      fail(fmt::format("device is {}, expected cpu's number", index.dump()));
    return cpu(index.get<int>());
  }

  Tensor read_data(const Json& json, const TensorInfo& info) const {
    const std::string hex = text(json, "data");
    const std::size_t expected = info.bytes();
    if (hex.size() % 2 != 0 || hex.size() / 2 != expected)
      fail(fmt::format("data has {} bytes, {} needs {}", hex.size() / 2, info.str(), expected));
    Tensor tensor = Tensor::empty(info.shape, info.dtype, info.device);
    for (std::size_t i = 0; i < expected; ++i)
      tensor.raw()[i] = static_cast<std::byte>(digit(hex[2 * i]) * 16 + digit(hex[2 * i + 1]));
    return tensor;
  }

  unsigned digit(char c) const {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
    fail(fmt::format("data has the character 0x{:02x}, expected hexadecimal digits",
                     static_cast<unsigned char>(c)));
  }

  void read_op(const Json& json, const std::string& op, Node& node) const {
    node.op = find_op(op);
    if (node.op == nullptr) fail(fmt::format("there is no op named '{}'", op));
    node.inputs = read_entries(array(json, "inputs"));
    const std::vector<AttrField> fields = read_attrs(json, *node.op);
    try {
      check_input_count(*node.op, node.inputs.size());
      node.attrs = make_attrs(*node.op, fields);
    } catch (const InvalidArgument& error) {
      fail(error.what());
    }
  }

  std::vector<AttrField> read_attrs(const Json& json, const OpDef& op) const {
    std::vector<AttrField> fields;
    const auto found = json.find("attrs");
    if (found == json.end() || found->is_null()) return fields;
    if (!found->is_object()) fail("'attrs' is not an object");
    const std::vector<AttrField> defaults =
        op.schema.defaults ? op.schema.defaults() : std::vector<AttrField>{};
    for (const auto& [name, value] : found->items())
      fields.push_back({name, read_value(name, value, defaults)});
    return fields;
  }

  AttrValue read_value(const std::string& name, const Json& value,
                       const std::vector<AttrField>& defaults) const {
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number_integer()) return integer(name, value);
    if (value.is_number()) return value.get<double>();
    if (value.is_string()) return read_text(name, value.get<std::string>(), defaults);
    if (!value.is_array()) fail(fmt::format("attribute '{}' is {}", name, value.type_name()));
    Ints list;
    for (const Json& item : value) {
      if (!item.is_number_integer())
        fail(fmt::format("attribute '{}' is a list with {} in it", name, item.type_name()));
      list.push_back(integer(name, item));
    }
    return list;
  }

  std::int64_t integer(const std::string& name, const Json& value) const {
    if (value.is_number_unsigned() && !std::in_range<std::int64_t>(value.get<std::uint64_t>()))
      fail(fmt::format("attribute '{}' is {}, more than int64 holds", name, value.dump()));
    return value.get<std::int64_t>();
  }

  static AttrValue read_text(const std::string& name, const std::string& value,
                             const std::vector<AttrField>& defaults) {
    for (const AttrField& field : defaults) {
      if (field.name != name || !std::holds_alternative<double>(field.value)) continue;
      if (value == "inf") return HUGE_VAL;
      if (value == "-inf") return -HUGE_VAL;
      if (value == "nan") return std::nan("");
    }
    return value;
  }

  std::vector<Entry> read_entries(const Json& list) const {
    std::vector<Entry> entries;
    for (const Json& pair : list) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned() ||
          !pair[1].is_number_unsigned())
        fail(fmt::format("reads {}, expected [node, output]", pair.dump()));
      const auto node = pair[0].get<std::uint64_t>();
      if (node >= nodes_.size())
        fail(
            fmt::format("reads node {}, which does not come before it: a cycle, a wrong order or "
                        "a node that is missing",
                        node));
      entries.push_back({nodes_[node], pair[1].get<std::size_t>()});
    }
    return entries;
  }

  std::string source_;
  std::string where_;
  bool is_old_ = false;
  Json root_;
  std::vector<NodePtr> nodes_;
};

}  // namespace

std::string Symbol::to_json() const {
  Json json;
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["nodes"] = Json::array();
  std::unordered_map<const Node*, std::size_t> ids;
  for (const NodePtr& node : nodes()) {
    json["nodes"].push_back(node_to_json(*node, ids));
    ids.emplace(node.get(), ids.size());
  }
  json["outputs"] = entries_to_json(entries_, ids);
  for (const Entry& argument : arguments_) json["arguments"].push_back(ids.at(argument.node.get()));
  return json.dump(1) + "\n";
}

Symbol Symbol::from_json(const std::string& text, const std::string& source) {
  return Reader(text, source).read();
}

}  // namespace lockstep
