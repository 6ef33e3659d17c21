// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>

#include "lockstep/autograd/autograd.h"
#include "lockstep/nn/layers.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/optim/updater.h"
#include "lockstep/train/trainer.h"
#include "tests/message.h"

// Whatever of autograd a net uses, a step means the same op by op on the tape, hybridized, and in
// the trainer, which traces it.
namespace lockstep {
namespace {

using autograd::Function;
using autograd::PauseScope;
using autograd::RecordScope;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t kBatch = 4, kSize = 3;
constexpr double kRate = 0.1;
constexpr std::uint64_t kSeed = 5;

Tensor ramp(const Shape& shape, double first, double step) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    values.push_back(static_cast<float>(first + step * static_cast<double>(i)));
  return Tensor::from(values, shape);
}

struct Weights {
  Tensor w, v;  // [kSize]
};

// A block of two weights whose forward is a function.
class Net final : public nn::Block {
 public:
  using Forward = std::function<Tensor(const Weights&, const Tensor& x)>;
  explicit Net(Forward forward) : forward_(std::move(forward)) {
    const auto start = [](double first, double step) {
      return nn::Initializer{"ramp", [=](const Shape& s) { return ramp(s, first, step); }};
    };
    w_ = add_parameter("w", {kSize}, {.init = start(0.7, 0.4)});
    v_ = add_parameter("v", {kSize}, {.init = start(-0.6, 0.5)});
  }
  Tensor forward(const Tensor& x) override { return forward_({w_.data(), v_.data()}, x); }

 private:
  Forward forward_;
  nn::Parameter w_, v_;
};

nn::BlockPtr net(Net::Forward forward) { return std::make_shared<Net>(std::move(forward)); }

struct Round : Function {
  Tensors forward(std::span<const Tensor> in) override { return {round(in[0])}; }
  Tensors backward(std::span<const Tensor> grads) override { return {grads[0]}; }
};

struct Reverse : Function {
  Tensors forward(std::span<const Tensor> in) override { return {in[0]}; }
  Tensors backward(std::span<const Tensor> grads) override { return {-grads[0]}; }
};

// Two inputs, two outputs, saved inputs and a saved output; gradients that no op has.
struct Odd : Function {
  Tensors forward(std::span<const Tensor> in) override {
    saved_ = {in[0], in[1], exp(in[0] * in[1])};
    return {saved_[2], in[0] + in[1]};
  }
  Tensors backward(std::span<const Tensor> grads) override {
    return {grads[0] * saved_[2] * saved_[1] * 2.0 + grads[1], grads[1] * saved_[0] - grads[0]};
  }
  Tensors saved_;
};

// Backward goes through another function.
struct Outer : Function {
  Tensors forward(std::span<const Tensor> in) override {
    saved_ = in[0];
    return {square(in[0])};
  }
  Tensors backward(std::span<const Tensor> grads) override {
    return {autograd::call(std::make_shared<Reverse>(), {grads[0] * saved_})[0]};
  }
  Tensor saved_;
};

template <class F>
Tensor apply_function(const Tensor& x) {
  return autograd::call(std::make_shared<F>(), {x})[0];
}

Tensor half_squares(const Tensor& output, const Tensor& label) {
  return square(output - label) * 0.5;
}

struct Feature {
  const char* name;
  std::function<nn::BlockPtr()> make;
  train::LossFunction loss = half_squares;
};

Feature with(const char* name, Net::Forward forward, train::LossFunction loss = half_squares) {
  return {name, [=] { return net(forward); }, std::move(loss)};
}

// Steps on the state of a recurrent layer without its history.
struct Truncated final : nn::Block {
  Truncated() : cell(add_child("cell", nn::rnn(kSize, {.layout = "NTC"}))) {}
  Tensor forward(const Tensor& x) override {
    const Tensor sequence = reshape(x, {kBatch, 1, kSize});
    const Tensors first = (*cell)(Tensors{sequence});
    const Tensors second = (*cell)(Tensors{sequence, first[1].detach()});
    return reshape(second[0], {kBatch, kSize});
  }
  std::shared_ptr<nn::Block> cell;
};

struct Twice final : nn::Block {
  Twice() : norm(add_child("norm", nn::batch_norm())) {}
  Tensor forward(const Tensor& x) override { return (*norm)((*norm)(x)*2.0 + 1.0); }
  std::shared_ptr<nn::Block> norm;
};

nn::BlockPtr mostly_frozen(void (*freeze)(nn::Block&)) {
  auto block =
      nn::sequential(nn::dense(kSize), nn::batch_norm(), nn::dropout(0.5), nn::dense(kSize));
  freeze((*block)[1]);
  return block;
}

std::vector<Feature> features() {
  return {
      with("detach", [](auto& p, auto& x) { return x * p.w * p.w.detach() + p.v; }),
      with("detach of a result",
           [](auto& p, auto& x) {
             const Tensor y = x * p.w;
             return y * tanh(y).detach() + p.v;
           }),
      with("stop_gradient", [](auto& p, auto& x) { return x * p.w * stop_gradient(p.w) + p.v; }),
      with("pause",
           [](auto& p, auto& x) {
             Tensor scale;
             {
               const PauseScope pause;
               scale = exp(p.w) + p.v;
             }
             return x * p.w * scale + p.v;
           }),
      with("record inside a pause",
           [](auto& p, auto& x) {
             Tensor seen, unseen;
             {
               const PauseScope pause;
               unseen = tanh(p.w);
               const RecordScope record;
               seen = tanh(p.v) * unseen;
             }
             return x * p.w + seen + unseen;
           }),
      {"pause in a lambda",
       [] {
         return nn::sequential(nn::dense(kSize), nn::lambda([](const Tensor& y) {
                                 const PauseScope pause;
                                 const Tensor scale = tanh(y);
                                 const RecordScope record;
                                 return y * scale;
                               }),
                               nn::dense(kSize));
       }},
      with("straight through",
           [](auto& p, auto& x) { return apply_function<Round>(p.w * 3.0) * x + p.v; }),
      with("gradient reversal",
           [](auto& p, auto& x) { return apply_function<Reverse>(x * p.w) + p.v; }),
      with("a function of two",
           [](auto& p, auto& x) {
             const Tensors y = autograd::call(std::make_shared<Odd>(), {p.w, p.v});
             return x * y[0] + y[1];
           }),
      with("one output of two",
           [](auto& p, auto& x) {
             return x * autograd::call(std::make_shared<Odd>(), {p.w, p.v})[1] + p.v;
           }),
      with("a function in a function's backward",
           [](auto& p, auto& x) { return apply_function<Outer>(p.w) * x + p.v; }),
      {"a function in a hybridized child",
       [] {
         auto child = net([](auto& p, auto& x) { return apply_function<Reverse>(x * p.w) + p.v; });
         child->hybridize();
         return nn::sequential(child, nn::dense(kSize));
       }},
      with("gradient penalty",
           [](auto& p, auto& x) {
             const RecordScope record;
             const Tensor y = tanh(x * p.w) + p.v;
             const Tensor slope = autograd::grad({sum(y)}, {p.w}, {}, true)[0];
             return y + slope * slope;
           }),
      with("gradient penalty on the input",
           [](auto& p, auto& x) {
             const RecordScope record;
             autograd::attach_grad(x);
             const Tensor y = tanh(x * p.w) + p.v;
             const Tensor slope = autograd::grad({sum(y)}, {x}, {}, true)[0];
             return y + square(slope - 1.0);
           }),
      with("a gradient as a number",
           [](auto& p, auto& x) {
             const RecordScope record;
             const Tensor y = tanh(x * p.w) + p.v;
             const Tensor slope = autograd::grad({sum(y)}, {p.w}, {}, false, true)[0];
             return y + slope * slope;
           }),
      with("a gradient through a function",
           [](auto& p, auto& x) {
             const RecordScope record;
             const Tensor y = apply_function<Outer>(p.w) * x + p.v;
             return y + autograd::grad({sum(y)}, {p.w}, {}, true)[0];
           }),
      with("a leaf inside",
           [](auto& p, auto& x) {
             const RecordScope record;
             const Tensor y = p.w * 2.0;
             const Tensor before = y * p.v;
             autograd::attach_grad(y);
             return before + y * x + autograd::grad({sum(y * y)}, {y}, {}, true)[0] * p.v;
           }),
      with("backward inside",
           [](auto& p, auto& x) {
             const Tensor y = x.detach();
             autograd::attach_grad(y);
             {
               const RecordScope record;
               autograd::backward({sum(square(y) * p.v.detach())});
             }
             return autograd::gradient(y) * p.w + p.v;
           }),
      with("no gradient for a parameter from here on",
           [](auto& p, auto& x) {
             const Tensor y = x * p.w + p.v;
             const Tensor w = p.w.detach();
             autograd::attach_grad(w, autograd::GradMode::off);
             return y * w;
           }),
      with("predict mode around a dropout",
           [](auto& p, auto& x) {
             const Tensor y = nn::dropout(x * p.w, 0.5);
             const autograd::ModeScope predict(false);
             return nn::dropout(y * p.v, 0.5) + y;
           }),
      with("the mode of a pause",
           [](auto& p, auto& x) {
             double factor = 1.0;
             {
               const PauseScope pause(true);
               factor += autograd::is_training() ? 0.5 : 0.0;
             }
             {
               const PauseScope pause;
               factor += autograd::is_training() ? 0.25 : 0.0;
             }
             return x * p.w * factor + p.v;
           }),
      with("asking whether something is recorded",
           [](auto& p, auto& x) {
             const double factor = autograd::is_recording() && autograd::is_training() ? 2.0 : 1.0;
             return x * p.w * factor + p.v;
           }),
      with(
          "detach in the loss", [](auto& p, auto& x) { return x * p.w + p.v; },
          [](const Tensor& output, const Tensor& label) {
            return square(output - label) * exp(-output).detach();
          }),
      with(
          "a function in the loss", [](auto& p, auto& x) { return x * p.w + p.v; },
          [](const Tensor& output, const Tensor& label) {
            return square(apply_function<Round>(output * 4.0) - label);
          }),
      with("roundings",
           [](auto& p, auto& x) { return x * sign(p.w) + floor(p.w * 3.0) + ceil(p.w) + p.v; }),
      with("all of a parameter behind a rounding",
           [](auto& p, auto& x) { return round(x * p.w) + p.v; }),
      with("comparisons and indices",
           [](auto& p, auto& x) {
             const Tensor y = x * p.w;
             const Tensor chosen = one_hot(cast(argmax(y, -1), DType::int64), kSize);
             const Tensor whole = cast(cast(y, DType::int32), DType::float32);
             return where(y > p.v, chosen, y) + cast(y < 0.3, DType::float32) * p.v + whole;
           }),
      {"a frozen parameter",
       [] {
         auto block = net([](auto& p, auto& x) { return x * p.w + p.v; });
         block->parameter("w").set_trainable(false);
         return block;
       }},
      {"a parameter without gradient",
       [] {
         auto block = net([](auto& p, auto& x) { return x * p.w + p.v; });
         block->parameter("w").set_grad_mode(autograd::GradMode::off);
         return block;
       }},
      {"a state without history", [] { return std::make_shared<Truncated>(); }},
      {"statistics updated twice", [] { return std::make_shared<Twice>(); }},
      {"a frozen batch norm",
       [] { return mostly_frozen([](nn::Block& block) { block.freeze(); }); }},
      {"a batch norm in predict mode",
       [] { return mostly_frozen([](nn::Block& block) { block.set_mode(nn::Mode::predict); }); }},
      {"a net in predict mode with a batch norm that trains",
       [] {
         auto block = mostly_frozen([](nn::Block& norm) { norm.set_mode(nn::Mode::train); });
         block->set_mode(nn::Mode::predict);
         return block;
       }},
  };
}

struct Task {
  Tensor x = ramp({kBatch, kSize}, -1.1, 0.23);
  Tensor label = ramp({kBatch, kSize}, 0.8, -0.11);
};

using Values = std::vector<std::pair<std::string, std::vector<float>>>;

Values values_of(const nn::Block& block) {
  Values values;
  for (const auto& [name, parameter] : block.parameters())
    values.emplace_back(name, parameter.data().to_vector<float>());
  return values;
}

optim::OptimizerPtr rule() { return optim::sgd({.learning_rate = kRate, .weight_decay = 0.01}); }

Values after_steps_by_hand(const Feature& feature, bool hybridize, int steps) {
  const Task task;
  const nn::BlockPtr block = feature.make();
  block->initialize(nn::init::fan_in(), kSeed);
  block->complete_shapes({task.x.info()});
  if (hybridize) block->hybridize();
  optim::Updater updater(block->parameters(), rule());
  for (int step = 0; step < steps; ++step) {
    const RandomScope draws(random_key(kSeed, static_cast<std::uint32_t>(step)));
    Tensor loss;
    {
      const RecordScope record;
      loss = mean(feature.loss((*block)(task.x), task.label));
    }
    autograd::backward(loss);
    updater.step();
  }
  return values_of(*block);
}

Values after_steps_of_the_trainer(const Feature& feature, int steps) {
  const Task task;
  const nn::BlockPtr block = feature.make();
  train::Trainer trainer(block, feature.loss, rule(),
                         {.global_batch = kBatch, .shards = 1, .seed = kSeed});
  trainer.fit(std::make_shared<data::ArrayDataset>(data::Fields{task.x, task.label}),
              {.steps = steps, .sampler = data::sequential_sampler(kBatch)});
  return values_of(*block);
}

void expect_same(const Values& got, const Values& expected, const std::string& where) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].first, expected[i].first);
    for (std::size_t k = 0; k < got[i].second.size(); ++k)
      EXPECT_NEAR(got[i].second[k], expected[i].second[k], 2e-6)
          << where << ": " << got[i].first << "[" << k << "]";
  }
}

class AutogradFeatures : public ::testing::TestWithParam<Feature> {};

TEST_P(AutogradFeatures, MeansTheSameByHandHybridizedAndInTheTrainer) {
  const Feature& feature = GetParam();
  for (const int steps : {1, 3}) {
    const Values by_hand = after_steps_by_hand(feature, false, steps);
    expect_same(after_steps_by_hand(feature, true, steps), by_hand, "hybridized");
    expect_same(after_steps_of_the_trainer(feature, steps), by_hand, "trainer");
  }
}

TEST_P(AutogradFeatures, GivesTheSameOutputCompiledAsOpByOp) {
  const Task task;
  const nn::BlockPtr block = GetParam().make();
  block->initialize(nn::init::fan_in(), kSeed);
  block->complete_shapes({task.x.info()});
  const auto run = [&] { return (*block)(task.x).to_vector<float>(); };
  const std::vector<float> expected = run();
  block->hybridize();
  const std::vector<float> got = run();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2e-6) << i;
}

std::ostream& operator<<(std::ostream& stream, const Feature& feature) {
  return stream << feature.name;
}

std::string name_of_row(const ::testing::TestParamInfo<Feature>& info) {
  std::string name = info.param.name;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Rows, AutogradFeatures, ::testing::ValuesIn(features()), name_of_row);

// Figures that need no other implementation to be known.
TEST(TracedAutograd, DetachedFactorIsAConstantInTheTrainer) {
  const Feature feature = with(
      "", [](auto& p, auto&) { return p.w * p.w.detach(); },
      [](const Tensor& y, const Tensor&) { return sum(y); });
  const Values values = after_steps_of_the_trainer(
      {"", feature.make, [](const Tensor& y, const Tensor&) { return sum(y); }}, 1);
  const float w = 0.7F;
  EXPECT_NEAR(values[0].second[0], w - 0.1F * (w + 0.01F * w), 1e-6);
}

TEST(TracedAutograd, RoundTrainsStraightThrough) {
  const Feature feature = with(
      "", [](auto& p, auto&) { return apply_function<Round>(p.w) + p.v * 0.0; },
      [](const Tensor& y, const Tensor&) { return sum(y); });
  const Values values = after_steps_of_the_trainer(feature, 1);
  const float w = 0.7F;
  EXPECT_NEAR(values[0].second[0], w - 0.1F * (1.0F + 0.01F * w), 1e-6);
}

std::string error_of_trainer(const Feature& feature) {
  return testing::message_of([&] { after_steps_of_the_trainer(feature, 1); });
}

TEST(TracedAutograd, WhatATracedStepCannotMeanIsAnError) {
  const Tensor outside = ones({kSize});
  autograd::attach_grad(outside);
  EXPECT_EQ(error_of_trainer(with("", [=](auto& p, auto& x) { return x * p.w * outside + p.v; })),
            "backward: float32[3] wants a gradient, but is neither an input nor a parameter of "
            "what is traced: make it one, or detach() it");
  EXPECT_EQ(error_of_trainer(with("", [](auto& p, auto& x) { return (x * p.w + p.v).detach(); })),
            "train: the loss does not depend on any parameter that is trained: it makes no use of "
            "the outputs, all of its history was detached or paused, or all parameters are "
            "frozen");
  nn::Parameter foreign({kSize}, {.init = nn::init::one()});
  foreign.initialize("foreign", nn::init::one(), 0);
  EXPECT_EQ(
      error_of_trainer(with("", [=](auto& p, auto& x) { return x * p.w * foreign.data() + p.v; })),
      "train: forward uses foreign, which is no parameter of the net");
  const auto adds = [] {
    auto block = net([](auto& p, auto& x) { return x * p.w + p.v; });
    block->parameter("v").set_grad_mode(autograd::GradMode::add);
    return block;
  };
  EXPECT_EQ(error_of_trainer({"", adds}),
            "train: parameter v adds up gradients (GradMode::add); a step starts from none: use "
            "GradMode::write, and more shards to accumulate");
}

TEST(TracedAutograd, HybridizedForwardThatLeavesGradientsIsAnError) {
  const nn::BlockPtr block = net([](auto& p, auto& x) {
    const RecordScope record;
    const Tensor y = x * p.w + p.v;
    autograd::backward({sum(y)}, {}, true);
    return y;
  });
  block->initialize();
  block->hybridize();
  EXPECT_EQ(testing::message_of([&] {
              (*block)(ones({kBatch, kSize}));
            }),
            "hybridize: forward calls backward() and would leave a gradient in w: use "
            "autograd::grad, or do not compile the block");
}

TEST(TracedAutograd, CapturedLeafIsLeftAloneByATrace) {
  const Tensor outside = ones({kSize});
  autograd::attach_grad(outside);
  error_of_trainer(with("", [=](auto& p, auto& x) { return x * p.w * outside + p.v; }));
  EXPECT_FALSE(autograd::gradient(outside).defined());
}

}  // namespace
}  // namespace lockstep
