// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/predict.h"

#include <gtest/gtest.h>

#include "lockstep/nn/layers.h"
#include "lockstep/ops/ops.h"
#include "tests/message.h"

namespace lockstep::train {
namespace {

using testing::message_of;

// Two inputs, two outputs.
class Net final : public nn::Block {
 public:
  Net() : layer_(add_child("layer", nn::sequential(nn::dense(3), nn::dropout(0.5)))) {}
  std::vector<Tensor> forward_all(const std::vector<Tensor>& x) override {
    return {(*layer_)(x.at(0)), x.at(1) * 2.0};
  }

 private:
  nn::BlockPtr layer_;
};

data::ArrayDataset set_of(data::Fields fields) { return data::ArrayDataset(std::move(fields)); }

TEST(Predict, GivesEveryOutputOfEverySampleInOrder) {
  Net net;
  net.initialize();
  const RandomScope draws(random_key(4));
  const Tensor a = normal({11, 4}), b = normal({11, 2}), t = normal({11});
  const FieldRoles roles{input("a"), label("t"), input("b")};
  const auto got = predict(net, set_of({a, t, b}), {.fields = roles, .batch = 4});
  ASSERT_EQ(got.size(), 2U);
  const auto expected = net({a, b});
  EXPECT_EQ(got[0].to_vector<float>(), expected[0].to_vector<float>());
  EXPECT_EQ(got[1].to_vector<float>(), expected[1].to_vector<float>());
  // Samples without their labels.
  const auto unlabelled = predict(net, set_of({a, b}), {.fields = roles, .batch = 11});
  EXPECT_EQ(unlabelled[0].to_vector<float>(), expected[0].to_vector<float>());
}

TEST(Predict, RefusesWhatItCannotTell) {
  const auto net = nn::sequential(nn::dense(3));
  net->initialize();
  const Tensor x = ones({4, 2});
  EXPECT_EQ(predict(*net, set_of({x}))[0].shape(), (Shape{4, 3}));
  EXPECT_EQ(predict(*net, set_of({x, x}))[0].shape(), (Shape{4, 3}));
  EXPECT_EQ(message_of([&] {
              predict(*net, set_of({x, x, x}));
            }),
            "fields: a sample has 3, and nothing says which are inputs and which are labels: set "
            "fields, such as {input(\"x\"), label(\"y\")}");
  EXPECT_EQ(message_of([&] {
              predict(*net, set_of({ones({0, 2})}));
            }),
            "predict: the data set is empty");
  EXPECT_EQ(message_of([&] { predict(*net, set_of({x}), {.batch = 0}); }),
            "predict: batch is 0, expected 1 or more");
}

}  // namespace
}  // namespace lockstep::train
