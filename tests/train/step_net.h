// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/nn/functional.h"
#include "lockstep/ops/ops.h"
#include "lockstep/train/step_engine.h"

namespace lockstep::testing {

// Several buckets' worth of parameters, a table with gradients of rows, slots, running statistics
// and draws: all that a step could leave half done. What passes between its layers goes through
// `between`.
class StepNet final : public nn::Block {
 public:
  using Between = std::function<Tensor(const Tensor&)>;
  explicit StepNet(
      Between between = [](const Tensor& x) { return x; }, bool sparse = true)
      : between_(std::move(between)),
        conv_(add_parameter("conv", {8, 3, 3, 3})),
        gamma_(add_parameter("gamma", {8}, {.init = nn::init::one()})),
        beta_(add_parameter("beta", {8}, {.init = nn::init::zero()})),
        mean_(add_parameter("mean", {8}, {.init = nn::init::zero(), .trainable = false})),
        var_(add_parameter("var", {8}, {.init = nn::init::one(), .trainable = false})),
        hidden_(add_parameter("hidden", {64, 8 * 6 * 6})),
        table_(add_parameter("table", {kRows, 8}, {.sparse_grad = sparse})),
        output_(add_parameter("output", {5, 64 + 8})) {}

  Tensor forward(const Tensor& x) override {
    const auto normed =
        nn::batch_norm(between_(lockstep::conv(x, conv_.data(), {}, {.padding = {1}})),
                       gamma_.data(), beta_.data(), mean_.data(), var_.data());
    mean_.update(normed.mean);
    var_.update(normed.var);
    const Tensor y = lockstep::dense(between_(relu(normed.y)), hidden_.data());
    const Tensor rows = between_(mean(embedding(row_ids(x), table_.data()), {1}));
    const Tensor all = concat({nn::dropout(relu(y), 0.25), rows}, 1);
    return between_(lockstep::dense(all, output_.data()));
  }

 private:
  static constexpr std::int64_t kRows = 24;
  static Tensor row_ids(const Tensor& x) {
    const Tensor pixels = reshape(slice_axis(x, 1, 0, 1), {x.shape(0), -1});
    return lockstep::cast(minimum(abs(slice_axis(pixels, 1, 0, 5)) * 12.0, kRows - 1.0),
                          DType::int64);
  }

  Between between_;
  nn::Parameter conv_, gamma_, beta_, mean_, var_, hidden_, table_, output_;
};

inline constexpr std::int64_t kShardBatch = 2;
inline constexpr std::int64_t kStepNetShards = 8;
inline constexpr int kStepNetSteps = 3;

// What some steps came to.
struct Trained {
  std::vector<double> losses;
  std::string sha256;
  bool operator==(const Trained&) const = default;
};

inline data::Fields shard_batch(std::int64_t step, std::int64_t shard) {
  const RandomScope draws(
      random_key(9, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(shard)));
  return {normal({kShardBatch, 3, 6, 6}), randint(0, 5, {kShardBatch})};
}

// Of the engine's own shards.
inline std::vector<data::Fields> batches(const train::StepEngine& engine, std::int64_t step) {
  std::vector<data::Fields> shards;
  for (std::int64_t s = engine.range().lo; s < engine.range().hi; ++s)
    shards.push_back(shard_batch(step, s));
  return shards;
}

inline Tensor mean_cross_entropy(const Tensor& output, const Tensor& label) {
  return softmax_cross_entropy(output, label);
}

// In buckets that are small, so that there are several.
inline train::StepEngine step_engine(std::int64_t shards, const optim::OptimizerPtr& rule,
                                     kvstore::Mode* mode, int threads) {
  const auto net = std::make_shared<StepNet>();
  net->initialize(nn::init::fan_in(), 3);
  const std::vector<TensorInfo> fields{{{kShardBatch, 3, 6, 6}, DType::float32, {}},
                                       {{kShardBatch}, DType::int64, {}}};
  train::EngineOptions options{.shards = shards, .threads = threads, .seed = 3};
  options.mode = mode;
  options.bucket_bytes = 4096;
  return train::StepEngine(net, mean_cross_entropy, rule, fields, options);
}

}  // namespace lockstep::testing
