// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "lockstep/base/file.h"

namespace lockstep {
namespace {

class Npy : public ::testing::Test {
 protected:
  void TearDown() override { std::remove(path_.c_str()); }

  std::string message() {
    try {
      load_npy(path_);
      return "no error";
    } catch (const Corrupt& error) {
      return std::string(error.what()).substr(path_.size());
    }
  }

  // Tests run at the same time, each in a process of its own.
  std::string path_ = ::testing::TempDir() + fmt::format("npy_test_{}.npy", getpid());
};

TEST_F(Npy, KeepsEveryShapeAndDtype) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{3}, Shape{2, 3}, Shape{2, 0, 4}})
    for (int i = 0; i < kDTypeCount; ++i) {
      const Tensor tensor = Tensor::full(shape, 1.0, static_cast<DType>(i));
      save_npy(path_, tensor);
      const Tensor again = load_npy(path_);
      EXPECT_EQ(again.info(), tensor.info());
      EXPECT_EQ(again.to_vector<double>(), tensor.to_vector<double>());
    }
}

TEST_F(Npy, Int16IsWrittenAsNumPyNamesIt) {
  const std::vector<std::int16_t> values{-32768, -1, 0, 32767};
  save_npy(path_, Tensor::from(values, {4}));
  EXPECT_NE(read_file(path_).find("'descr': '<i2'"), std::string::npos);
  EXPECT_EQ(load_npy(path_).to_vector<std::int16_t>(), values);
}

TEST_F(Npy, Bfloat16IsTwoBytesWithoutAMeaning) {
  const Tensor tensor = Tensor::full({2}, 1.5, DType::bfloat16);
  save_npy(path_, tensor);
  std::string bytes = read_file(path_);
  const std::size_t at = bytes.find("'descr': '|V2'");
  ASSERT_NE(at, std::string::npos);
  for (const char* descr : {"|V2", "<V2", "<b2"}) {
    write_file(path_, bytes.replace(at + 10, 3, descr));
    EXPECT_EQ(load_npy(path_).info(), tensor.info());
    EXPECT_EQ(load_npy(path_).to_vector<double>(), (std::vector<double>{1.5, 1.5}));
  }
}

TEST_F(Npy, FortranOrderIsReadAsTheArrayThatItIs) {
  save_npy(path_, Tensor::from<std::int16_t>({1, 4, 2, 5, 3, 6}, {3, 2}));
  std::string bytes = read_file(path_);
  bytes.replace(bytes.find("False"), 5, "True ");
  bytes.replace(bytes.find("(3, 2)"), 6, "(2, 3)");
  write_file(path_, bytes);
  EXPECT_EQ(load_npy(path_).shape(), (Shape{2, 3}));
  EXPECT_EQ(load_npy(path_).to_vector<int>(), (std::vector<int>{1, 2, 3, 4, 5, 6}));
}

TEST_F(Npy, AShapeThatCannotBeCountedIsRefused) {
  save_npy(path_, Tensor::zeros({4}));
  std::string bytes = read_file(path_);
  const std::string lie = "(9000000000000000000, 9, 0)";
  bytes.replace(bytes.find("(4,)"), lie.size(), lie);
  write_file(path_, bytes);
  EXPECT_EQ(message(), ": the array of shape [9000000000000000000, 9, 0] is larger than the file");
}

TEST_F(Npy, RefusesWhatIsNotAnNpyFile) {
  write_file(path_, "hello, this is a text file");
  EXPECT_EQ(message(), ": is not a .npy file, or ends early");
}

TEST_F(Npy, RefusesATruncatedFile) {
  save_npy(path_, Tensor::zeros({4}));
  const std::string whole = read_file(path_);
  write_file(path_, whole.substr(0, whole.size() - 3));
  EXPECT_EQ(message(), ": has 13 bytes of data, float32[4] needs another number");
  write_file(path_, whole.substr(0, 40));
  EXPECT_EQ(message(), ": ends inside its header");
}

}  // namespace
}  // namespace lockstep
