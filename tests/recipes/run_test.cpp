// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/recipes/run_config.h"
#include "lockstep/recipes/run_files.h"
#include "lockstep/recipes/run_mode.h"
#include "lockstep/train/trainer.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"

namespace lockstep::recipes {
namespace {

using lockstep::testing::message_of;

RunConfig two_steps() {
  RunConfig config = default_config(find_recipe("mnist-mlp"));
  config.data = "synthetic";
  config.epochs = 0;
  config.steps = 2;
  return config;
}

TEST(RunConfig, ComesBackFromItsJson) {
  RunConfig config = two_steps();
  config.kvstore = "ps_ssp";
  config.servers = 3;
  config.replicas = 2;
  config.staleness = 4;
  EXPECT_EQ(to_json(config_from_json(to_json(config), "config.json")), to_json(config));
  EXPECT_EQ(message_of<Corrupt>([] { config_from_json("{}", "config.json"); }),
            "config.json: is not a run's configuration: no 'version'");
}

TEST(RunMode, OfSeveralWorkersIsAnAllReduceUnlessAnotherIsNamed) {
  RunConfig config = two_steps();
  EXPECT_EQ(kvstore_of(config, 1), "local");
  EXPECT_EQ(kvstore_of(config, 2), "allreduce");
  config.kvstore = "allreduce";
  EXPECT_EQ(kvstore_of(config, 1), "allreduce");
  config.kvstore = "local";
  EXPECT_EQ(kvstore_of(config, 2), "allreduce");
}

TEST(RunConfig, OfAnOlderRunHasNoServers) {
  std::string text = to_json(two_steps());
  for (const char* line : {"\"servers\": 0,", "\"replicas\": 1,", "\"staleness\": 0,"}) {
    ASSERT_NE(text.find(line), std::string::npos) << line;
    text.erase(text.find(line), std::string_view(line).size());
  }
  EXPECT_EQ(to_json(config_from_json(text, "config.json")), to_json(two_steps()));
}

TEST(RunMode, OfServersNeedsThemAndPromisesBitsWhereWorkersAreInStep) {
  RunConfig config = two_steps();
  config.kvstore = "ps_sync";
  config.servers = 2;
  EXPECT_TRUE(has_servers(config) && is_invariant(config));
  EXPECT_EQ(kvstore_of(config, 2), "ps_sync");
  EXPECT_EQ(message_of<InvalidArgument>(
                [&] { RunMode(nullptr, alone(), config, std::chrono::seconds(60)); }),
            "kvstore 'ps_sync': needs servers, and the job has none");
  config.kvstore = "ps_async";
  EXPECT_FALSE(is_invariant(config));
  EXPECT_EQ(promise_of(config, 2), "with ps_async the bits depend on which worker was faster");
}

TEST(RunMode, OfOneWorkerCompressesAsItsConfigurationSays) {
  RunConfig config = two_steps();
  EXPECT_EQ(RunMode(nullptr, alone(), config, std::chrono::seconds(60)).get().description(),
            "canonical");
  config.compression = "2bit:0.5";
  EXPECT_EQ(RunMode(nullptr, alone(), config, std::chrono::seconds(60)).get().description(),
            "2bit:0.5");
  EXPECT_FALSE(is_invariant(config));
}

// Everything that Python or a server needs of a run, with the library alone.
TEST(RunFiles, HaveTheModelThatWasTrained) {
  const testing::TemporaryFolder folder("run_files");
  const RunConfig config = two_steps();
  const Recipe& recipe = find_recipe(config.recipe);
  observe::Progress progress(observe::nowhere());
  const RecipeData data = open_run_data(config, {}, progress);
  const observe::RunFolder run = observe::RunFolder::create(folder.path() + "/run");
  write_classes(run, data.test->class_names());
  run.write_config(to_json(config));
  const RunMode mode(nullptr, alone(), config, std::chrono::seconds(60));
  train::TrainerOptions options{.global_batch = config.global_batch, .shards = config.shards};
  options.mode = &mode.get();
  train::Trainer trainer(recipe.net(), recipe_loss(), make_optimizer(config.learning), options);
  const train::FitResult result = trainer.fit(data.train, {.steps = config.steps,
                                                           .transform = recipe.train_transform(),
                                                           .checkpoints = run.checkpoints_path()});
  const TrainedModel model =
      load_model(run.path(), [](const std::string& line) { ADD_FAILURE() << line; });
  EXPECT_EQ(model.step, 2);
  EXPECT_EQ(model.params_sha256, result.params_sha256);
  EXPECT_EQ(model.classes, data.test->class_names());
}

}  // namespace
}  // namespace lockstep::recipes
