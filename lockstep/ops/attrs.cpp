// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/attrs.h"

#include <functional>

#include "lockstep/ops/messages.h"
#include "lockstep/ops/op.h"

namespace lockstep {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
// clang 14 does not find this guide by itself.
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

[[noreturn]] void fail_type(std::string_view op, const AttrField& field, const char* expected) {
  throw InvalidArgument("{}: attribute {} must be {}, got {}", op, field.name, expected,
                        to_string(field.value));
}

std::size_t combine(std::size_t seed, std::size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2));
}

std::string join(const Ints& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

}  // namespace

std::vector<AttrField> Attrs::fields() const {
  return held_ ? held_->fields() : std::vector<AttrField>{};
}

bool Attrs::operator==(const Attrs& other) const {
  if (held_ == other.held_) return true;
  if (!held_ || !other.held_) return false;
  return held_->type() == other.held_->type() && held_->fields() == other.held_->fields();
}

std::size_t Attrs::hash() const {
  std::size_t seed = 0;
  for (const AttrField& field : fields())
    seed = combine(seed, std::hash<std::string>{}(to_string(field.value)));
  return seed;
}

std::string Attrs::str() const {
  std::string text;
  for (const AttrField& field : fields())
    text += (text.empty() ? "" : ", ") + field.name + "=" + to_string(field.value);
  return text;
}

std::string to_string(const AttrValue& value) {
  return std::visit(
      Overloaded{[](bool v) { return std::string(v ? "true" : "false"); },
                 [](std::int64_t v) { return std::to_string(v); },
                 [](double v) { return fmt::format("{}", v); },
                 [](const std::string& v) { return "'" + v + "'"; },
                 [](const Ints& v) { return join(v); },
                 [](DType v) { return std::string(name_of(v)); },
                 [](const Device& v) { return v.is_host() ? std::to_string(v.index) : v.str(); }},
      value);
}

std::string_view type_name(const AttrValue& value) {
  constexpr std::string_view kNames[] = {"bool", "int",   "float", "string",
                                         "ints", "dtype", "device"};
  static_assert(std::size(kNames) == std::variant_size_v<AttrValue>);
  return kNames[value.index()];
}

Attrs make_attrs(const OpDef& op, std::span<const AttrField> fields) {
  if (op.schema.make != nullptr) return op.schema.make(op.name, fields);
  if (!fields.empty()) fail_unknown_field(op.name, fields[0].name, {});
  return {};
}

AttrValue attr_field(const Attrs& attrs, std::string_view name) {
  for (AttrField& field : attrs.fields())
    if (field.name == name) return std::move(field.value);
  check(false, "no such attribute");
  return {};
}

Attrs with_attr(const OpDef& op, const Attrs& attrs, std::string_view name, AttrValue value) {
  std::vector<AttrField> fields = attrs.empty() ? op.schema.defaults() : attrs.fields();
  for (AttrField& field : fields)
    if (field.name == name) field.value = std::move(value);
  return op.schema.make(op.name, fields);
}

void convert_field(std::string_view op, const AttrField& field, bool& target) {
  if (const auto* b = std::get_if<bool>(&field.value))
    target = *b;
  else
    fail_type(op, field, "true or false");
}

void convert_field(std::string_view op, const AttrField& field, int& target) {
  std::int64_t wide = 0;
  convert_field(op, field, wide);
  target = static_cast<int>(wide);
  if (target != wide) fail_type(op, field, "a 32-bit integer");
}

void convert_field(std::string_view op, const AttrField& field, std::int64_t& target) {
  if (const auto* i = std::get_if<std::int64_t>(&field.value))
    target = *i;
  else
    fail_type(op, field, "an integer");
}

void convert_field(std::string_view op, const AttrField& field, double& target) {
  if (const auto* d = std::get_if<double>(&field.value))
    target = *d;
  else if (const auto* i = std::get_if<std::int64_t>(&field.value))
    target = static_cast<double>(*i);
  else
    fail_type(op, field, "a number");
}

void convert_field(std::string_view op, const AttrField& field, std::string& target) {
  if (const auto* s = std::get_if<std::string>(&field.value))
    target = *s;
  else
    fail_type(op, field, "a string");
}

void convert_field(std::string_view op, const AttrField& field, Ints& target) {
  if (const auto* list = std::get_if<Ints>(&field.value))
    target = *list;
  else if (const auto* i = std::get_if<std::int64_t>(&field.value))
    target = {*i};
  else
    fail_type(op, field, "a list of integers");
}

void convert_field(std::string_view op, const AttrField& field, DType& target) {
  if (const auto* d = std::get_if<DType>(&field.value))
    target = *d;
  else if (const auto* s = std::get_if<std::string>(&field.value))
    target = detail::named(op, [&] { return dtype_from_name(*s); });
  else
    fail_type(op, field, "a dtype");
}

void convert_field(std::string_view op, const AttrField& field, Device& target) {
  if (const auto* device = std::get_if<Device>(&field.value)) {
    target = *device;
    return;
  }
  int index = 0;
  convert_field(op, field, index);
  target = {DeviceKind::cpu, index};
}

void fail_unknown_field(std::string_view op, std::string_view field,
                        const std::vector<std::string>& known) {
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  throw InvalidArgument("{}: unknown attribute '{}' (it has: {})", op, field,
                        names.empty() ? "none" : names);
}

}  // namespace lockstep
