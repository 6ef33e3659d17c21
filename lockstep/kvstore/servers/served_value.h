// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
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

// Floats in the memory of an answer that has them: nobody writes there any more. Whoever counts how
// many there are hears when they are not kept any longer.
struct AnsweredFloats {
  comm::MessageBuffer buffer;
  std::shared_ptr<const void> counted = {};
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
  bool is(const comm::Payload& payload);
  std::span<const float> data();

  // Adds them up in the canonical tree's order, and applies the sum.
  void apply(const std::vector<SentFloats>& values, const PushRule& rule);
  // The same part by part: floats from `offset` on, each part once, and then all of them.
  void add_part(std::size_t offset, std::size_t count, const std::vector<SentFloats>& values);
  void apply_parts(const PushRule& rule);
  // What was added so far.
  std::span<float> parts();
  // As add_part, without a rule: the sum is made in the memory of an answer, and stays there until
  // it is wanted elsewhere.
  void add_part_in(const AnsweredFloats& answer, std::size_t offset,
                   const std::vector<SentFloats>& values);
  bool has_parts_in_answers() const { return !new_answered_.empty(); }
  void drop_parts() { new_answered_.clear(); }
  // Takes what lies in answers to memory of its own.
  void settle();
  void apply_sum(std::span<const float> sum, const PushRule& rule);
  // The sum of each row that somebody has; those that nobody has become zero, or with a rule stay
  // as they are.
  void apply_rows(const std::vector<SentRows>& pushes, const PushRule& rule);

  // As further parts.
  void add_to(comm::Payload& payload, std::size_t offset, std::size_t count);
  void add_rows_to(comm::Payload& payload, const std::vector<std::uint64_t>& ids);

  StoreUpdate& update() { return update_; }
  const StoreUpdate& update() const { return update_; }
  void forget_update() { update_ = {}; }

 private:
  // Where it may be written: nobody reads it. With `keep` it has the values that were there.
  std::span<float> own(bool keep);
  using Answered = std::map<std::size_t, AnsweredFloats>;  // by offset
  void copy_out(Answered& from, FlatBuffer& to) const;

  std::size_t rows_, width_;
  std::shared_ptr<FlatBuffer> data_;   // null where all of it lies in answers
  std::shared_ptr<FlatBuffer> parts_;  // of a value that has come so
  Answered answered_, new_answered_;   // in place of data's, and of parts'
  StoreUpdate update_;
};

}  // namespace lockstep::kvstore
