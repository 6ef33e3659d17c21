// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/fit_state.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/message.h"

namespace lockstep::train::detail {
namespace {

using lockstep::testing::message_of;

TEST(FitState, OfConfigurationsThatDifferBetweenWorkersEachKeyIsNamedWithBothValues) {
  const std::string first =
      R"({"batch": 64, "optimizer": {"rate": 0.1, "rule": "sgd"}, "seed": 1})";
  const std::string other =
      R"({"batch": 32, "optimizer": {"rate": 0.2, "rule": "sgd"}, "seed": 1})";
  check_same_configuration({first, first});
  EXPECT_EQ(message_of<InvalidArgument>([&] {
              check_same_configuration({first, first, other});
            }),
            "configuration: batch is 64 on worker 0, 32 on worker 2; optimizer.rate is 0.1 on "
            "worker 0, 0.2 on worker 2");
}

}  // namespace
}  // namespace lockstep::train::detail
