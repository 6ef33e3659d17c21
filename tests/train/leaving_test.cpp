// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>

#include "lockstep/comm/errors.h"
#include "lockstep/kvstore/allreduce.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/survival.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

// A job whose coordinator does not answer at first, and whose members stay.
class LateAnswer final : public Survival {
 public:
  explicit LateAnswer(kvstore::Mode* mode) : mode_(mode) {}

  bool is_late() const override { return false; }
  void begin() override {}
  bool wants_change() const override { return false; }
  kvstore::Mode* next(const cluster::Standing& standing) override {
    return standing.is_finished ? nullptr : mode_;
  }
  void leave() override {
    if (++asked_ == 1) throw comm::Timeout("no answer", -1, "", "rendezvous");
  }
  void wait_for_nobody() override {}
  bool is_run_done() const override { return true; }
  void conclude() override {}
  cluster::Alignment align(const cluster::Progress& /*own*/) override { return {}; }
  void settle() override {}
  kvstore::Mode* mode() override { return nullptr; }
  bool has_ended() const override { return false; }
  std::int64_t generation() const override { return 1; }
  std::vector<cluster::MembershipEvent> events() const override { return {}; }

  int asked() const { return asked_; }

 private:
  kvstore::Mode* mode_;
  int asked_ = 0;
};

TEST(Leaving, IsAskedForAgainWhereNobodyHasAnswered) {
  const std::atomic<bool> leave = true;
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(communicator);
    LateAnswer survival(mode.get());
    Trainer trainer(testing::small_net(), testing::cross_entropy(), optim::sgd({}),
                    {.global_batch = 24, .shards = 8, .mode = mode.get(), .survival = &survival});
    FitOptions options = testing::small_fit(1);
    options.leave = &leave;
    trainer.fit(testing::small_images(100), options);
    EXPECT_EQ(survival.asked(), 2);
  });
}

}  // namespace
}  // namespace lockstep::train
