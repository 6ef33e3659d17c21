// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/group.h"

namespace lockstep::testing {

// One of several workers, of whom the others are not there: they say what `share` is told.
class FakeGroup : public kvstore::Group {
 public:
  FakeGroup(int rank, int workers) : rank_(rank) {
    for (int id = 0; id < workers; ++id) membership_.members.push_back({.id = id});
  }
  const Membership& membership() const override { return membership_; }
  int rank() const override { return rank_; }
  std::vector<std::string> share(const std::string& own) override { return {own}; }
  std::string from(int /*rank*/, const std::string& own) override { return own; }
  kvstore::Vote gather(const kvstore::Vote& own, std::int64_t, std::span<float>) override {
    return own;
  }
  std::vector<float> collect(std::span<const float>) override { return {}; }

 private:
  int rank_;
  Membership membership_;
};

}  // namespace lockstep::testing
