// SPDX-License-Identifier: Apache-2.0
// Where each worker has a part of what a step needs, one that fails tells the others.
#include <gtest/gtest.h>

#include <barrier>

#include "lockstep/comm/communicator.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/train/part_ways.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

using testing::message_of;
using testing::PartWay;

// A step of it. One label is no class: whoever computes the loss of its shard fails.
data::DatasetPtr images_with_a_wrong_label() {
  const Tensor labels = Tensor::zeros({24}, DType::int64);
  labels.data<std::int64_t>()[17] = 9;
  return std::make_shared<data::ArrayDataset>(
      data::Fields{Tensor::full({24, 8, 8, 1}, 50.0), labels});
}

enum class Fails { step, evaluation };

std::string error_of_fit(const PartWay& way, kvstore::Mode* mode, Fails where) {
  return message_of<std::exception>([&] {
    Trainer trainer(testing::small_net(), testing::cross_entropy(), optim::sgd({}),
                    {.global_batch = 24, .shards = 8, .seed = 3, .mesh = way.mesh, .mode = mode});
    FitOptions options = testing::small_fit(1);
    if (where == Fails::step) return void(trainer.fit(images_with_a_wrong_label(), options));
    options.validation = images_with_a_wrong_label();
    trainer.fit(testing::small_images(24), options);
  });
}

// None of them leaves before all have heard: the message is what tells, not the loss of a peer.
void expect_told_to_all(Fails where) {
  for (const PartWay& way : testing::part_ways()) {
    SCOPED_TRACE(way.name);
    std::barrier<> all_have_heard(way.workers);
    testing::as_ranks(way.workers, [&](comm::Communicator& communicator) {
      const auto mode = way.mode(communicator);
      const std::string error = error_of_fit(way, mode.get(), where);
      EXPECT_NE(error.find("softmax_cross_entropy: label 9 "), std::string::npos) << error;
      all_have_heard.arrive_and_wait();
    });
  }
}

TEST(FailedPart, IsToldToAllWithItsMessage) { expect_told_to_all(Fails::step); }
TEST(FailedPart, OfAnEvaluationIsToldToAllWithItsMessage) { expect_told_to_all(Fails::evaluation); }

}  // namespace
}  // namespace lockstep::train
