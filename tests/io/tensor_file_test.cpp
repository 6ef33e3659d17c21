// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/tensor_file.h"

#include "lockstep/io/edit_tensors.h"
#include "lockstep/io/npy.h"
#include "tests/io/tensor_cases.h"

namespace lockstep::io {
namespace {

using testing::message_of;

class TensorFile : public ::testing::Test {
 protected:
  lockstep::testing::TemporaryFolder owner_{"tensor_file_test"};
  std::string folder_ = owner_.path();
};

TEST_F(TensorFile, EveryFormatGivesBackTheBitsThatEveryOtherWrote) {
  const std::vector<NamedTensor> tensors = testing::tensors_of_every_kind();
  std::vector<NamedTensor> last = tensors;
  for (const char* ending : {".lockstep", ".params", ".safetensors", ".npz", ".lockstep"}) {
    const std::string path = folder_ + "/net" + ending;
    save_tensors(path, last);
    EXPECT_EQ(format_of_file(path), *format_of_ending(path));
    last = load_tensors(path);
    testing::expect_same_bits(last, tensors);
  }
}

TEST_F(TensorFile, AFormatByNameComesBeforeTheEnding) {
  const std::vector<NamedTensor> tensors{{"w", Tensor::zeros({2})}};
  for (const std::string& name : format_names()) {
    const std::string path = folder_ + "/file.bin";
    save_tensors(path, tensors, format_from_name(name));
    EXPECT_EQ(name_of(format_of_file(path)), name);
    testing::expect_same_bits(load_tensors(path), tensors);
  }
  const std::string path = folder_ + "/file.npz";
  save_tensors(path, tensors, FileFormat::params);
  EXPECT_EQ(format_of_file(path), FileFormat::params);
  EXPECT_TRUE(message_of<Corrupt>([&] {
                load_tensors(path, FileFormat::npz);
              }).starts_with(path + ": is no zip file"));
}

TEST_F(TensorFile, ADenseCopyOfAViewIsWritten) {
  const Tensor whole = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor view = whole.window({3, 2}, {1, 3}, 0);
  for (const char* ending : {".params", ".safetensors", ".npz"}) {
    save_tensors(folder_ + "/a" + ending, {{"t", view}});
    EXPECT_EQ(load_tensors(folder_ + "/a" + ending)[0].second.to_vector<int>(),
              (std::vector<int>{1, 4, 2, 5, 3, 6}))
        << ending;
  }
}

TEST_F(TensorFile, SaysWhatAFileIsThatItCannotRead) {
  const std::string path = folder_ + "/file";
  const auto said = [&](const std::string& bytes) {
    return testing::complaint(path, bytes, [](const std::string& at) { format_of_file(at); });
  };
  const std::string no =
      ": is no file of tensors that can be read (native, params, safetensors, npz)";
  EXPECT_EQ(said(""), no);
  EXPECT_EQ(said("hello"), no);
  EXPECT_EQ(said("\x80\x02}q"),
            no + "; it looks like a pickle (torch.save before 1.6): write safetensors instead");
  EXPECT_EQ(said("\x89HDF\r\n"), no + "; it is HDF5");
  save_npy(path, Tensor::zeros({1}));
  EXPECT_EQ(message_of<Corrupt>([&] { load_tensors(path); }),
            path + no + "; it is one array of NumPy's (numpy.load)");
  EXPECT_EQ(message_of<NotFound>([&] { load_tensors(folder_ + "/none"); }),
            folder_ + "/none: no such file");
  EXPECT_EQ(message_of([&] { format_from_name("onnx"); }),
            "format: there is no 'onnx' (there are: native, params, safetensors, npz)");
  EXPECT_EQ(message_of([&] { save_tensors(folder_ + "/a.bin", {}); }),
            folder_ +
                "/a.bin: its ending does not say what to write: .lockstep, .params, .safetensors "
                "and .npz do, or a format by its name (native, params, safetensors, npz)");
}

TEST(EditTensors, RenamesByRegularExpression) {
  const Tensor x = Tensor::zeros({1});
  std::vector<NamedTensor> tensors{{"backbone.conv0.weight", x}, {"head.weight", x}};
  rename(tensors, "^backbone\\.", "");
  rename(tensors, "conv(\\d+)", "layer$1.conv");
  EXPECT_EQ(tensors[0].first, "layer0.conv.weight");
  EXPECT_EQ(tensors[1].first, "head.weight");
  EXPECT_EQ(message_of<NotFound>([&] { rename(tensors, "tail", "head"); }),
            "rename: 'tail' matches none of the 2 names");
  EXPECT_TRUE(message_of([&] {
                rename(tensors, "(", "");
              }).starts_with("rename: '(' is no regular expression: "));
  tensors[0].first = std::string(100'000, 'a');
  EXPECT_EQ(message_of([&] { rename(tensors, "(a|b)*", ""); }),
            "rename: a name has 100000 bytes, expected 4096 at most");
}

TEST(EditTensors, KnowsMxnetsPrefixes) {
  EXPECT_EQ(without_mxnet_prefix("arg:fc1_weight"), "fc1_weight");
  EXPECT_EQ(without_mxnet_prefix("aux:bn0_moving_mean"), "bn0_moving_mean");
  EXPECT_EQ(without_mxnet_prefix("argument"), "argument");
  EXPECT_EQ(with_mxnet_prefix("bn0.running_var"), "aux:bn0.running_var");
  EXPECT_EQ(with_mxnet_prefix("fc1_weight"), "arg:fc1_weight");
  EXPECT_EQ(with_mxnet_prefix("aux:x"), "aux:x");
}

TEST(EditTensors, CastsFloatsAlone) {
  std::vector<NamedTensor> tensors{{"w", Tensor::from<float>({1.5F, -2}, {2})},
                                   {"n", Tensor::from<std::int64_t>({7}, {1})}};
  cast_floats(tensors, DType::bfloat16);
  EXPECT_EQ(tensors[0].second.info().str(), "bfloat16[2]");
  EXPECT_EQ(tensors[0].second.to_vector<float>(), (std::vector<float>{1.5F, -2}));
  EXPECT_EQ(tensors[1].second.dtype(), DType::int64);
}

}  // namespace
}  // namespace lockstep::io
