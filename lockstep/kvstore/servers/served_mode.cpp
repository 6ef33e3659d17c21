// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/kvstore/servers/served_job.h"
#include "lockstep/kvstore/servers/served_synchronizer.h"

namespace lockstep::kvstore {
namespace {

// What a mode with these options is, whoever its workers are.
class ModeOfServers : public Mode {
 public:
  explicit ModeOfServers(const ServedOptions& options) : options_(options) {
    if (const auto codec = make_codec(options.compression)) {
      keeps_residuals_ = codec->keeps_residual();
      largest_ = codec->largest();
    }
  }

  bool is_invariant() const override { return options_.compression.is_none(); }
  std::string description() const override {
    return is_invariant() ? "canonical" : to_string(options_.compression);
  }
  SlotPlace slot_place() const override { return SlotPlace::elsewhere; }
  bool keeps_residuals() const override { return keeps_residuals_; }
  double largest_sent() const override { return largest_; }

 protected:
  const Compression& compression() const { return options_.compression; }

 private:
  ServedOptions options_;
  bool keeps_residuals_ = false;
  double largest_ = Mode::largest_sent();
};

class ServedMode final : public ModeOfServers {
 public:
  ServedMode(const ServedJob& job, comm::Communicator* communicator, const Membership& membership,
             const ServedOptions& options)
      : ModeOfServers(options),
        group_(communicator == nullptr ? group_of_one()
                                       : group_of(*communicator, membership, job.timeout)),
        servers_(job, group_->rank()),
        generation_(membership.generation) {}

  Group& group() override { return *group_; }
  std::unique_ptr<Synchronizer> synchronize(FlatState& state, std::int64_t shards) override {
    return std::make_unique<ServedSynchronizer>(
        servers_, *group_, ServedSynchronizer::TableOf{table_of(state), generation_}, compression(),
        state, shards);
  }

 private:
  // Workers make the same calls in the same order: a state has the same number with all of them.
  std::string table_of(const FlatState& state) {
    const auto found = std::find(states_.begin(), states_.end(), state.id());
    const auto number = found - states_.begin();
    if (found == states_.end()) states_.push_back(state.id());
    return fmt::format("weights/{}", number);
  }

  std::unique_ptr<Group> group_;
  ServerConnections servers_;
  std::int64_t generation_;
  std::vector<std::uint64_t> states_;  // their ids
};

class LatecomersMode final : public ModeOfServers {
 public:
  using ModeOfServers::ModeOfServers;
  Group& group() override { return alone_->group(); }
  std::unique_ptr<Synchronizer> synchronize(FlatState& state, std::int64_t shards) override {
    return alone_->synchronize(state, shards);
  }

 private:
  std::unique_ptr<Mode> alone_ = local_mode();
};

}  // namespace

std::unique_ptr<Mode> ps_mode(const ServedJob& job, comm::Communicator* communicator,
                              const Membership& membership, const ServedOptions& options) {
  return std::make_unique<ServedMode>(job, communicator, membership, options);
}

std::unique_ptr<Mode> latecomers_mode(const ServedOptions& options) {
  return std::make_unique<LatecomersMode>(options);
}

}  // namespace lockstep::kvstore
