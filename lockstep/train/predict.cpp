// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/predict.h"

#include <cstring>

namespace lockstep::train {
namespace {

// Samples without their label, and with a 0 in its place: an evaluation has a label.
class Unlabelled final : public data::Dataset {
 public:
  Unlabelled(data::DatasetPtr dataset, bool has_label)
      : dataset_(std::move(dataset)), has_label_(has_label) {}
  std::int64_t size() const override { return dataset_->size(); }
  data::Fields sample(std::int64_t index) const override {
    return with_label(dataset_->sample(index), {});
  }
  data::Fields batch(std::span<const std::int64_t> indices) const override {
    return with_label(dataset_->batch(indices), {static_cast<std::int64_t>(indices.size())});
  }

 private:
  data::Fields with_label(data::Fields fields, const Shape& shape) const {
    if (has_label_ && fields.size() < 2)
      throw InvalidArgument("predict: a sample with a label needs data too, got {} fields",
                            fields.size());
    if (has_label_) fields.pop_back();
    fields.push_back(Tensor::zeros(shape, DType::float32));
    return fields;
  }

  data::DatasetPtr dataset_;
  bool has_label_;
};

// Batches of outputs, one after the other, as one tensor.
class Collected {
 public:
  explicit Collected(std::int64_t samples) : samples_(samples) {}

  void add(const Tensor& output) {
    check_alike(output);
    if (!all_.defined()) all_ = Tensor::empty(shape_for(output, samples_), output.dtype());
    const std::size_t bytes = output.info().bytes();
    if (bytes > 0) std::memcpy(all_.raw() + filled_, output.contiguous().raw(), bytes);
    filled_ += bytes;
  }
  Tensor result() const { return all_; }

 private:
  static Shape shape_for(const Tensor& output, std::int64_t samples) {
    Shape shape = output.shape();
    shape.erase(0);
    shape.insert(0, samples);
    return shape;
  }
  void check_alike(const Tensor& output) const {
    if (output.rank() == 0)
      throw InvalidArgument("predict: the net's output is a scalar, expected an axis of samples");
    if (!all_.defined()) return;
    const Shape expected = shape_for(all_, output.shape(0));
    if (output.shape() != expected || output.dtype() != all_.dtype())
      throw InvalidArgument("predict: an output is {}, those before it were {}",
                            output.info().str(), all_.info().str());
  }

  std::int64_t samples_;
  Tensor all_;
  std::size_t filled_ = 0;
};

}  // namespace

Predictor::Predictor(nn::BlockPtr net, CompileOptions compile)
    : evaluator_(
          std::move(net), [](const Tensor&, const Tensor& label) { return label; },
          std::move(compile)) {}

Predictor::~Predictor() = default;

Tensor Predictor::run(const data::DatasetPtr& dataset, const PredictOptions& options) {
  if (dataset == nullptr || dataset->size() == 0)
    throw InvalidArgument("predict: there are no samples");
  Collected collected(dataset->size());
  const Unlabelled samples(dataset, options.has_label);
  evaluator_.run(samples,
                 {.batch = options.batch,
                  .threads = options.threads,
                  .transform = options.transform,
                  .on_batch = [&](const Tensor& output, const Tensor&) { collected.add(output); }});
  return collected.result();
}

}  // namespace lockstep::train
