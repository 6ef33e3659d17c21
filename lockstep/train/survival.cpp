// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/survival.h"

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

class JobSurvival final : public Survival {
 public:
  JobSurvival(cluster::Job& job, MakeMode make_mode, std::shared_ptr<kvstore::Mode> first)
      : job_(job), make_mode_(std::move(make_mode)) {
    if (first) modes_.push_back(std::move(first));
    if (!job.survives())
      throw InvalidArgument("survival: this job does not survive losses (JobOptions::survives)");
  }

  bool is_late() const override { return job_.is_late(); }
  void begin() override {
    if (!std::exchange(watches_, true)) job_.watch_members();
  }
  bool wants_change() const override { return job_.wants_change(); }

  kvstore::Mode* next(const cluster::Standing& standing) override {
    begin();
    if (!job_.regroup(standing)) {
      has_ended_ = true;
      return nullptr;
    }
    comm::Communicator* communicator = job_.size() > 1 ? &job_.communicator() : nullptr;
    modes_.push_back(make_mode_(communicator, job_.membership()));
    return modes_.back().get();
  }

  void leave() override { job_.depart(); }
  void wait_for_nobody() override { job_.wait_for_nobody(); }
  void conclude() override { job_.tell(); }
  bool is_run_done() const override { return job_.is_run_done(); }
  cluster::Alignment align(const cluster::Progress& own) override { return job_.align(own); }

  // Modes go before the communicators that they use.
  void settle() override {
    modes_.erase(modes_.begin(), modes_.end() - 1);
    job_.settle();
  }
  kvstore::Mode* mode() override { return modes_.empty() ? nullptr : modes_.back().get(); }
  bool has_ended() const override { return has_ended_; }
  std::int64_t generation() const override { return job_.membership().generation; }
  std::vector<cluster::MembershipEvent> events() const override { return job_.events(); }

 private:
  cluster::Job& job_;
  MakeMode make_mode_;
  std::vector<std::shared_ptr<kvstore::Mode>> modes_;
  bool watches_ = false, has_ended_ = false;
};

class PresentMode final : public kvstore::Mode {
 public:
  explicit PresentMode(Survival& survival) : survival_(survival) {}
  kvstore::Group& group() override { return now().group(); }
  std::unique_ptr<kvstore::Synchronizer> synchronize(kvstore::FlatState& state,
                                                     std::int64_t shards) override {
    return now().synchronize(state, shards);
  }
  kvstore::OutOfStep* out_of_step() override { return now().out_of_step(); }
  bool is_invariant() const override { return now().is_invariant(); }
  std::string description() const override { return now().description(); }
  kvstore::SlotPlace slot_place() const override { return now().slot_place(); }
  bool shares_weights() const override { return now().shares_weights(); }
  bool keeps_residuals() const override { return now().keeps_residuals(); }
  double largest_sent() const override { return now().largest_sent(); }
  void abort(const std::string& reason) override { now().abort(reason); }

 private:
  kvstore::Mode& now() const { return *survival_.mode(); }
  Survival& survival_;
};

}  // namespace

std::unique_ptr<Survival> survive(cluster::Job& job, MakeMode make_mode,
                                  std::shared_ptr<kvstore::Mode> first) {
  return std::make_unique<JobSurvival>(job, std::move(make_mode), std::move(first));
}

std::unique_ptr<kvstore::Mode> present_mode(Survival& survival) {
  check(survival.mode() != nullptr, "a survival without its first mode");
  return std::make_unique<PresentMode>(survival);
}

}  // namespace lockstep::train
