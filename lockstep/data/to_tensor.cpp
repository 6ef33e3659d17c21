// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <memory>

#include "lockstep/data/detail/masks.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

namespace {

// (value - mean) / deviation, channel by channel; one entry serves every channel.
class Scaling {
 public:
  Scaling(const char* who, std::vector<float> mean, std::vector<float> deviation)
      : who_(who), mean_(std::move(mean)), deviation_(std::move(deviation)) {
    if (mean_.empty() || mean_.size() != deviation_.size())
      throw InvalidArgument("{}: {} means and {} deviations, expected as many of each, at least 1",
                            who_, mean_.size(), deviation_.size());
    for (float value : deviation_) {
      if (!(value > 0.0f))
        throw InvalidArgument("{}: a deviation is {}, expected above 0", who_, value);
      factor_.push_back(1.0f / value);
    }
  }

  void check_channels(std::int64_t channels) const {
    if (mean_.size() != 1 && static_cast<std::int64_t>(mean_.size()) != channels)
      throw InvalidArgument("{}: the image has {} channels, there are {} means", who_, channels,
                            mean_.size());
  }
  std::size_t entry(std::int64_t channel) const {
    return mean_.size() == 1 ? 0 : static_cast<std::size_t>(channel);
  }
  std::size_t entries() const { return mean_.size(); }
  float mean(std::size_t entry) const { return mean_[entry]; }
  float factor(std::size_t entry) const { return factor_[entry]; }
  std::string description() const {
    std::string text = "mean=[";
    for (std::size_t i = 0; i < mean_.size(); ++i)
      text += fmt::format("{}{}", i ? ", " : "", mean_[i]);
    text += "], deviation=[";
    for (std::size_t i = 0; i < mean_.size(); ++i)
      text += fmt::format("{}{}", i ? ", " : "", deviation_[i]);
    return text + "]";
  }

 private:
  const char* who_;
  std::vector<float> mean_, deviation_, factor_;
};

// Images side by side in memory.
struct Images {
  std::int64_t count, pixels, channels;
};

// A byte has 256 values: a table look-up replaces the conversion, the division and the scaling, and
// gives their bits on every machine.
class ToTensor {
 public:
  explicit ToTensor(Scaling scaling) : scaling_(std::move(scaling)), tables_(scaling_.entries()) {
    for (std::size_t entry = 0; entry < tables_.size(); ++entry)
      for (std::size_t v = 0; v < 256; ++v)
        tables_[entry][v] = scaled(static_cast<float>(v), entry);
  }

  // `lead` axes count images; then [H, W] or [H, W, C].
  Tensor operator()(const Tensor& images, int lead) const {
    const int rank = images.rank() - lead;
    const bool bytes = images.dtype() == DType::uint8;
    if ((rank != 2 && rank != 3) || (!bytes && images.dtype() != DType::float32))
      throw InvalidArgument("to_tensor: got {}, expected an image: uint8 or float32 [H, W, C]",
                            images.info().str());
    const std::int64_t height = images.shape(lead), width = images.shape(lead + 1);
    const std::int64_t channels = rank == 3 ? images.shape(lead + 2) : 1;
    scaling_.check_channels(channels);
    Shape shape{channels, height, width};
    if (lead == 1) shape.insert(0, images.shape(0));
    Tensor result = Tensor::empty(shape);
    const Images sizes{lead == 1 ? images.shape(0) : 1, height * width, channels};
    const Tensor source = images.contiguous();
    if (bytes) {
      look_up(source.data<std::uint8_t>(), result.data<float>(), sizes);
    } else {
      scale(source.data<float>(), result.data<float>(), sizes);
    }
    return result;
  }

 private:
  float scaled(float value, std::size_t entry) const {
    return (value / 255.0f - scaling_.mean(entry)) * scaling_.factor(entry);
  }

  void look_up(const std::uint8_t* from, float* to, const Images& sizes) const {
    for (std::int64_t image = 0; image < sizes.count; ++image)
      for (std::int64_t c = 0; c < sizes.channels; ++c) {
        const float* table = tables_[scaling_.entry(c)].data();
        const std::uint8_t* source = from + image * sizes.pixels * sizes.channels + c;
        float* target = to + (image * sizes.channels + c) * sizes.pixels;
        for (std::int64_t i = 0; i < sizes.pixels; ++i)
          target[i] = table[source[i * sizes.channels]];
      }
  }

  void scale(const float* from, float* to, const Images& sizes) const {
    for (std::int64_t image = 0; image < sizes.count; ++image)
      for (std::int64_t c = 0; c < sizes.channels; ++c) {
        const std::size_t entry = scaling_.entry(c);
        const float* source = from + image * sizes.pixels * sizes.channels + c;
        float* target = to + (image * sizes.channels + c) * sizes.pixels;
        for (std::int64_t i = 0; i < sizes.pixels; ++i)
          target[i] = scaled(source[i * sizes.channels], entry);
      }
  }

  Scaling scaling_;
  std::vector<std::array<float, 256>> tables_;
};

Transform to_tensor_with(std::string description, Scaling scaling) {
  const auto convert = std::make_shared<const ToTensor>(std::move(scaling));
  return {std::move(description), 0,
          [convert](const Tensor& image, const RandomKey&) { return (*convert)(image, 0); },
          [convert](const Tensor& images) { return (*convert)(images, 1); }, detail::leave_mask};
}

Tensor normalized(const Scaling& scaling, const Tensor& images, int lead) {
  if (images.rank() != lead + 3 || images.dtype() != DType::float32)
    throw InvalidArgument("normalize: got {}, expected float32 [C, H, W]", images.info().str());
  const std::int64_t channels = images.shape(lead);
  scaling.check_channels(channels);
  const std::int64_t planes = channels * (lead == 1 ? images.shape(0) : 1);
  const std::int64_t pixels = images.shape(lead + 1) * images.shape(lead + 2);
  const Tensor source = images.contiguous();
  Tensor result = Tensor::empty(images.shape());
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    const std::size_t entry = scaling.entry(plane % channels);
    const float mean = scaling.mean(entry), factor = scaling.factor(entry);
    const float* from = source.data<float>() + plane * pixels;
    float* to = result.data<float>() + plane * pixels;
    for (std::int64_t i = 0; i < pixels; ++i) to[i] = (from[i] - mean) * factor;
  }
  return result;
}

}  // namespace

Transform to_tensor() { return to_tensor_with("to_tensor", Scaling("to_tensor", {0.0f}, {1.0f})); }

Transform to_tensor(std::vector<float> mean, std::vector<float> deviation) {
  Scaling scaling("to_tensor", std::move(mean), std::move(deviation));
  std::string description = "to_tensor(" + scaling.description() + ")";
  return to_tensor_with(std::move(description), std::move(scaling));
}

Transform normalize(std::vector<float> mean, std::vector<float> deviation) {
  const auto scaling =
      std::make_shared<const Scaling>("normalize", std::move(mean), std::move(deviation));
  return {
      "normalize(" + scaling->description() + ")", 0,
      [scaling](const Tensor& image, const RandomKey&) { return normalized(*scaling, image, 0); },
      [scaling](const Tensor& images) { return normalized(*scaling, images, 1); },
      detail::leave_mask};
}

}  // namespace lockstep::data
