// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/agreement.h"

#include <gtest/gtest.h>

#include "tests/comm/worlds.h"
#include "tests/message.h"

namespace lockstep::comm {
namespace {

class Agreement : public ::testing::TestWithParam<WorldKind> {};

std::string text_of(int rank) { return std::string(static_cast<std::size_t>(rank) * 5000, 'a'); }

TEST_P(Agreement, EveryRankGetsTheTextsOfAllWhateverTheirLengths) {
  run_ranks(GetParam(), 3, [](Communicator& group) {
    const std::vector<std::string> all = share_texts(group, text_of(group.rank()));
    EXPECT_EQ(all, (std::vector<std::string>{text_of(0), text_of(1), text_of(2)}));
    EXPECT_EQ(share_texts(group, ""), std::vector<std::string>(3));
  });
}

TEST_P(Agreement, ALengthThatIsNoneIsNamedWithItsRank) {
  run_ranks(GetParam(), 2, [](Communicator& group) {
    if (group.rank() == 0) {
      EXPECT_EQ(
          lockstep::testing::message_of<PeerLost>([&] { share_texts(group, "a"); }),
          fmt::format("share_texts: rank 1 on {} says 18446744073709551615 bytes, expected at "
                      "most 1073741824: the ranks' calls do not match",
                      group.host(1)));
      return;
    }
    const std::uint64_t wrong = ~std::uint64_t{0};
    std::vector<std::uint64_t> all(2);
    group.all_gather(std::as_bytes(std::span(&wrong, 1)), std::as_writable_bytes(std::span(all)));
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Agreement, ::testing::ValuesIn(world_kinds()),
                         [](const auto& info) { return info.param.name; });

TEST(CompareTexts, TellsOfEveryRankThatSaidSomethingElseThanTheFirst) {
  std::vector<std::string> told;
  const auto differs = [&](std::size_t rank, const std::string& first, const std::string& its) {
    told.push_back(std::to_string(rank) + first + its);
  };
  compare_texts({"a", "a", "b", "a", "c"}, differs);
  EXPECT_EQ(told, (std::vector<std::string>{"2ab", "4ac"}));
}

TEST(CompareTexts, OneRankAgreesWithItself) {
  compare_texts({"a"}, [](std::size_t, const std::string&, const std::string&) { FAIL(); });
}

}  // namespace
}  // namespace lockstep::comm
