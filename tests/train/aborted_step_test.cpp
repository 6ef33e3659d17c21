// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <random>
#include <thread>

#include "lockstep/comm/errors.h"
#include "lockstep/comm/transports/in_process.h"
#include "lockstep/kvstore/allreduce.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/optim/optimizers.h"
#include "tests/seed.h"
#include "tests/train/step_net.h"

// A step that ends anywhere, in an op, a delivery, a sum, a rule or a vote, leaves the step before,
// bit for bit: the same step again, in a new membership where there are several workers, gives the
// bits of the run that nothing disturbed.
namespace lockstep::train {
namespace {

using testing::batches, testing::shard_batch;

constexpr std::int64_t kAbortedShards = 6, kAbortedSteps = 12;

enum class Place { op, give, rule, transfer };
constexpr Place kPlaces[] = {Place::op, Place::give, Place::rule, Place::transfer};

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws once, at the event of its place that it is set to, whoever comes to it.
class Fuse {
 public:
  void set(Place place, int events) {
    place_ = place;
    left_ = events;
  }
  void clear() { left_ = 0; }
  void burn(Place place) {
    if (place == place_ && left_ > 0 && --left_ == 0) throw Broken("the fuse has burnt");
  }

 private:
  std::atomic<Place> place_ = Place::op;
  std::atomic<int> left_ = 0;
};
Fuse fuse_of_ops;  // a kernel knows no more than its operands

Infos as_the_first(const InferArgs& args) { return {args.inputs[0]}; }
void copy_or_break(const KernelCall& call) {
  fuse_of_ops.burn(Place::op);
  std::copy_n(call.inputs[0].as<float>(), call.inputs[0].numel(), call.outputs[0].as<float>());
}
std::vector<Tensor> gradient_that_breaks(const GradientArgs& args);

const OpDef& breaking_op() {
  static const KernelCandidate kernels[] = {{.name = "plain", .direct = copy_or_break}};
  static const OpDef op{
      .name = "breaking", .infer = as_the_first, .gradient = gradient_that_breaks, .cpu = kernels};
  return op;
}
Tensor breaking(const Tensor& x) {
  return lockstep::apply(breaking_op(), std::vector<Tensor>{x})[0];
}
std::vector<Tensor> gradient_that_breaks(const GradientArgs& args) {
  return {breaking(args.grad())};
}

class BreakingRule final : public optim::Optimizer {
 public:
  BreakingRule(optim::OptimizerPtr rule, Fuse& fuse)
      : Optimizer(rule->options()), rule_(std::move(rule)), fuse_(fuse) {}
  std::string_view name() const override { return rule_->name(); }
  int slots() const override { return rule_->slots(); }
  std::string description() const override { return rule_->description(); }
  bool measures() const override { return rule_->measures(); }
  optim::PieceNorms measure(const optim::UpdateContext& context,
                            const optim::Piece& piece) const override {
    fuse_.burn(Place::rule);
    return rule_->measure(context, piece);
  }
  void update(const optim::UpdateContext& context, const optim::Piece& piece) const override {
    rule_->update(context, piece);
    fuse_.burn(Place::rule);
  }

 private:
  optim::OptimizerPtr rule_;
  Fuse& fuse_;
};

class BreakingTransport final : public comm::Transport {
 public:
  BreakingTransport(std::unique_ptr<comm::Transport> inner, Fuse& fuse)
      : inner_(std::move(inner)), fuse_(fuse) {}
  std::string_view name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& host(int rank) const override { return inner_->host(rank); }
  void exchange(std::span<comm::Transfer> transfers, comm::Deadline deadline,
                std::string_view operation) override {
    fuse_.burn(Place::transfer);
    inner_->exchange(transfers, deadline, operation);
  }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  std::unique_ptr<comm::Transport> subgroup(const std::vector<int>& ranks,
                                            comm::Deadline deadline) override {
    return inner_->subgroup(ranks, deadline);
  }

 private:
  std::unique_ptr<comm::Transport> inner_;
  Fuse& fuse_;
};

class BreakingSynchronizer final : public kvstore::Synchronizer {
 public:
  BreakingSynchronizer(std::unique_ptr<kvstore::Synchronizer> inner, Fuse& fuse)
      : inner_(std::move(inner)), fuse_(fuse) {}
  kvstore::FlatState& state() override { return inner_->state(); }
  bool takes_pieces() const override { return inner_->takes_pieces(); }
  bool waits_for_links() const override { return inner_->waits_for_links(); }
  std::span<float> memory() override { return inner_->memory(); }
  void begin(std::int64_t step, double rate) override { inner_->begin(step, rate); }
  void give(std::size_t offset, std::span<const Node> nodes) override {
    inner_->give(offset, nodes);
    fuse_.burn(Place::give);
  }
  void give_rows(std::vector<std::vector<kvstore::RowNode>> tables) override {
    inner_->give_rows(std::move(tables));
    fuse_.burn(Place::give);
  }
  kvstore::Vote commit(const kvstore::Vote& own, std::span<float> rows, ThreadTeam& team) override {
    return inner_->commit(own, rows, team);
  }
  std::span<const float> sums() const override { return inner_->sums(); }
  std::span<float> residual() override { return inner_->residual(); }

 private:
  std::unique_ptr<kvstore::Synchronizer> inner_;
  Fuse& fuse_;
};

class BreakingMode final : public kvstore::Mode {
 public:
  BreakingMode(std::unique_ptr<kvstore::Mode> inner, Fuse& fuse)
      : inner_(std::move(inner)), fuse_(fuse) {}
  kvstore::Group& group() override { return inner_->group(); }
  std::unique_ptr<kvstore::Synchronizer> synchronize(kvstore::FlatState& state,
                                                     std::int64_t shards) override {
    return std::make_unique<BreakingSynchronizer>(inner_->synchronize(state, shards), fuse_);
  }
  bool keeps_residuals() const override { return inner_->keeps_residuals(); }

 private:
  std::unique_ptr<kvstore::Mode> inner_;
  Fuse& fuse_;
};

struct Setting {
  const char* name;
  optim::OptimizerPtr rule;
  int workers = 1, threads = 1;
  const char* compression = "none";
  bool linked = false;  // each worker on a host of its own
};

StepEngine engine_with_fuse(const Setting& setting, kvstore::Mode* mode, Fuse& fuse) {
  const auto net = std::make_shared<testing::StepNet>(breaking);
  net->initialize(nn::init::fan_in(), 3);
  EngineOptions options{.shards = kAbortedShards, .threads = setting.threads, .seed = 3};
  options.mode = mode;
  options.bucket_bytes = 4096;
  return StepEngine(net, testing::mean_cross_entropy,
                    std::make_shared<BreakingRule>(setting.rule, fuse),
                    data::infos_of(shard_batch(0, 0)), options);
}

void append(std::string& bytes, const std::vector<std::pair<std::string, Tensor>>& tensors) {
  for (const auto& [name, tensor] : tensors)
    bytes.append(reinterpret_cast<const char*>(tensor.data<float>()),
                 static_cast<std::size_t>(tensor.numel()) * sizeof(float));
}

// Parameters and statistics, what the rule keeps, what was not sent.
std::string state_of(StepEngine& engine) {
  std::string bytes = engine.params_sha256();
  append(bytes, engine.slots());
  append(bytes, engine.residuals());
  return bytes;
}

// A step breaks at that event; past the last one of its place it does not.
struct Break {
  Place place;
  int events;
};
using Breaks = std::vector<std::vector<Break>>;  // by step

// A job whose workers meet again, in a group of their own, after a step that broke.
class Job {
 public:
  Job(const Setting& setting, Breaks breaks)
      : setting_(setting), breaks_(std::move(breaks)), meeting_(setting.workers) {}

  // The states at the end, by worker.
  std::vector<std::string> run() {
    std::vector<std::string> states(static_cast<std::size_t>(setting_.workers));
    failed_.assign(states.size(), 0);
    new_group();
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < setting_.workers; ++worker)
      threads.emplace_back(
          [&, worker] { states[static_cast<std::size_t>(worker)] = work(worker); });
    threads.clear();
    return states;
  }
  int broken() const { return broken_; }

 private:
  // A worker in one generation.
  struct Connection {
    std::unique_ptr<comm::Communicator> communicator;
    std::unique_ptr<kvstore::Mode> mode;
  };

  void new_group() {
    std::vector<std::string> hosts;
    for (int worker = 0; worker < setting_.workers; ++worker)
      hosts.push_back(setting_.linked ? std::to_string(worker) : "here");
    groups_.push_back(std::make_unique<comm::InProcessGroup>(hosts));
  }

  Connection connect(int worker) {
    Connection connection;
    connection.communicator = std::make_unique<comm::Communicator>(
        std::make_unique<BreakingTransport>(groups_.back()->connect(worker), fuse_));
    kvstore::AllReduceOptions options;
    options.compression = kvstore::parse_compression(setting_.compression);
    auto mode = setting_.workers == 1 ? kvstore::local_mode()
                                      : kvstore::allreduce_mode(*connection.communicator, options);
    connection.mode = std::make_unique<BreakingMode>(std::move(mode), fuse_);
    return connection;
  }

  std::string work(int worker) {
    std::vector<Connection> connections;
    connections.push_back(connect(worker));
    StepEngine engine = engine_with_fuse(setting_, connections.back().mode.get(), fuse_);
    for (std::int64_t step = 0; step < kAbortedSteps; ++step) {
      bool done = false;
      for (const Break& planned : breaks_[static_cast<std::size_t>(step)]) {
        if (done) break;
        meet(worker, [&] {
          (planned.place == Place::op ? fuse_of_ops : fuse_).set(planned.place, planned.events);
        });
        done = run_step(worker, step, engine, connections);
      }
      if (!done) run_step(worker, step, engine, connections);
    }
    return state_of(engine);
  }

  // All workers wait for each other; the first does something meanwhile.
  template <class Work>
  void meet(int worker, const Work& work) {
    meeting_.arrive_and_wait();
    if (worker == 0) work();
    meeting_.arrive_and_wait();
  }

  // Whether the step is done. Where some workers committed it and others did not, these compute it
  // again, each by itself: it is the same step.
  bool run_step(int worker, std::int64_t step, StepEngine& engine,
                std::vector<Connection>& connections) {
    comm::Communicator& communicator = *connections.back().communicator;
    char& failed = failed_[static_cast<std::size_t>(worker)];
    failed = 0;
    try {
      engine.run(step, 0.05, batches(engine, step));
    } catch (const Broken&) {
      communicator.abort("a worker broke");
      failed = 1;
    } catch (const comm::Aborted&) {
      failed = 1;
    }
    meet(worker, [&] {
      fuse_.clear();
      fuse_of_ops.clear();
      failures_ = static_cast<int>(std::count(failed_.begin(), failed_.end(), 1));
    });
    if (failures_ == 0) return true;
    const bool done = failures_ < setting_.workers;
    const auto alone = kvstore::local_mode();
    if (done && failed != 0) {
      engine.replan(*alone);
      engine.run(step, 0.05, batches(engine, step));
    }
    meet(worker, [&] {
      ++broken_;
      new_group();
    });
    connections.push_back(connect(worker));
    engine.replan(*connections.back().mode);
    return done;
  }

  const Setting& setting_;
  Breaks breaks_;
  Fuse fuse_;
  std::barrier<> meeting_;
  std::vector<std::unique_ptr<comm::InProcessGroup>> groups_;  // by generation
  std::vector<char> failed_;                                   // by worker
  int failures_ = 0;                                           // of the last try
  int broken_ = 0;
};

// The last event that a step of these settings may reach, more or less.
int most_events(Place place) {
  switch (place) {
    case Place::op: return 48;
    case Place::give: return 8;
    case Place::rule: return 9;
    case Place::transfer: return 46;
  }
  return 1;
}

// What is not sent yet is a worker's own: no other could compute a step for it. So compressing
// workers break before anybody can have committed.
Breaks draw_breaks(const Setting& setting, std::mt19937_64& random) {
  const bool compresses = std::string_view(setting.compression) != "none";
  const std::size_t places = setting.workers == 1 || compresses ? 3 : 4;
  Breaks breaks(static_cast<std::size_t>(kAbortedSteps));
  for (auto& of_step : breaks)
    for (int i = 0; i < 8; ++i) {
      const Place place = kPlaces[random() % places];
      of_step.push_back(
          {place, 1 + static_cast<int>(random() % static_cast<unsigned>(most_events(place)))});
    }
  return breaks;
}

TEST(AbortedStep, LeavesTheStepBeforeWhereverItBreaks) {
  const auto momentum = optim::sgd({.momentum = 0.9});
  const Setting settings[] = {
      {"alone", momentum},
      {"alone, adam", optim::adam({}), 1, 3},
      {"alone, clipped", optim::adamw({.clip_norm = 0.5}), 1, 2},
      {"alone, lamb", optim::lamb({}), 1, 2},
      {"two", momentum, 2, 1},
      {"two, lamb", optim::lamb({}), 2, 2},
      {"three, clipped", optim::adamw({.clip_norm = 0.5}), 3, 1},
      {"two hosts", optim::adam({}), 2, 2, "none", true},
      {"three hosts, lamb", optim::lamb({}), 3, 2, "none", true},
      {"two, 2bit", momentum, 2, 1, "2bit:0.05"},
      {"three hosts, topk", momentum, 3, 2, "topk:0.1", true},
  };
  std::mt19937_64 random(testing::seed_of_this_run());
  int broken = 0;
  for (const Setting& setting : settings) {
    const auto undisturbed = Job(setting, Breaks(static_cast<std::size_t>(kAbortedSteps))).run();
    for (int of_setting = 0; of_setting < 95;) {
      Job job(setting, draw_breaks(setting, random));
      EXPECT_TRUE(job.run() == undisturbed) << setting.name;
      ASSERT_GT(job.broken(), 0) << setting.name;
      of_setting += job.broken();
      broken += job.broken();
    }
  }
  EXPECT_GT(broken, 1000);
}

}  // namespace
}  // namespace lockstep::train
