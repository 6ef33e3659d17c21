// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/survival.h"

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

class JobSurvival final : public Survival {
 public:
  JobSurvival(cluster::Job& job, MakeMode make_mode) : job_(job), make_mode_(std::move(make_mode)) {
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
    if (!job_.regroup(standing)) return nullptr;
    comm::Communicator* communicator = job_.size() > 1 ? &job_.communicator() : nullptr;
    modes_.push_back(make_mode_(communicator, job_.membership()));
    return modes_.back().get();
  }

  void leave() override { job_.depart(); }
  void conclude() override { job_.tell(); }
  bool is_run_done() const override { return job_.is_run_done(); }
  cluster::Alignment align(const cluster::Progress& own) override { return job_.align(own); }

  // Modes go before the communicators that they use.
  void settle() override {
    modes_.erase(modes_.begin(), modes_.end() - 1);
    job_.settle();
  }
  std::int64_t generation() const override { return job_.membership().generation; }
  std::vector<cluster::MembershipEvent> events() const override { return job_.events(); }

 private:
  cluster::Job& job_;
  MakeMode make_mode_;
  std::vector<std::shared_ptr<kvstore::Mode>> modes_;
  bool watches_ = false;
};

}  // namespace

std::unique_ptr<Survival> survive(cluster::Job& job, MakeMode make_mode) {
  return std::make_unique<JobSurvival>(job, std::move(make_mode));
}

}  // namespace lockstep::train
