// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/membership.h"

namespace lockstep::comm {
class Communicator;
class Meter;
}  // namespace lockstep::comm

namespace lockstep::kvstore {

// What a worker says of a step before it counts.
struct Vote {
  bool finite = true;  // every worker's: so is the step
  bool stop = false;   // some worker's: all stop after it
  bool pause = false;  // some worker's: all come out of their generation after it
  // A number that stands for the shape of the worker's batches; where they differ, the step counts
  // for nothing.
  std::uint64_t shape = 0;
  static constexpr std::uint64_t kShapesDiffer = ~std::uint64_t{0};
  bool counts() const { return finite && shape != kShapesDiffer; }
  bool operator==(const Vote&) const = default;
};
Vote combine(const Vote& a, const Vote& b);

// The workers' small talk. Every worker makes the same calls in the same order, from one thread at
// a time. Errors are comm's: they name the worker that is missed. A process alone is a group of
// one.
class Group {
 public:
  virtual ~Group() = default;
  virtual const Membership& membership() const = 0;
  virtual int rank() const = 0;  // among the workers
  int workers() const { return membership().count(Role::worker); }
  bool is_first() const { return rank() == 0; }
  // This worker's part of so many.
  ShardRange range(std::int64_t parts) const {
    return membership().deal(parts)[static_cast<std::size_t>(rank())];
  }

  // Parts are dealt by these weights from now on. Every worker calls it alike, between steps;
  // whatever was made for a range is to be made again. Throws Unsupported where nobody else is.
  virtual void redeal(std::vector<std::int64_t> weights);

  // Each worker's bytes, in the order of ranks.
  virtual std::vector<std::string> share(const std::string& own) = 0;
  // That rank's bytes; those of the others count for nothing.
  virtual std::string from(int rank, const std::string& own) = 0;
  std::string from_first(const std::string& own) { return from(0, own); }
  // A row of floats for each of `parts`, all of one length: this worker's are in place, those of
  // the others are filled in. Votes go with them.
  virtual Vote gather(const Vote& own, std::int64_t parts, std::span<float> rows) = 0;
  // Everybody's floats, as many of each, one worker's after the other: at rank 0, nothing
  // elsewhere.
  virtual std::vector<float> collect(std::span<const float> own) = 0;
  // What communication costs this worker; null where nothing is measured.
  virtual const comm::Meter* meter() const { return nullptr; }
};

std::unique_ptr<Group> group_of_one();
// The workers of a membership, whose communicator this is; it outlives the group. Throws
// InvalidArgument when they are not as many as its ranks.
std::unique_ptr<Group> group_of(comm::Communicator& communicator, const Membership& membership,
                                std::chrono::milliseconds timeout);

// Rank 0 does something for all, such as reading a file that the others cannot see: its result is
// everybody's, and so is its error, which the others get as Aborted. It may take longer than the
// group's deadline, as work_together's work.
std::string first_does(Group& group, const std::function<std::string()>& work);

}  // namespace lockstep::kvstore
