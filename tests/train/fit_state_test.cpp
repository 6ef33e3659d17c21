// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/fit_state.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/kvstore/fake_group.h"
#include "tests/message.h"

namespace lockstep::train::detail {
namespace {

using lockstep::testing::message_of;

// Whose workers have these configurations.
class Told final : public testing::FakeGroup {
 public:
  explicit Told(std::vector<std::string> all)
      : FakeGroup(0, static_cast<int>(all.size())), all_(std::move(all)) {}
  std::vector<std::string> share(const std::string&) override { return all_; }

 private:
  std::vector<std::string> all_;
};

TEST(FitState, OfConfigurationsThatDifferBetweenWorkersEachKeyIsNamedWithBothValues) {
  const std::string first =
      R"({"batch": 64, "optimizer": {"rate": 0.1, "rule": "sgd"}, "seed": 1})";
  const std::string other =
      R"({"batch": 32, "optimizer": {"rate": 0.2, "rule": "sgd"}, "seed": 1})";
  Told same({first, first}), different({first, first, other});
  check_same_configuration(same, first);
  EXPECT_EQ(message_of<InvalidArgument>([&] { check_same_configuration(different, first); }),
            "configuration: batch is 64 on worker 0, 32 on worker 2; optimizer.rate is 0.1 on "
            "worker 0, 0.2 on worker 2");
}

}  // namespace
}  // namespace lockstep::train::detail
