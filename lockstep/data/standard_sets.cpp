// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/standard_sets.h"

#include <filesystem>

#include "lockstep/base/file.h"
#include "lockstep/data/cifar.h"
#include "lockstep/data/idx.h"

namespace lockstep::data {
namespace {

// The idx files go by several names.
std::string find_idx(const std::string& folder, const std::string& part, const char* rank) {
  for (const char* dot : {"-", "."})
    for (const char* end : {"", ".gz"}) {
      std::string path = folder + "/" + part + dot + rank + "-ubyte" + end;
      if (std::filesystem::is_regular_file(path)) return path;
    }
  throw NotFound("{}: has no {}-{}-ubyte, nor that with .gz", folder, part, rank);
}

DatasetPtr read_mnist_like(const std::string& folder, bool train, std::int64_t max_inflated,
                           std::vector<std::string> class_names) {
  const std::string part = train ? "train" : "t10k";
  const std::string images = find_idx(folder, part + "-images", "idx3");
  const std::string labels = find_idx(folder, part + "-labels", "idx1");
  return read_idx_images(
      images, labels,
      {.classes = 10, .class_names = std::move(class_names), .max_inflated = max_inflated});
}

}  // namespace

DatasetPtr mnist(const std::string& folder, bool train, std::int64_t max_inflated) {
  return read_mnist_like(folder, train, max_inflated,
                         {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
}

DatasetPtr fashion_mnist(const std::string& folder, bool train, std::int64_t max_inflated) {
  return read_mnist_like(folder, train, max_inflated,
                         {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt",
                          "Sneaker", "Bag", "Ankle boot"});
}

DatasetPtr cifar10(const std::string& folder, bool train) {
  if (!train) return read_cifar({folder + "/test_batch.bin"});
  std::vector<std::string> paths;
  for (int i = 1; i <= 5; ++i) paths.push_back(fmt::format("{}/data_batch_{}.bin", folder, i));
  return read_cifar(paths);
}

TextSet spam_assassin(const std::string& folder, bool train) {
  const TextSet all = read_text_folder(folder);
  return train ? take_every(all, 5, 0, 4) : take_every(all, 5, 4, 5);
}

std::string moby_dick(const std::string& folder) { return read_file(folder + "/moby-dick.txt"); }

}  // namespace lockstep::data
