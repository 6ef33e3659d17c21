// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/mxnet_arrays.h"

#include "lockstep/base/file.h"
#include "lockstep/io/npz.h"
#include "tests/io/tensor_cases.h"

namespace lockstep::io {
namespace {

using testing::message_of;
using Floats = std::vector<float>;

StoredArray sparse_rows() {
  return {Storage::row_sparse,
          {3, 2},
          Tensor::from<float>({5, 6}, {1, 2}),
          {Tensor::from<std::int64_t>({2}, {1})}};
}
StoredArray sparse_csr(std::int64_t last_column = 0) {
  return {Storage::csr,
          {2, 3},
          Tensor::from<float>({7, 8}, {2}),
          {Tensor::from<std::int64_t>({0, 1, 2}, {3}),
           Tensor::from<std::int64_t>({2, last_column}, {2})}};
}
Floats dense_values(const StoredArray& array) {
  return to_dense(array, "array", 1 << 20).to_vector<float>();
}

class MxnetArraysFile : public ::testing::Test {
 protected:
  lockstep::testing::TemporaryFolder owner_{"mxnet_arrays_test"};
  std::string path_ = owner_.path() + "/net.params";
};

TEST_F(MxnetArraysFile, SparseArraysAndListsComeBackAsTheyWere) {
  write_mxnet_arrays(path_, {{sparse_rows(), sparse_csr(), stored(Tensor::scalar(3))}, {}});
  for (const MxnetArrays& read :
       {read_mxnet_arrays(path_), mxnet_arrays_from_bytes(read_file(path_), "bytes")}) {
    EXPECT_TRUE(read.names.empty());
    ASSERT_EQ(read.arrays.size(), 3u);
    EXPECT_EQ(read.arrays[0].storage, Storage::row_sparse);
    EXPECT_EQ(dense_values(read.arrays[0]), (Floats{0, 0, 0, 0, 5, 6}));
    EXPECT_EQ(read.arrays[1].storage, Storage::csr);
    EXPECT_EQ(dense_values(read.arrays[1]), (Floats{0, 0, 7, 8, 0, 0}));
    EXPECT_EQ(read.arrays[2].data.item(), 3);
  }
}

TEST_F(MxnetArraysFile, OneArraysRecordIsReadAlone) {
  write_mxnet_arrays(path_, {{sparse_rows()}, {}});
  const std::string file = read_file(path_);
  const std::string record = file.substr(24, file.size() - 24 - 8);
  EXPECT_EQ(dense_values(mxnet_array_from_bytes(record, "state")), (Floats{0, 0, 0, 0, 5, 6}));
  EXPECT_EQ(message_of<Corrupt>([&] { mxnet_array_from_bytes(record + "x", "state"); }),
            "state: has 1 bytes after its end");
  EXPECT_EQ(message_of<Corrupt>([&] { mxnet_array_from_bytes(record.substr(0, 30), "state"); }),
            "state: ends early");
}

TEST_F(MxnetArraysFile, NpzAndNpyOfMxnet2AreKnownByTheirFirstBytes) {
  const Tensor w = Tensor::from<float>({1, 2}, {2});
  const Tensor shape = Tensor::from<std::int64_t>({2, 3}, {2});
  write_npz(path_, {{"w", w},
                    {"s/data", sparse_csr().data},
                    {"s/indptr", sparse_csr().indices[0]},
                    {"s/indices", sparse_csr().indices[1]},
                    {"s/shape", shape},
                    {"t/data", w}});
  const MxnetArrays read = read_mxnet_arrays(path_);
  EXPECT_EQ(read.names, (std::vector<std::string>{"w", "s", "t/data"}));
  EXPECT_EQ(read.arrays[1].storage, Storage::csr);
  EXPECT_EQ(dense_values(read.arrays[1]), (Floats{0, 0, 7, 8, 0, 0}));
  EXPECT_EQ(read_npz(path_)[1].second.to_vector<float>(), (Floats{0, 0, 7, 8, 0, 0}));
  write_npz(
      path_,
      {{"s/data", sparse_csr().data}, {"s/indices", sparse_csr().indices[1]}, {"s/shape", shape}});
  EXPECT_EQ(message_of<Corrupt>([&] { read_mxnet_arrays(path_); }),
            path_ + ": tensor 's' of shape [2, 3] has rows of shape []");
}

TEST(StoredArrays, PartsThatDoNotFitAreACallersMistake) {
  EXPECT_EQ(message_of<InvalidArgument>([] { check(sparse_csr(3), "mine"); }),
            "mine: the array has the column 3, expected 0 to 2");
  StoredArray huge = sparse_rows();
  huge.shape = Shape({std::int64_t{1} << 40, 2});
  EXPECT_EQ(message_of<InvalidArgument>([&] { to_dense(huge, "mine", 1 << 30); }),
            "mine: the array of shape [1099511627776, 2] is sparse, and too large as a dense "
            "tensor (max_inflated)");
}

}  // namespace
}  // namespace lockstep::io
