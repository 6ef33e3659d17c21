// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "lockstep/kvstore/staged_mode.h"

namespace lockstep::kvstore {

// The workers that have one part of the net, a stage or some slices, who ask those of the other
// parts before a step counts.
class PartGroup : public PartialGroup {
 public:
  // Those of the same part, and those who have one replica's parts between them. Both outlive it.
  PartGroup(comm::Communicator& same_part, comm::Communicator& all_parts,
            std::chrono::milliseconds timeout);

  const Membership& membership() const override { return same_part_->membership(); }
  int rank() const override { return same_part_->rank(); }
  std::vector<std::string> share(const std::string& own) override { return same_part_->share(own); }
  std::string from(int rank, const std::string& own) override {
    return same_part_->from(rank, own);
  }
  std::vector<float> collect(std::span<const float> own) override {
    return same_part_->collect(own);
  }
  const comm::Meter* meter() const override { return same_part_->meter(); }
  // What a part does not make is zeros in its rows, and what several make is the same: bit by bit,
  // each number is somebody's.
  Vote gather(const Vote& own, std::int64_t parts, std::span<float> rows) override;

 protected:
  // Each part's numbers, in order.
  template <class T>
  std::vector<std::vector<T>> of_all_parts(std::span<const T> own) {
    std::vector<std::vector<T>> all;
    for (const std::string& bytes :
         texts_of_all_parts({reinterpret_cast<const char*>(own.data()), own.size_bytes()})) {
      const auto* first = reinterpret_cast<const T*>(bytes.data());
      all.emplace_back(first, first + bytes.size() / sizeof(T));
    }
    return all;
  }

 private:
  std::vector<std::string> texts_of_all_parts(const std::string& own);

  comm::Communicator& all_parts_;
  std::unique_ptr<Group> same_part_;
  comm::CallOptions options_;
  std::vector<std::byte> sent_, received_;
};

}  // namespace lockstep::kvstore
