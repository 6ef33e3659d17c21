// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/step_engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "lockstep/base/thread_team.h"
#include "lockstep/graph/flops.h"
#include "lockstep/io/archive.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/optim/pieces.h"
#include "lockstep/train/tree_sum.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kPiece = optim::kPieceElements;  // that one thread updates at a time
constexpr std::size_t kFloatAlignment = kAlignment / sizeof(float);

// Memory for float32 values of all parameters that learn, one after the other.
class FlatBuffer {
 public:
  explicit FlatBuffer(std::size_t floats)
      : storage_(Storage::allocate(floats * sizeof(float), {})),
        data_(reinterpret_cast<float*>(storage_->data())) {
    std::fill(data_, data_ + floats, 0.0f);
  }
  float* data() const { return data_; }

 private:
  std::shared_ptr<Storage> storage_;
  float* data_;
};

// One parameter that learns: where its weights are, and its place in flat buffers.
struct Slice {
  std::size_t place;  // in StepGraph::parameters
  float* weight;
  std::size_t offset, count;
  double rate_multiplier, decay_multiplier;
};

struct PieceOfSlice {
  std::size_t slice, begin, end;
};

std::vector<PieceOfSlice> cut(const std::vector<Slice>& slices) {
  std::vector<PieceOfSlice> pieces;
  for (std::size_t s = 0; s < slices.size(); ++s)
    for (std::size_t begin = 0; begin < slices[s].count; begin += kPiece)
      pieces.push_back({s, begin, std::min(begin + kPiece, slices[s].count)});
  return pieces;
}

// What one thread adds its shards' gradients up in.
struct Adder {
  ShardRange range{};
  RangePlan plan;
  std::vector<FlatBuffer> stack;
  int depth = 0;  // of the stack, while leaves arrive
  bool finite = true;
  std::vector<float> scratch = std::vector<float>(2 * kPiece);
};

double tree_sum(std::span<const double> values) {
  if (values.size() == 1) return values[0];
  const auto middle =
      static_cast<std::size_t>(tree_middle(0, static_cast<std::int64_t>(values.size())));
  return tree_sum(values.first(middle)) + tree_sum(values.subspan(middle));
}

}  // namespace

struct StepEngine::Impl {
  optim::OptimizerPtr optimizer;
  EngineOptions options;
  StepGraph step;
  std::vector<Executable> executables;  // one a thread, over the same parameters
  ThreadTeam team;
  double flops_per_sample = 0;

  std::vector<Slice> slices;
  std::size_t floats = 0;
  std::vector<FlatBuffer> slots;
  std::vector<Adder> adders;
  std::vector<const float*> nodes;  // of all threads, in order
  std::vector<int> rest;            // how the nodes become the sum
  std::vector<PieceOfSlice> pieces;
  std::vector<double> piece_sums, piece_weights;

  std::vector<std::vector<Tensor>> outputs;  // by shard: loss, accuracy, updates
  std::vector<Tensor> keys;                  // by shard
  std::vector<Tensor> update_sums;
  std::vector<double> by_shard;
  bool updates_at_once = false;

  Impl(nn::Block& net, const LossFunction& loss, optim::OptimizerPtr rule,
       const std::vector<TensorInfo>& fields, const EngineOptions& given)
      : optimizer(std::move(rule)),
        options(given),
        step(trace_step(net, loss, fields)),
        team(given.threads, "compute") {
    compile(fields);
    make_slices();
    make_adders();
    make_outputs();
  }

  void compile(const std::vector<TensorInfo>& fields) {
    flops_per_sample = count_flops(step.graph) /
                       static_cast<double>(std::max<std::int64_t>(1, fields[0].shape[0]));
    CompileOptions compile = options.compile;
    compile.prologue = options.shards > 1;
    for (std::size_t i = 0; i < step.parameters.size(); ++i)
      compile.states.push_back(step.parameter_input(i));
    for (std::size_t i = 0; i < step.trainable.size(); ++i)
      compile.deliveries.push_back(
          {step.gradient_output(i), step.parameter_input(step.trainable[i])});
    executables.push_back(Executable::compile(step.graph, compile));
    for (int t = 1; t < options.threads; ++t) executables.push_back(executables[0].clone());
  }

  void make_slices() {
    for (std::size_t place : step.trainable) {
      const auto memory = executables[0].state_memory(step.parameter_input(place));
      const nn::ParameterOptions& parameter = step.parameters[place].options;
      const std::size_t count = memory.size() / sizeof(float);
      slices.push_back({place, reinterpret_cast<float*>(memory.data()), floats, count,
                        parameter.rate_multiplier, parameter.decay_multiplier});
      floats += (count + kFloatAlignment - 1) / kFloatAlignment * kFloatAlignment;
    }
    pieces = cut(slices);
    piece_sums.resize(pieces.size());
    piece_weights.resize(pieces.size());
    for (int i = 0; i < optimizer->slots(); ++i) slots.emplace_back(floats);
  }

  // With one thread, the last leaf's gradient makes the whole sum: the update follows at once, and
  // that sum is never kept.
  void make_adders() {
    updates_at_once =
        options.threads == 1 && !optimizer->measures() && optimizer->options().clip_norm <= 0.0;
    std::vector<ShardRange> all_nodes;
    for (const ShardRange& range : deal_shards(options.shards, options.threads)) {
      Adder adder;
      adder.range = range;
      adder.plan = plan_range(options.shards, range);
      const int depth = updates_at_once && options.shards == 1 ? 0 : adder.plan.depth;
      for (int i = 0; i < depth; ++i) adder.stack.emplace_back(floats);
      adders.push_back(std::move(adder));
    }
    for (const Adder& adder : adders)
      for (std::size_t i = 0; i < adder.plan.nodes.size(); ++i) {
        all_nodes.push_back(adder.plan.nodes[i]);
        nodes.push_back(adder.stack.empty() ? nullptr : adder.stack[i].data());
      }
    rest = plan_rest(options.shards, all_nodes);
  }

  void make_outputs() {
    const auto shards = static_cast<std::size_t>(options.shards);
    for (std::size_t s = 0; s < shards; ++s) {
      std::vector<Tensor> room;
      for (const TensorInfo& info : executables[0].output_infos())
        room.push_back(Tensor::zeros(info.shape, info.dtype));
      outputs.push_back(std::move(room));
      keys.push_back(random_key(options.seed, 0, static_cast<std::uint32_t>(s)));
    }
    for (std::size_t place : step.updated)
      update_sums.push_back(Tensor::zeros(step.parameters[place].shape));
    by_shard.resize(shards);
  }

  // Forward and backward of one shard; its gradients go to the thread's sums.
  void run_shard(int thread, std::int64_t shard, const data::Fields& fields,
                 const Executable::Receiver& receiver) {
    std::vector<Tensor> inputs(fields.begin(), fields.end());
    inputs.push_back(keys[static_cast<std::size_t>(shard)]);
    executables[static_cast<std::size_t>(thread)].run_into(
        inputs, outputs[static_cast<std::size_t>(shard)], receiver);
  }

  void run_shards(int thread, std::span<const data::Fields> shards,
                  const optim::UpdateContext& context) {
    Adder& adder = adders[static_cast<std::size_t>(thread)];
    adder.depth = 0;
    adder.finite = true;
    int merges = 0;
    bool completes = false, last = false;
    const Executable::Receiver receiver = [&](std::size_t index, std::span<const std::byte> bytes) {
      const auto* values = reinterpret_cast<const float*>(bytes.data());
      if (!last) return add_slice(adder, merges, completes, index, values);
      adder.finite &= losses_are_finite();
      finish_slice(adder, merges, index, values, context);
    };
    for (std::int64_t shard = adder.range.lo; shard < adder.range.hi; ++shard) {
      const auto leaf = static_cast<std::size_t>(shard - adder.range.lo);
      merges = adder.plan.merges[leaf];
      completes = adder.plan.completes[leaf];
      last = updates_at_once && shard + 1 == options.shards;
      run_shard(thread, shard, shards[static_cast<std::size_t>(shard)], receiver);
      adder.depth += 1 - merges;
    }
  }

  bool losses_are_finite() const {
    return std::all_of(outputs.begin(), outputs.end(), [](const std::vector<Tensor>& of_shard) {
      return std::isfinite(*of_shard[StepGraph::kLoss].data<float>());
    });
  }

  // The top `merges` sums of the stack that a leaf is added to, innermost first.
  static std::vector<const float*> terms(const Adder& adder, int merges, std::size_t offset) {
    std::vector<const float*> result;
    for (int m = 0; m < merges; ++m)
      result.push_back(adder.stack[static_cast<std::size_t>(adder.depth - 1 - m)].data() + offset);
    return result;
  }

  void add_slice(Adder& adder, int merges, bool completes, std::size_t index, const float* values) {
    const Slice& slice = slices[index];
    const int lands = merges == 0 ? adder.depth : adder.depth - merges;
    float* target = adder.stack[static_cast<std::size_t>(lands)].data() + slice.offset;
    adder.finite &=
        add_leaf({values, slice.count}, terms(adder, merges, slice.offset), target, completes);
  }

  // The same piece by piece, each updated while it is in the cache.
  void finish_slice(Adder& adder, int merges, std::size_t index, const float* values,
                    const optim::UpdateContext& context) {
    const Slice& slice = slices[index];
    for (std::size_t begin = 0; begin < slice.count && adder.finite; begin += kPiece) {
      const std::size_t end = std::min(begin + kPiece, slice.count);
      const auto below = terms(adder, merges, slice.offset + begin);
      adder.finite &= add_leaf({values + begin, end - begin}, below, adder.scratch.data(), true);
      if (adder.finite) update_piece({index, begin, end}, adder.scratch.data(), context);
    }
  }

  optim::Piece piece_memory(const PieceOfSlice& piece, const float* gradient,
                            std::vector<float*>& room) const {
    const Slice& slice = slices[piece.slice];
    room.clear();
    for (const FlatBuffer& slot : slots) room.push_back(slot.data() + slice.offset + piece.begin);
    const std::size_t count = piece.end - piece.begin;
    return {{slice.weight + piece.begin, count}, {gradient, count}, room};
  }

  void update_piece(const PieceOfSlice& piece, const float* gradient,
                    optim::UpdateContext context) {
    context.learning_rate *= slices[piece.slice].rate_multiplier;
    context.weight_decay *= slices[piece.slice].decay_multiplier;
    std::vector<float*> room;
    optimizer->update(context, piece_memory(piece, gradient, room));
  }

  // The threads' sums of one piece, added in the tree's order.
  const float* sum_of_nodes(const PieceOfSlice& piece, std::vector<float>& scratch) const {
    const std::size_t offset = slices[piece.slice].offset + piece.begin;
    const std::size_t count = piece.end - piece.begin;
    std::vector<const float*> sums;
    std::vector<std::vector<float>> spare;  // intermediate sums when several are pending
    for (int word : rest) {
      if (word != kAdd) {
        sums.push_back(nodes[static_cast<std::size_t>(word)] + offset);
        continue;
      }
      const float* right = sums.back();
      sums.pop_back();
      const float* left = sums.back();
      float* target = scratch.data();
      const bool taken = std::find(sums.begin(), sums.end() - 1, target) != sums.end() - 1;
      if (taken) target = spare.emplace_back(count).data();
      const float* one[] = {left};
      add_leaf({right, count}, one, target, false);
      sums.back() = target;
    }
    return sums[0];
  }

  // Calls `work` for every piece with its whole gradient, by all threads.
  template <class Work>
  void for_each_piece(const Work& work) {
    std::atomic<std::size_t> next = 0;
    team.run([&](int thread) {
      std::vector<float>& scratch = adders[static_cast<std::size_t>(thread)].scratch;
      for (std::size_t i = next++; i < pieces.size(); i = next++)
        work(i, sum_of_nodes(pieces[i], scratch));
    });
  }

  void update_all(optim::UpdateContext context) {
    if (optimizer->options().clip_norm > 0.0) context.gradient_scale *= clip_factor(context);
    if (optimizer->measures()) {
      update_measured(context);
      return;
    }
    for_each_piece([&](std::size_t i, const float* g) { update_piece(pieces[i], g, context); });
  }

  // Pieces are summed in their order, whoever computed them.
  double clip_factor(const optim::UpdateContext& context) {
    for_each_piece([&](std::size_t i, const float* g) {
      piece_sums[i] = optim::piece_sum_of_squares({g, pieces[i].end - pieces[i].begin});
    });
    const double squares = std::accumulate(piece_sums.begin(), piece_sums.end(), 0.0);
    const double norm = std::sqrt(squares) * context.gradient_scale;
    return optim::clip_factor(norm, optimizer->options().clip_norm);
  }

  void update_measured(const optim::UpdateContext& context) {
    for_each_piece([&](std::size_t i, const float* g) {
      optim::UpdateContext own = context;
      own.learning_rate *= slices[pieces[i].slice].rate_multiplier;
      own.weight_decay *= slices[pieces[i].slice].decay_multiplier;
      std::vector<float*> room;
      const optim::PieceNorms norms = optimizer->measure(own, piece_memory(pieces[i], g, room));
      piece_weights[i] = norms.weight;
      piece_sums[i] = norms.direction;
    });
    std::vector<optim::PieceNorms> of_slice(slices.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      of_slice[pieces[i].slice].weight += piece_weights[i];
      of_slice[pieces[i].slice].direction += piece_sums[i];
    }
    for_each_piece([&](std::size_t i, const float* g) {
      optim::UpdateContext own = context;
      own.weight_norm = std::sqrt(of_slice[pieces[i].slice].weight);
      own.direction_norm = std::sqrt(of_slice[pieces[i].slice].direction);
      update_piece(pieces[i], g, own);
    });
  }

  // Running statistics: the mean of the shards' new values.
  void update_statistics() {
    for (std::size_t u = 0; u < step.updated.size(); ++u) {
      const Tensor& sum = update_sums[u];
      for (std::int64_t k = 0; k < sum.numel(); ++k) {
        for (std::size_t s = 0; s < outputs.size(); ++s)
          by_shard[s] = outputs[s][StepGraph::kFirstUpdate + u].data<float>()[k];
        sum.data<float>()[k] =
            static_cast<float>(tree_sum(by_shard) / static_cast<double>(outputs.size()));
      }
      const std::size_t input = step.parameter_input(step.updated[u]);
      executables[0].pack(input, sum, executables[0].state_memory(input));
    }
  }

  void refresh() {
    std::atomic<std::size_t> next = 0;
    const std::size_t parts = executables[0].refresh_parts();
    if (parts == 0) return;
    team.run([&](int thread) {
      for (std::size_t i = next++; i < parts; i = next++)
        executables[static_cast<std::size_t>(thread)].refresh(i);
    });
  }

  double mean_of(std::size_t output) {
    for (std::size_t s = 0; s < outputs.size(); ++s)
      by_shard[s] = static_cast<double>(*outputs[s][output].data<float>());
    return tree_sum(by_shard) / static_cast<double>(outputs.size());
  }

  void set_keys(std::int64_t number) {
    for (const Tensor& key : keys) key.data<std::int64_t>()[1] = number;
  }
};

StepEngine::StepEngine(nn::BlockPtr net, LossFunction loss, optim::OptimizerPtr optimizer,
                       const std::vector<TensorInfo>& fields, const EngineOptions& options) {
  EngineOptions checked = options;
  if (options.shards < 1)
    throw InvalidArgument("train: at least 1 shard is needed, got {}", options.shards);
  if (options.threads < 1)
    throw InvalidArgument("train: at least 1 thread is needed, got {}", options.threads);
  checked.threads = static_cast<int>(std::min<std::int64_t>(options.threads, options.shards));
  impl_ = std::make_unique<Impl>(*net, loss, std::move(optimizer), fields, checked);
  load(*net);
}

StepEngine::~StepEngine() = default;

StepResult StepEngine::run(std::int64_t step, double learning_rate,
                           std::span<const data::Fields> shards) {
  Impl& impl = *impl_;
  if (static_cast<std::int64_t>(shards.size()) != impl.options.shards)
    throw InvalidArgument("train: a step needs the batches of {} shards, got {}",
                          impl.options.shards, shards.size());
  const optim::CommonOptions& common = impl.optimizer->options();
  optim::UpdateContext context;
  context.step = step + 1;
  context.learning_rate = learning_rate;
  context.weight_decay = common.weight_decay;
  context.clip_value = common.clip_value;
  context.gradient_scale = 1.0 / static_cast<double>(impl.options.shards);
  impl.set_keys(step);
  impl.team.run([&](int thread) { impl.run_shards(thread, shards, context); });
  StepResult result{impl.mean_of(StepGraph::kLoss), impl.mean_of(StepGraph::kAccuracy)};
  result.finite =
      impl.losses_are_finite() && std::all_of(impl.adders.begin(), impl.adders.end(),
                                              [](const Adder& adder) { return adder.finite; });
  if (!result.finite) return result;
  if (!impl.updates_at_once) impl.update_all(context);
  impl.update_statistics();
  impl.refresh();
  return result;
}

void StepEngine::store(nn::Block& net) const {
  for (std::size_t i = 0; i < impl_->step.parameters.size(); ++i)
    net.parameter(impl_->step.parameters[i].name)
        .set_data(impl_->executables[0].state(impl_->step.parameter_input(i)));
}

void StepEngine::load(const nn::Block& net) {
  for (std::size_t i = 0; i < impl_->step.parameters.size(); ++i)
    impl_->executables[0].set_state(impl_->step.parameter_input(i),
                                    net.parameter(impl_->step.parameters[i].name).data());
}

std::vector<std::pair<std::string, Tensor>> StepEngine::slots() const {
  std::vector<std::pair<std::string, Tensor>> result;
  for (std::size_t k = 0; k < impl_->slots.size(); ++k)
    for (const Slice& slice : impl_->slices) {
      const float* data = impl_->slots[k].data() + slice.offset;
      result.emplace_back(
          fmt::format("slot{}/{}", k, impl_->step.parameters[slice.place].name),
          impl_->executables[0].unpack(impl_->step.parameter_input(slice.place),
                                       std::as_bytes(std::span(data, slice.count))));
    }
  return result;
}

void StepEngine::set_slots(const std::vector<std::pair<std::string, Tensor>>& slots) {
  for (std::size_t k = 0; k < impl_->slots.size(); ++k)
    for (const Slice& slice : impl_->slices) {
      const StepGraph::Parameter& parameter = impl_->step.parameters[slice.place];
      const std::string name = fmt::format("slot{}/{}", k, parameter.name);
      const auto found =
          std::find_if(slots.begin(), slots.end(), [&](const auto& s) { return s.first == name; });
      if (found == slots.end()) throw Corrupt("train: the optimiser's state has no {}", name);
      if (!(found->second.shape() == parameter.shape) || found->second.dtype() != DType::float32)
        throw Corrupt("train: {} is {}, the parameter is {}", name, found->second.info().str(),
                      parameter.shape.str());
      float* data = impl_->slots[k].data() + slice.offset;
      impl_->executables[0].pack(impl_->step.parameter_input(slice.place), found->second,
                                 std::as_writable_bytes(std::span(data, slice.count)));
    }
}

std::string StepEngine::params_sha256() const {
  std::vector<io::NamedTensor> tensors;
  for (std::size_t i = 0; i < impl_->step.parameters.size(); ++i)
    tensors.emplace_back(impl_->step.parameters[i].name,
                         impl_->executables[0].state(impl_->step.parameter_input(i)));
  return io::tensors_sha256(std::move(tensors));
}

std::string StepEngine::find_bad_op(std::int64_t step, std::span<const data::Fields> shards) {
  impl_->set_keys(step);
  for (std::size_t s = 0; s < shards.size(); ++s) {
    std::vector<Tensor> inputs(shards[s].begin(), shards[s].end());
    inputs.push_back(impl_->keys[s]);
    const std::string found = impl_->executables[0].find_non_finite(inputs);
    if (found.empty()) continue;
    if (found.starts_with("state ")) {
      const std::size_t input = std::stoul(found.substr(6));
      return "parameter " + impl_->step.parameters[input - impl_->step.fields - 1].name;
    }
    if (found.starts_with("input ")) return fmt::format("the data of shard {}", s);
    return "op " + found.substr(0, found.find(" by "));
  }
  return {};
}

std::int64_t StepEngine::shards() const { return impl_->options.shards; }
int StepEngine::threads() const { return impl_->options.threads; }
double StepEngine::flops_per_sample() const { return impl_->flops_per_sample; }
const Executable& StepEngine::executable() const { return impl_->executables[0]; }

std::size_t StepEngine::step_bytes() const {
  std::size_t bytes = impl_->executables[0].state_bytes();
  for (const Executable& executable : impl_->executables) bytes += executable.arena_bytes();
  std::size_t buffers = impl_->slots.size();
  for (const Adder& adder : impl_->adders) buffers += adder.stack.size();
  return bytes + buffers * impl_->floats * sizeof(float);
}

}  // namespace lockstep::train
