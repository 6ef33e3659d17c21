// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models/models.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "lockstep/autograd/autograd.h"
#include "lockstep/graph/trace.h"
#include "lockstep/nn/loss.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"
#include "tests/message.h"
#include "tests/ops/calls.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

namespace models = nn::models;

std::int64_t learnt(const nn::Block& block) {
  std::int64_t total = 0;
  for (const auto& named : block.parameters())
    if (named.parameter.options().trainable) total += named.parameter.shape().numel();
  return total;
}

std::int64_t parameters_of(const std::string& name) {
  const nn::BlockPtr model = models::make_model(name);
  for (const models::ModelInfo& info : models::model_list()) {
    if (info.name != name) continue;
    TensorInfo batch = info.sample;
    batch.shape.insert(0, 1);
    model->complete_shapes({batch});
  }
  return learnt(*model);
}

// Sizes that the papers' models have in other libraries.
TEST(Models, HaveAsManyParametersAsTheyShould) {
  EXPECT_EQ(parameters_of("mlp"), 101770);
  EXPECT_EQ(parameters_of("resnet18_v1"), 11689512);
  EXPECT_EQ(parameters_of("resnet34_v1"), 21797672);
  EXPECT_EQ(parameters_of("resnet50_v1"), 25557032);
  EXPECT_EQ(parameters_of("resnet101_v1"), 44549160);
  EXPECT_EQ(parameters_of("resnet152_v1"), 60192808);
  EXPECT_EQ(parameters_of("cifar_resnet18_v1"), 11173962);
  EXPECT_EQ(parameters_of("vgg11"), 132863336);
  EXPECT_EQ(parameters_of("vgg13"), 133047848);
  EXPECT_EQ(parameters_of("vgg16"), 138357544);
  EXPECT_EQ(parameters_of("vgg16_bn"), 138365992);
  EXPECT_EQ(parameters_of("vgg19"), 143667240);
  EXPECT_EQ(parameters_of("mobilenet_v1_1.0"), 4231976);
  EXPECT_EQ(parameters_of("mobilenet_v2_1.0"), 3504872);
  EXPECT_EQ(parameters_of("densenet121"), 7978856);
  EXPECT_EQ(parameters_of("densenet161"), 28681000);
  EXPECT_EQ(parameters_of("densenet169"), 14149480);
  EXPECT_EQ(parameters_of("densenet201"), 20013928);
  EXPECT_EQ(parameters_of("bert"), 109482240);
}

Tensor image_batch(std::int64_t size) { return random_floats({4, 3, size, size}, 1); }
Tensor token_batch(std::int64_t length) { return random_indices({4, length}, 1, 0, 20); }

struct Small {
  const char* name;
  nn::BlockPtr model;
  Tensor x;
  Shape output;
  bool slow = false;  // traced, not trained
};

std::vector<Small> small_models() {
  const Tensor images = image_batch(32), large = image_batch(64), tokens = token_batch(6);
  const auto resnet = [](int layers, int version, bool small_images) {
    return models::resnet({layers, version, 7, small_images});
  };
  return {{"mlp",
           models::mlp({.hidden = {16, 8}, .classes = 7, .dropout = 0.1}),
           image_batch(4),
           {4, 7}},
          {"lenet", models::lenet({.width = 4, .hidden = 8, .classes = 7}), image_batch(8), {4, 7}},
          {"resnet18 v1", resnet(18, 1, false), images, {4, 7}, true},
          {"resnet18 v2", resnet(18, 2, false), images, {4, 7}},
          {"resnet50 v1", resnet(50, 1, false), images, {4, 7}, true},
          {"resnet50 v2", resnet(50, 2, true), image_batch(8), {4, 7}, true},
          {"vgg11", models::vgg({.layers = 11, .hidden = 32, .classes = 7}), images, {4, 7}},
          {"vgg11 bn", models::vgg({11, true, 32, 7, 0.5}), images, {4, 7}, true},
          {"mobilenet v1", models::mobilenet({1, 0.25, 7}), large, {4, 7}},
          {"mobilenet v2", models::mobilenet({2, 0.25, 7}), large, {4, 7}},
          {"densenet121", models::densenet({121, 7, 0.1}), large, {4, 7}},
          {"lstm", models::lstm_classifier({20, 8, 6, 1, false, 7, 0.0}), tokens, {4, 7}},
          {"lstm, two layers, both ways",
           models::lstm_classifier({20, 8, 6, 2, true, 7, 0.1}),
           tokens,
           {4, 7}},
          {"gpt", models::gpt({20, 8, 12, 3, 2, 0.1}), tokens, {4, 6, 20}},
          {"vit", models::vit({8, 4, 12, 3, 2, 7, 0.1}), image_batch(8), {4, 7}},
          {"bert with scores", models::bert({20, 2, 8, 12, 3, 2, 0.1, true}), tokens, {4, 6, 20}}};
}

Tensor loss_of(nn::Block& model, const Tensor& x, const Tensor& label) {
  const RandomScope draws(random_key(5));
  return mean(nn::SoftmaxCrossEntropyLoss()(model(x), label));
}

// A step down the gradient, so short that the loss should fall by a hundredth of itself: returns
// how much of that it does.
double fall_of_loss(nn::Block& model, const Tensor& x, const Tensor& label) {
  Tensor loss;
  {
    const autograd::RecordScope record;
    loss = loss_of(model, x, label);
  }
  autograd::backward(loss);
  double slope = 0.0;
  for (const auto& named : model.parameters())
    if (named.parameter.grad().defined()) slope += sum(square(named.parameter.grad())).item();
  const double wanted = 0.01 * loss.item();
  for (const auto& named : model.parameters())
    if (named.parameter.grad().defined())
      named.parameter.set_data(named.parameter.data().detach() -
                               named.parameter.grad() * (wanted / slope));
  const autograd::ModeScope train(true);
  return (loss.item() - loss_of(model, x, label).item()) / wanted;
}

TEST(Models, LearnByAStepWhatTheirGradientPromises) {
  for (const Small& small : small_models()) {
    SCOPED_TRACE(small.name);
    if (small.slow) continue;
    small.model->initialize(nn::init::xavier(), 3);
    ASSERT_EQ((*small.model)(small.x).shape(), small.output);
    Shape rows = small.output;
    rows.erase(rows.rank() - 1);
    const Tensor label = random_indices(rows, 2, 0, 7);
    EXPECT_NEAR(fall_of_loss(*small.model, small.x, label), 1.0, 0.5);
  }
}

TEST(Models, CanBeTracedInBothModes) {
  for (const Small& small : small_models()) {
    SCOPED_TRACE(small.name);
    small.model->complete_shapes({small.x.info()});
    for (const bool train : {false, true}) {
      const autograd::ModeScope mode(train);
      std::size_t updates = 0;
      const nn::ParameterScope scope([](const nn::Parameter& p) { return full(p.shape(), 0.01); },
                                     [&](const nn::Parameter&, const Tensor&) { ++updates; });
      const Graph graph = trace(
          [&](const std::vector<Tensor>& in) {
            const RandomScope draws(random_key(5));
            return std::vector<Tensor>{(*small.model)(in[0])};
          },
          {small.x.info()});
      EXPECT_EQ(interpret(graph, std::vector<Tensor>{small.x})[0].shape(), small.output);
      std::size_t statistics = 0;
      for (const auto& named : small.model->parameters("running_"))
        statistics += !named.parameter.options().trainable;
      EXPECT_EQ(updates, train ? statistics : 0);
    }
  }
}

TEST(Models, PredictTheSameCompiledAsEagerly) {
  for (const Small& small : small_models()) {
    SCOPED_TRACE(small.name);
    if (small.slow) continue;
    small.model->initialize(nn::init::xavier(), 3);
    const std::vector<float> eager = (*small.model)(small.x).to_vector<float>();
    small.model->hybridize();
    const std::vector<float> compiled = (*small.model)(small.x).to_vector<float>();
    ASSERT_EQ(eager.size(), compiled.size());
    for (std::size_t i = 0; i < eager.size(); ++i)
      ASSERT_NEAR(compiled[i], eager[i], 1e-3 * std::max(1.0F, std::abs(eager[i])));
  }
}

// "layer1.1"
nn::BlockPtr descendant(const nn::BlockPtr& block, const std::string& path) {
  const std::string name = path.substr(0, path.find('.'));
  for (const nn::Block::Child& child : block->children())
    if (child.name == name)
      return name == path ? child.block : descendant(child.block, path.substr(name.size() + 1));
  throw NotFound("there is no {}", path);
}

// What a block gives when all its convolutions give zero.
Tensor shortcut_of(const nn::BlockPtr& model, const std::string& path, const Tensor& x) {
  const nn::BlockPtr block = descendant(model, path);
  block->initialize(nn::init::zero());
  return (*block)(x);
}

TEST(Models, BlocksWithAShortcutPassTheirInputOn) {
  const Tensor x = random_floats({2, 64, 4, 4}, 1);
  const auto resnet = [&](int layers, int version) {
    return shortcut_of(models::resnet({.layers = layers, .version = version}), "layer1.1",
                       layers == 18 ? x : tile(x, {1, 4, 1, 1}));
  };
  const std::vector<float> same = x.to_vector<float>(), positive = relu(x).to_vector<float>();
  const std::vector<float> wide = tile(x, {1, 4, 1, 1}).to_vector<float>();
  EXPECT_EQ(resnet(18, 1).to_vector<float>(), positive);
  EXPECT_EQ(resnet(18, 2).to_vector<float>(), same);
  EXPECT_EQ(resnet(50, 1).to_vector<float>(), relu(tile(x, {1, 4, 1, 1})).to_vector<float>());
  EXPECT_EQ(resnet(50, 2).to_vector<float>(), wide);
  const Tensor narrow = slice_axis(x, 1, 0, 24);
  EXPECT_EQ(shortcut_of(models::mobilenet(), "features.5", narrow).to_vector<float>(),
            narrow.to_vector<float>());
  const Tensor grown = shortcut_of(models::densenet(), "features.4.0", x);
  EXPECT_EQ(grown.shape(), (Shape{2, 96, 4, 4}));
  EXPECT_EQ(slice_axis(grown, 1, 0, 64).to_vector<float>(), same);
}

TEST(Models, ImageModelsHalveTheImageFiveTimes) {
  const auto height = [](const nn::BlockPtr& model, const std::string& path, const Tensor& x) {
    const nn::BlockPtr block = descendant(model, path);
    block->initialize();
    return (*block)(x).shape(2);
  };
  const Tensor x = random_floats({1, 3, 64, 64}, 1);
  EXPECT_EQ(height(models::vgg({.layers = 11}), "features", x), 2);
  EXPECT_EQ(height(models::mobilenet({1, 0.25, 7}), "features", x), 2);
  EXPECT_EQ(height(models::mobilenet({2, 0.25, 7}), "features", x), 2);
  const Tensor deep = random_floats({1, 64, 8, 8}, 1);
  for (const int version : {1, 2}) {
    const nn::BlockPtr resnet = models::resnet({.version = version});
    EXPECT_EQ(height(resnet, "layer1", deep), 8);
    EXPECT_EQ(height(resnet, "layer2", deep), 4);
  }
}

TEST(Models, InTheListCanBeMade) {
  std::set<std::string> names;
  for (const std::string& name : models::model_names()) {
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_NE(models::make_model(name, {.classes = 3, .vocabulary = 11}), nullptr);
  }
  EXPECT_EQ(names.size(), models::model_list().size());
  const nn::BlockPtr lenet = models::make_model("lenet", {.classes = 3});
  lenet->initialize();
  EXPECT_EQ((*lenet)(zeros({2, 1, 28, 28})).shape(), (Shape{2, 3}));
}

TEST(Models, GptSeesNothingOfWhatComesLater) {
  const nn::BlockPtr gpt = models::gpt({20, 8, 12, 3, 2, 0.0});
  gpt->initialize();
  const Tensor tokens = token_batch(6);
  Tensor changed = tokens.copy();
  changed.data<std::int64_t>()[5] = 19 - changed.data<std::int64_t>()[5];
  const Tensor a = (*gpt)(tokens), b = (*gpt)(changed);
  EXPECT_EQ(slice_axis(a, 1, 0, 5).to_vector<float>(), slice_axis(b, 1, 0, 5).to_vector<float>());
  EXPECT_NE(slice_axis(a, 1, 5, 6).to_vector<float>(), slice_axis(b, 1, 5, 6).to_vector<float>());
}

TEST(Models, GptStartsResidualProjectionsSmaller) {
  const nn::BlockPtr gpt = models::gpt({.width = 128, .heads = 4, .blocks = 8});
  gpt->initialize();
  const auto spread = [&](const std::string& name) {
    return std::sqrt(var(gpt->parameter(name).data()).item());
  };
  EXPECT_NEAR(spread("blocks.0.attn.qkv.weight"), 0.02, 0.001);
  EXPECT_NEAR(spread("blocks.0.mlp.fc1.weight"), 0.02, 0.001);
  EXPECT_NEAR(spread("blocks.0.attn.proj.weight"), 0.005, 0.00025);
  EXPECT_NEAR(spread("blocks.7.mlp.fc2.weight"), 0.005, 0.00025);
  EXPECT_EQ(spread("blocks.7.mlp.fc2.bias"), 0.0);
}

TEST(Models, BertLooksAtWhatIsWithinTheLengthAlone) {
  const nn::BlockPtr bert = models::bert({20, 2, 8, 12, 3, 2, 0.0});
  bert->initialize();
  const Tensor tokens = token_batch(6), segments = random_indices({4, 6}, 3, 0, 2);
  const Tensor lengths = full({4}, 4.0, DType::int64);
  const std::vector<Tensor> whole = (*bert)({tokens, segments, lengths});
  const std::vector<Tensor> cut =
      (*bert)({slice_axis(tokens, 1, 0, 4), slice_axis(segments, 1, 0, 4)});
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_EQ(whole[1].shape(), (Shape{4, 12}));
  expect_near(slice_axis(whole[0], 1, 0, 4), cut[0], 1e-5);
  expect_near(whole[1], cut[1], 1e-5);
  const std::vector<Tensor> other = (*bert)(std::vector<Tensor>{slice_axis(tokens, 1, 0, 4)});
  EXPECT_NE(other[1].to_vector<float>(), cut[1].to_vector<float>());
}

TEST(Models, BertsHeadSharesTheTokenEmbedding) {
  const nn::BlockPtr bert = models::bert({20, 2, 8, 12, 3, 1, 0.0, true});
  const nn::BlockPtr plain = models::bert({20, 2, 8, 12, 3, 1, 0.0, false});
  EXPECT_EQ(learnt(*bert) - learnt(*plain), 12 * 12 + 12 + 2 * 12 + 20);
}

TEST(Models, BadOptionsAndInputsAreNamed) {
  EXPECT_EQ(message_of([] { models::resnet({.layers = 20}); }),
            "resnet: layers is 20, expected 18, 34, 50, 101 or 152");
  EXPECT_EQ(message_of([] { models::resnet({.version = 3}); }),
            "resnet: version is 3, expected 1 or 2");
  EXPECT_EQ(message_of([] { models::vgg({.layers = 12}); }),
            "vgg: layers is 12, expected 11, 13, 16 or 19");
  EXPECT_EQ(message_of([] { models::densenet({.layers = 12}); }),
            "densenet: layers is 12, expected 121, 161, 169 or 201");
  EXPECT_EQ(message_of([] { models::mobilenet({.version = 0}); }),
            "mobilenet: version is 0, expected 1 or 2");
  EXPECT_EQ(message_of([] { models::mobilenet({.width = 0.0}); }),
            "mobilenet: width is 0, expected more than 0, up to 16");
  EXPECT_EQ(message_of([] { models::vit({.image = 30, .patch = 4}); }),
            "vit: an image of 30 with patches of 4, expected a multiple");
  EXPECT_EQ(message_of([] {
              (*models::vit())(zeros({2, 3, 28, 28}));
            }),
            "vit: images have shape [2, 3, 28, 28], expected [N, C, 32, 32]");
  EXPECT_EQ(message_of([] {
              (*models::gpt())(zeros({2, 129}, DType::int64));
            }),
            "gpt: tokens have shape [2, 129], expected [N, T] with T up to 128");
  EXPECT_EQ(message_of([] {
              (*models::bert({.context = 4}))(zeros({2, 5}, DType::int64));
            }),
            "bert: tokens have shape [2, 5], expected [N, T] with T from 1 to 4");
  EXPECT_EQ(message_of<NotFound>([] { models::make_model("alexnet"); }).substr(0, 56),
            "model: there is no 'alexnet' (there are: mlp, lenet, cif");
}

}  // namespace
}  // namespace lockstep::testing
