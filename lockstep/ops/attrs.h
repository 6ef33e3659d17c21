// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "lockstep/tensor/device.h"
#include "lockstep/tensor/dtype.h"

namespace lockstep {

using Ints = std::vector<std::int64_t>;
using AttrValue = std::variant<bool, std::int64_t, double, std::string, Ints, DType, Device>;

struct AttrField {
  std::string name;
  AttrValue value;
  bool operator==(const AttrField&) const = default;
};

template <class V>
AttrValue attr_value(const V& field) {
  if constexpr (std::is_same_v<V, int>)
    return static_cast<std::int64_t>(field);
  else
    return field;
}

// What is written about a field: its default, and a line that says what it means.
struct AttrDoc {
  std::string_view name;
  std::string_view type;  // "bool", "int", "float", "string", "ints" or "dtype"
  AttrValue default_value;
  std::string_view text;
};

// An op's attributes: a plain struct T that lists its fields once, each with its documentation, in
//   template <class F> void visit(F&& f) { f("groups", groups, "groups of channels"); }
// Equality, hashing, printing, JSON, keywords and docs/ops.md all follow from that list.
class Attrs {
 public:
  Attrs() = default;

  template <class T>
  static Attrs of(T value) {
    return Attrs(std::make_shared<Holder<T>>(std::move(value)));
  }

  template <class T>
  const T& as() const {
    check(held_ != nullptr && held_->type() == &kType<T>, "attributes of another op");
    return static_cast<const Holder<T>&>(*held_).value;
  }

  bool empty() const { return held_ == nullptr; }
  std::vector<AttrField> fields() const;
  bool operator==(const Attrs& other) const;
  std::size_t hash() const;
  // "stride=[1, 1], groups=1"
  std::string str() const;

 private:
  template <class T>
  static constexpr char kType = 0;

  struct Base {
    virtual ~Base() = default;
    virtual const void* type() const = 0;
    virtual std::vector<AttrField> fields() const = 0;
  };

  template <class T>
  struct Holder final : Base {
    explicit Holder(T v) : value(std::move(v)) {}
    const void* type() const override { return &kType<T>; }
    std::vector<AttrField> fields() const override {
      std::vector<AttrField> list;
      T copy = value;
      copy.visit([&](const char* name, auto& field, const char*) {
        list.push_back({name, attr_value(field)});
      });
      return list;
    }
    T value;
  };

  explicit Attrs(std::shared_ptr<const Base> held) : held_(std::move(held)) {}

  std::shared_ptr<const Base> held_;
};

// Converts a field read from outside to the type its op declares: an integer serves as a double, a
// single integer as a list. Throws InvalidArgument that begins with `op` and names the field.
void convert_field(std::string_view op, const AttrField& field, bool& target);
void convert_field(std::string_view op, const AttrField& field, int& target);
void convert_field(std::string_view op, const AttrField& field, std::int64_t& target);
void convert_field(std::string_view op, const AttrField& field, double& target);
void convert_field(std::string_view op, const AttrField& field, std::string& target);
void convert_field(std::string_view op, const AttrField& field, Ints& target);
void convert_field(std::string_view op, const AttrField& field, DType& target);
// An integer is the index of a cpu. Other devices have no name outside their process.
void convert_field(std::string_view op, const AttrField& field, Device& target);
[[noreturn]] void fail_unknown_field(std::string_view op, std::string_view field,
                                     const std::vector<std::string>& known);

// "int", "dtype", ...: what documentation calls the type of a value.
std::string_view type_name(const AttrValue& value);

// How an op's attributes are made from outside (JSON, Python): defaults, then the given fields.
struct AttrSchema {
  Attrs (*make)(std::string_view op, std::span<const AttrField> fields) = nullptr;
  std::vector<AttrField> (*defaults)() = nullptr;
  std::vector<AttrDoc> (*docs)() = nullptr;
};

template <class T>
AttrSchema attr_schema() {
  AttrSchema schema;
  schema.make = [](std::string_view op, std::span<const AttrField> fields) {
    T value{};
    for (const AttrField& given : fields) {
      bool found = false;
      std::vector<std::string> known;
      value.visit([&](const char* name, auto& field, const char*) {
        known.emplace_back(name);
        if (given.name != name) return;
        convert_field(op, given, field);
        found = true;
      });
      if (!found) fail_unknown_field(op, given.name, known);
    }
    return Attrs::of(std::move(value));
  };
  schema.defaults = [] { return Attrs::of(T{}).fields(); };
  schema.docs = [] {
    std::vector<AttrDoc> list;
    T value{};
    value.visit([&](const char* name, auto& field, const char* text) {
      const AttrValue kept = attr_value(field);
      list.push_back({name, type_name(kept), kept, text});
    });
    return list;
  };
  return schema;
}

std::string to_string(const AttrValue& value);

}  // namespace lockstep
