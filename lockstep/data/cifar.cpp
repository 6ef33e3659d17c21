// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/cifar.h"

#include <cstring>

#include "lockstep/base/gzip.h"
#include "lockstep/data/detail/labels.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kPixels = 32 * 32;
constexpr std::size_t kChannels = 3;
constexpr std::size_t kRecord = 1 + kChannels * kPixels;
constexpr std::int64_t kClasses = 10;

// Planes to pixels.
void interleave(const char* planes, std::uint8_t* pixels) {
  for (std::size_t p = 0; p < kPixels; ++p)
    for (std::size_t c = 0; c < kChannels; ++c)
      pixels[p * kChannels + c] = static_cast<std::uint8_t>(planes[c * kPixels + p]);
}

void append_planes(std::string& bytes, const std::uint8_t* pixels) {
  for (std::size_t c = 0; c < kChannels; ++c)
    for (std::size_t p = 0; p < kPixels; ++p)
      bytes.push_back(static_cast<char>(pixels[p * kChannels + c]));
}

Tensor join(const std::vector<Tensor>& parts) {
  Shape shape = parts[0].shape();
  shape[0] = 0;
  for (const Tensor& part : parts) shape[0] += part.shape(0);
  Tensor result = Tensor::empty(shape, parts[0].dtype());
  std::byte* target = result.raw();
  for (const Tensor& part : parts) {
    std::memcpy(target, part.raw(), part.info().bytes());
    target += part.info().bytes();
  }
  return result;
}

CifarBatch read_batch(const std::string& path, std::int64_t records) {
  const auto expected = static_cast<std::size_t>(records) * kRecord;
  const auto most = records > 0 ? static_cast<std::int64_t>(expected) : kMaxInflated;
  const std::string bytes = records > 0
                                ? read_plain_or_gzip(path, most, "all that its records take")
                                : read_plain_or_gzip(path, most);
  if (records > 0 && bytes.size() != expected)
    throw Corrupt("{}: cifar: has {} bytes, {} records of {} bytes take {}", path, bytes.size(),
                  records, kRecord, expected);
  return parse_cifar(bytes, path);
}

}  // namespace

CifarBatch parse_cifar(std::string_view bytes, const std::string& name) {
  if (bytes.empty() || bytes.size() % kRecord != 0)
    throw Corrupt("{}: cifar: has {} bytes, expected a multiple of {}", name, bytes.size(),
                  kRecord);
  const auto count = static_cast<std::int64_t>(bytes.size() / kRecord);
  std::vector<std::int64_t> labels;
  Tensor images = Tensor::empty({count, 32, 32, 3}, DType::uint8);
  auto* pixels = images.data<std::uint8_t>();
  for (std::size_t at = 0; at < bytes.size(); at += kRecord, pixels += kChannels * kPixels) {
    labels.push_back(static_cast<std::uint8_t>(bytes[at]));
    interleave(bytes.data() + at + 1, pixels);
  }
  detail::check_labels(labels, kClasses, name);
  return {images, Tensor::from(labels, {count})};
}

std::string format_cifar(const CifarBatch& batch) {
  const std::int64_t count = batch.labels.numel();
  if (batch.images.shape() != Shape{count, 32, 32, 3})
    throw InvalidArgument("cifar: images are {}, expected {}", batch.images.shape().str(),
                          Shape{count, 32, 32, 3}.str());
  const Tensor images = batch.images.contiguous();
  const std::vector<std::int64_t> labels = batch.labels.to_vector<std::int64_t>();
  std::string bytes;
  bytes.reserve(labels.size() * kRecord);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    bytes.push_back(static_cast<char>(labels[i]));
    append_planes(bytes, images.data<std::uint8_t>() + i * kChannels * kPixels);
  }
  return bytes;
}

DatasetPtr read_cifar(const std::vector<std::string>& paths, std::int64_t records) {
  if (paths.empty()) throw InvalidArgument("cifar: no batch files were given");
  std::vector<Tensor> images;
  std::vector<Tensor> labels;
  for (const std::string& path : paths) {
    CifarBatch batch = read_batch(path, records);
    images.push_back(std::move(batch.images));
    labels.push_back(std::move(batch.labels));
  }
  return std::make_shared<ArrayDataset>(Fields{join(images), join(labels)}, cifar10_class_names());
}

const std::vector<std::string>& cifar10_class_names() {
  static const std::vector<std::string> names = {
      "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  return names;
}

}  // namespace lockstep::data
