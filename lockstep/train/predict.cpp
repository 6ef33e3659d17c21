// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/predict.h"

#include <algorithm>
#include <numeric>

#include "lockstep/autograd/autograd.h"
#include "lockstep/base/float_mode.h"
#include "lockstep/data/loader.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::train {
namespace {

using Tensors = std::vector<Tensor>;

Tensors inputs_alone(const data::Fields& fields, const FieldRoles& roles) {
  const auto inputs = static_cast<std::size_t>(
      std::count_if(roles.begin(), roles.end(), [](const Field& f) { return f.is_input(); }));
  const std::size_t alone = roles.empty() ? 1 : inputs;
  if (fields.size() == alone) return fields;
  return inputs_of(resolve_fields(roles, fields.size()), fields);
}

data::Fields load(const data::Dataset& dataset, std::int64_t first, const PredictOptions& options) {
  const std::int64_t end = std::min(first + options.batch, dataset.size());
  std::vector<std::int64_t> samples(static_cast<std::size_t>(end - first));
  std::iota(samples.begin(), samples.end(), first);
  return data::load_batch(dataset, samples, options.transform);
}

}  // namespace

Tensors predict(nn::Block& net, const data::Dataset& dataset, const PredictOptions& options) {
  if (options.batch < 1)
    throw InvalidArgument("predict: batch is {}, expected 1 or more", options.batch);
  if (dataset.size() == 0) throw InvalidArgument("predict: the data set is empty");
  const FlushSubnormals flush;
  const autograd::PauseScope predict_mode;
  const RandomScope draws(random_key(0, 0, 0));
  CompiledFunction run([&](const Tensors& x) { return net(x); }, options.compile);
  std::vector<Tensors> parts;  // of each output
  for (std::int64_t first = 0; first < dataset.size(); first += options.batch) {
    const Tensors inputs = inputs_alone(load(dataset, first, options), options.fields);
    if (first == 0) net.complete_shapes(data::infos_of(inputs));
    Tensors outputs = run(inputs);
    parts.resize(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) parts[i].push_back(std::move(outputs[i]));
  }
  Tensors joined;
  for (const Tensors& part : parts) joined.push_back(concat(part, 0));
  return joined;
}

}  // namespace lockstep::train
