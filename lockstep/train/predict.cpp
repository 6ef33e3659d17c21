// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/predict.h"

#include <algorithm>
#include <cstring>

#include "lockstep/data/loader.h"

namespace lockstep::train {
namespace {

std::size_t count_inputs(const FieldRoles& roles) {
  if (roles.empty()) return 1;
  return static_cast<std::size_t>(std::count_if(
      roles.begin(), roles.end(), [](const Field& field) { return field.is_input(); }));
}

// The inputs, and a label that the evaluation has in its place.
FieldRoles with_one_label(std::size_t inputs) {
  FieldRoles roles(inputs, input());
  roles.push_back(label());
  return roles;
}

// Transformed samples with a 0 in the place of their labels, which a transform may need.
class Unlabelled final : public data::Dataset {
 public:
  Unlabelled(data::DatasetPtr dataset, const FieldRoles& roles, const data::Transform& transform)
      : dataset_(std::move(dataset)), roles_(roles), transform_(transform) {}
  std::int64_t size() const override { return dataset_->size(); }
  data::Fields sample(std::int64_t index) const override {
    data::Fields fields = batch({&index, 1});
    for (Tensor& field : fields) field = first_row(field);
    return fields;
  }
  data::Fields batch(std::span<const std::int64_t> indices) const override {
    return with_label(data::load_batch(*dataset_, indices, transform_),
                      {static_cast<std::int64_t>(indices.size())});
  }

 private:
  static Tensor first_row(const Tensor& field) {
    Shape shape = field.shape();
    shape.erase(0);
    const Tensor rows = field.contiguous();
    return rows.window(shape, contiguous_strides(shape), rows.offset());
  }

  data::Fields with_label(data::Fields fields, const Shape& shape) const {
    if (fields.size() != count_inputs(roles_))
      fields = inputs_of(resolve_fields(roles_, fields.size()), fields);
    fields.push_back(Tensor::zeros(shape, DType::float32));
    return fields;
  }

  data::DatasetPtr dataset_;
  const FieldRoles& roles_;
  const data::Transform& transform_;
};

// Batches of outputs, one after the other, as one tensor.
class Collected {
 public:
  Collected(std::size_t number, std::int64_t samples) : number_(number), samples_(samples) {}

  // `samples`: of the batch.
  void add(const Tensor& output, std::int64_t samples) {
    check_fits(output, samples);
    if (!all_.defined()) all_ = Tensor::empty(shape_for(output, samples_), output.dtype());
    const std::size_t bytes = output.info().bytes();
    if (bytes > 0) std::memcpy(all_.raw() + filled_, output.contiguous().raw(), bytes);
    filled_ += bytes;
  }
  Tensor result() const {
    check(filled_ == all_.info().bytes(), "predict: a batch of outputs is missing");
    return all_;
  }

 private:
  static Shape shape_for(const Tensor& output, std::int64_t samples) {
    Shape shape = output.shape();
    shape.erase(0);
    shape.insert(0, samples);
    return shape;
  }
  void check_fits(const Tensor& output, std::int64_t samples) const {
    if (output.rank() == 0)
      throw InvalidArgument("predict: the net's output is a scalar, expected an axis of samples");
    if (output.shape(0) != samples)
      throw InvalidArgument("predict: output {} is {}, the batch has {} samples", number_,
                            output.info().str(), samples);
    if (!all_.defined()) return;
    const Shape expected = shape_for(all_, output.shape(0));
    if (output.shape() != expected || output.dtype() != all_.dtype())
      throw InvalidArgument("predict: an output is {}, those before it were {}",
                            output.info().str(), all_.info().str());
  }

  std::size_t number_;
  std::int64_t samples_;
  Tensor all_;
  std::size_t filled_ = 0;
};

}  // namespace

Predictor::Predictor(nn::BlockPtr net, CompileOptions compile, FieldRoles fields)
    : fields_(std::move(fields)),
      evaluator_(
          std::move(net),
          [](const Tensors& /*outputs*/, const Tensors& labels) { return labels.at(0); },
          std::move(compile), with_one_label(count_inputs(fields_))) {}

Predictor::~Predictor() = default;

std::vector<Tensor> Predictor::run(const data::DatasetPtr& dataset, const PredictOptions& options) {
  if (dataset == nullptr || dataset->size() == 0)
    throw InvalidArgument("predict: there are no samples");
  std::vector<Collected> collected;
  const auto collect = [&](const Tensors& outputs, const Tensors& labels) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (i == collected.size()) collected.emplace_back(i, dataset->size());
      collected[i].add(outputs[i], labels.at(0).shape(0));
    }
  };
  const Unlabelled samples(dataset, fields_, options.transform);
  evaluator_.run(samples,
                 {.batch = options.batch, .threads = options.threads, .on_outputs = collect});
  std::vector<Tensor> all;
  for (const Collected& one : collected) all.push_back(one.result());
  return all;
}

}  // namespace lockstep::train
