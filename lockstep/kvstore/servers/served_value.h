// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/messages/payload.h"
#include "lockstep/kvstore/flat_layout.h"
#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/store_update.h"

namespace lockstep::kvstore {

// Floats as they came: a part of a message.
struct SentFloats {
  comm::Payload payload;
  std::size_t part = 1;
};

// Some rows of a value, as they came.
struct SentRows {
  std::vector<std::uint64_t> ids;
  SentFloats floats;
};

// A rule, and what it multiplies gradients by. Without a rule a push replaces the value.
struct PushRule {
  optim::OptimizerPtr rule = nullptr;
  double rescale = 1.0;
};

// Rows of a key's value that a server has, and what the rule keeps for them. Whoever reads it may
// do so later: a push leaves what is being read as it is.
class ServedValue {
 public:
  // Takes part 1.
  ServedValue(std::size_t rows, std::size_t width, const comm::Payload& payload);
  ServedValue(std::size_t rows, std::size_t width, FloatParts& floats);

  std::size_t rows() const { return rows_; }
  std::size_t width() const { return width_; }
  std::size_t floats() const { return rows_ * width_; }
  bool is(const comm::Payload& payload) const;
  std::span<const float> data() const { return {data_->data(), floats()}; }

  // Adds them up in the canonical tree's order, and applies the sum.
  void apply(const std::vector<SentFloats>& values, const PushRule& rule);
  // The same part by part: floats from `offset` on, each part once, and then all of them.
  void add_part(std::size_t offset, std::size_t count, const std::vector<SentFloats>& values);
  void apply_parts(const PushRule& rule);
  // What was added so far.
  std::span<float> parts();
  void apply_sum(std::span<const float> sum, const PushRule& rule);
  // The sum of each row that somebody has; those that nobody has become zero, or with a rule stay
  // as they are.
  void apply_rows(const std::vector<SentRows>& pushes, const PushRule& rule);

  // As further parts.
  void add_to(comm::Payload& payload, std::size_t offset, std::size_t count) const;
  void add_rows_to(comm::Payload& payload, const std::vector<std::uint64_t>& ids) const;

  StoreUpdate& update() { return update_; }
  const StoreUpdate& update() const { return update_; }
  void forget_update() { update_ = {}; }

 private:
  // Where it may be written: nobody reads it. With `keep` it has the values that were there.
  std::span<float> own(bool keep);

  std::size_t rows_, width_;
  std::shared_ptr<FlatBuffer> data_;
  std::shared_ptr<FlatBuffer> parts_;  // of a value that has come so
  StoreUpdate update_;
};

}  // namespace lockstep::kvstore
