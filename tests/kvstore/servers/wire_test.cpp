// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/wire.h"

#include <gtest/gtest.h>

#include "lockstep/kvstore/servers/placement.h"
#include "lockstep/kvstore/servers/table_messages.h"
#include "lockstep/optim/optimizers.h"
#include "tests/message.h"

namespace lockstep::kvstore {
namespace {

using testing::message_of;

wire::MakeTable some_table() {
  wire::MakeTable table;
  table.table = "weights";
  table.epoch = 7;
  table.shards = 8;
  table.parameters = {{100, 1.0, 0.5}, {5, 2.0, 0.0}};
  table.rule = wire::Rule::of(*optim::adam({.beta1 = 0.3}));
  table.compression = "none";
  table.unused = {101, 102};
  return table;
}

TEST(Wire, AMessageIsReadAsItWasWritten) {
  const std::string bytes = wire::encode(some_table());
  const auto read = wire::decode<wire::MakeTable>(bytes);
  EXPECT_EQ(wire::encode(read), bytes);
  EXPECT_EQ(read.parameters[1].rate_multiplier, 2.0);
  EXPECT_EQ(read.rule.make()->description(), optim::adam({.beta1 = 0.3})->description());
}

TEST(Wire, ATruncatedMessageOrOneThatIsTooLongIsCorrupt) {
  const std::string bytes = wire::encode(some_table());
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(wire::decode<wire::MakeTable>(bytes.substr(0, length)), Corrupt) << length;
  EXPECT_EQ(message_of<Corrupt>([&] { wire::decode<wire::MakeTable>(bytes + "xy"); }),
            "message: 2 bytes too many");
}

TEST(Wire, ALengthThatIsALieMakesNothingLarge) {
  std::string bytes = wire::encode(wire::Measured{});
  bytes[0] = bytes[1] = bytes[2] = bytes[3] = '\xff';
  EXPECT_EQ(message_of<Corrupt>([&] { wire::decode<wire::Measured>(bytes); }),
            "message: 0 bytes are left, expected 8");
  std::string yes = wire::encode(wire::Given{});
  yes[0] = 2;
  EXPECT_EQ(message_of<Corrupt>([&] { wire::decode<wire::Given>(yes); }),
            "message: 2 is neither yes nor no");
}

TEST(Placement, RangesOfWholePiecesAreBalancedAndComplete) {
  FlatLayout layout;
  for (const std::size_t count : {5U, 100'000U, 77U, 300'001U, 16384U})
    layout.add({.count = count});
  for (int servers : {1, 2, 3, 7}) {
    std::size_t pieces = 0, floats = 0;
    for (const TableRange& range : split_layout(layout, servers)) {
      EXPECT_EQ(range.first_piece, pieces);
      EXPECT_EQ(range.offset, floats);
      for (std::size_t i = 0; i < range.layout.pieces.size(); ++i) {
        EXPECT_EQ(range.layout.pieces[i].offset + floats, layout.pieces[pieces + i].offset);
        EXPECT_EQ(range.layout.pieces[i].size(), layout.pieces[pieces + i].size());
      }
      EXPECT_LE(range.layout.floats,
                layout.floats / static_cast<std::size_t>(servers) + 2 * optim::kPieceElements);
      pieces += range.layout.pieces.size();
      floats += range.layout.floats;
    }
    EXPECT_EQ(pieces, layout.pieces.size());
    EXPECT_EQ(floats, layout.floats);
  }
}

TEST(Placement, MoreServersThanPiecesLeaveSomeWithNothing) {
  FlatLayout layout;
  layout.add({.count = 10});
  std::size_t used = 0;
  for (const TableRange& range : split_layout(layout, 3)) used += range.layout.floats > 0;
  EXPECT_EQ(used, 1U);
}

TEST(Placement, SmallValuesAreOnOneServerAndLargeOnesOnAll) {
  EXPECT_EQ(place_key("'fc1.weight'", 100, 100, 3, true).size(), 1U);
  EXPECT_EQ(place_key("'fc1.weight'", 2000, 1000, 3, false).size(), 1U);
  const auto ranges = place_key("'fc1.weight'", 2000, 1000, 3, true);
  ASSERT_EQ(ranges.size(), 3U);
  std::size_t rows = 0;
  for (const KeyRange& range : ranges) {
    EXPECT_EQ(range.row, rows);
    rows += range.rows;
  }
  EXPECT_EQ(rows, 2000U);
  // Many keys are spread.
  std::vector<int> keys(3);
  for (int key = 0; key < 300; ++key)
    ++keys[static_cast<std::size_t>(place_key(std::to_string(key), 1, 1, 3, true)[0].server)];
  for (const int count : keys) EXPECT_GT(count, 50);
}

}  // namespace
}  // namespace lockstep::kvstore
