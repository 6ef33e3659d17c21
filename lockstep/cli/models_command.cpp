// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "lockstep/cli/command.h"
#include "lockstep/recipes/model_recipes.h"

namespace lockstep::cli {
namespace {

int list_models() {
  for (const recipes::Recipe& recipe : recipes::all_recipes())
    fmt::print("{:<15} {}\n{:15} data {}, {} epochs of batch {}, {} at {}\n", recipe.name,
               recipe.summary, "", recipe.dataset, recipe.epochs, recipe.global_batch,
               recipe.learning.optimizer, recipe.learning.learning_rate);
  fmt::print("\nlibrary models, trained by lockstep train --model NAME --data DIR|synthetic:\n");
  for (const recipes::Recipe& recipe : recipes::model_recipes())
    fmt::print("{:<20} {}, made for {}\n", recipe.name, recipe.summary,
               recipes::text_of_shape(recipe.own_image));
  return 0;
}

int summarize(const std::string& name) {
  const recipes::Recipe& recipe = recipes::find_recipe(name);
  const nn::BlockPtr net = recipe.net();
  net->initialize();
  fmt::print("{}\n", net->summary(recipe.inputs(1)));
  return 0;
}

std::vector<std::string> names() {
  std::vector<std::string> all = recipes::recipe_names();
  const std::vector<std::string> models = recipes::model_recipe_names();
  all.insert(all.end(), models.begin(), models.end());
  return all;
}

}  // namespace

void add_models_command(CLI::App& app, Action& action) {
  const auto name = std::make_shared<std::string>();
  CLI::App* models =
      app.add_subcommand("models", "Recipes and library models; --summary shows a model's layers");
  models->group(kToolGroup);
  models->add_option("--summary", *name, "A table of layers, shapes and parameters")
      ->type_name("NAME")
      ->check(CLI::IsMember(names()));
  models->callback([&action, name] {
    action = [name] { return name->empty() ? list_models() : summarize(*name); };
  });
}

}  // namespace lockstep::cli
