// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/random_batch.h"

#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/random_ops.h"

namespace lockstep::recipes {
namespace {

Tensor draw(const TensorInfo& info, std::int64_t range) {
  return range > 0 ? cast(randint(0, range, info.shape), info.dtype) : uniform(info.shape);
}

}  // namespace

data::Fields random_batch(const Recipe& recipe, std::int64_t batch) {
  const std::vector<TensorInfo> infos = recipe.fields(batch);
  const RandomScope scope(random_key(1));
  if (recipe.sample_fields.empty())
    return {draw(infos[0], recipe.input_range), draw(infos[1], recipe.classes)};
  data::Fields fields;
  for (std::size_t i = 0; i < infos.size(); ++i)
    fields.push_back(draw(infos[i], recipe.sample_fields[i].range));
  return fields;
}

}  // namespace lockstep::recipes
