// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/trainer.h"
#include "tests/message.h"

namespace lockstep::nn {
namespace {

using testing::message_of;

// The last layer of the encoder knows how many features it takes.
class Model final : public Block {
 public:
  Model() : encoder_(add_child("encoder", sequential(dense(8), relu(), dense(4, {.inputs = 6})))) {}
  Tensor forward(const Tensor& x) override { return (*encoder_)(x); }
  std::string description() const override { return "Model"; }

 private:
  BlockPtr encoder_;
};

constexpr const char* kWrongFeatures =
    "encoder.2 (Dense(4)): encoder.2.weight: has shape [4, 6], got [4, 8]";

TEST(CallPath, OfABlockStandsBeforeTheErrorOfItsOp) {
  Model model;
  model.initialize();
  EXPECT_EQ(message_of([&] { model(ones({2, 3})); }), kWrongFeatures);
  EXPECT_EQ(message_of([&] { model(std::vector<Tensor>{ones({2, 3})}); }), kWrongFeatures);
}

TEST(CallPath, IsTheSameWhileTracing) {
  Model model;
  model.initialize();
  EXPECT_EQ(message_of([&] { model.complete_shapes({ones({2, 3}).info()}); }), kWrongFeatures);
  model.hybridize();
  EXPECT_EQ(message_of([&] { model(ones({2, 3})); }), kWrongFeatures);
  const auto net = std::make_shared<Model>();
  train::Trainer trainer(net, L2Loss(), optim::sgd({}), {.global_batch = 4});
  const auto set = std::make_shared<data::ArrayDataset>(data::Fields{ones({8, 3}), ones({8, 4})});
  EXPECT_EQ(message_of([&] { trainer.fit(set); }), kWrongFeatures);
}

TEST(CallPath, IsNotInTheErrorOfABlockThatIsCalledAlone) {
  const BlockPtr layer = dense(4, {.inputs = 6});
  layer->initialize();
  EXPECT_EQ(message_of([&] { (*layer)(ones({2, 3})); }), "weight: has shape [4, 6], got [4, 3]");
}

// Catches what its child throws and goes on.
class Tolerant final : public Block {
 public:
  Tolerant() : child_(add_child("child", dense(4, {.inputs = 6}))) {}
  Tensor forward(const Tensor& x) override {
    try {
      return (*child_)(x);
    } catch (const InvalidArgument&) {
      return x;
    }
  }

 private:
  BlockPtr child_;
};

TEST(CallPath, IsForgottenWhenTheErrorWasDealtWith) {
  Sequential model({std::make_shared<Tolerant>(), lambda([](const Tensor& x) {
                      return matmul(x, ones({9, 9}));
                    })});
  model.initialize();
  EXPECT_EQ(message_of([&] {
              model(ones({2, 3}));
            }).substr(0, std::string("1 (Lambda").size()),
            "1 (Lambda");
}

// Holds a layer, and forgot to add it.
class Forgetful final : public Block {
 public:
  Forgetful() : held_(dense(4)) {}
  Tensor forward(const Tensor& x) override { return (*held_)(x); }
  std::string description() const override { return "Forgetful"; }

 private:
  BlockPtr held_;
};

TEST(CallPath, NamesAChildThatIsHeldButWasNotAdded) {
  const auto expected = [](const std::string& caller) {
    return caller +
           ": calls Dense(4), which was not added to it: hold what add_child() returns, so that "
           "its parameters are the model's";
  };
  const auto alone = std::make_shared<Forgetful>();
  alone->initialize();
  EXPECT_EQ(message_of([&] { (*alone)(ones({2, 3})); }), expected("Forgetful"));
  const auto net = sequential(dense(3), alone);
  net->initialize();
  EXPECT_EQ(message_of([&] { (*net)(ones({2, 3})); }), expected("1 (Forgetful)"));
  net->hybridize();
  EXPECT_EQ(message_of([&] { (*net)(ones({2, 3})); }), expected("1 (Forgetful)"));
  net->hybridize(false);
  train::Trainer trainer(net, L2Loss(), optim::sgd({}), {.global_batch = 4});
  const auto set = std::make_shared<data::ArrayDataset>(data::Fields{ones({8, 3}), ones({8, 4})});
  EXPECT_EQ(message_of([&] { trainer.fit(set); }), expected("1 (Forgetful)"));
}

// A net that is used as it is, such as a teacher, need not be a child.
class Pupil final : public Block {
 public:
  explicit Pupil(BlockPtr teacher) : teacher_(std::move(teacher)) {}
  Tensor forward(const Tensor& x) override { return (*teacher_)(x); }

 private:
  BlockPtr teacher_;
};

TEST(CallPath, LeavesAloneWhoCallsABlockThatIsReady) {
  const BlockPtr teacher = dense(4);
  teacher->initialize();
  (*teacher)(ones({2, 3}));
  Pupil pupil(teacher);
  EXPECT_EQ(pupil(ones({2, 3})).shape(), (Shape{2, 4}));
}

}  // namespace
}  // namespace lockstep::nn
