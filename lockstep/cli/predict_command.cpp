// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/print_error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/data_limits.h"
#include "lockstep/cli/options.h"
#include "lockstep/cli/recommend.h"
#include "lockstep/nn/generate.h"
#include "lockstep/ops/softmax.h"
#include "lockstep/recipes/model_input.h"
#include "lockstep/recipes/run_files.h"

namespace lockstep::cli {
namespace {

struct PredictOptions {
  std::string run;
  std::vector<std::string> files;
  std::optional<std::int64_t> top;  // 1 class, 10 recommendations
  bool json = false;
  DataLimits limits;
  std::string prompt;
  nn::GenerateOptions generate;
  Recommendations recommend;
};

struct Guess {
  std::string name;
  float confidence;
};

std::vector<Guess> best_guesses(const std::vector<float>& probabilities,
                                const std::vector<std::string>& names, std::int64_t top) {
  std::vector<std::size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return probabilities[a] > probabilities[b];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(top)));
  std::vector<Guess> guesses;
  for (const std::size_t i : order)
    guesses.push_back({i < names.size() ? names[i] : std::to_string(i), probabilities[i]});
  return guesses;
}

void print_guesses(const std::string& what, const std::vector<Guess>& guesses, bool json) {
  if (json) {
    nlohmann::ordered_json row{{"file", what}, {"classes", nlohmann::ordered_json::array()}};
    for (const Guess& guess : guesses)
      row["classes"].push_back({{"class", guess.name}, {"confidence", guess.confidence}});
    fmt::print("{}\n", row.dump());
    return;
  }
  std::string line = what + ":";
  for (const Guess& guess : guesses)
    line += fmt::format(" {} {:.1f}%", guess.name, 100 * guess.confidence);
  fmt::print("{}\n", line);
}

const char* kind_of(const recipes::Recipe& recipe) {
  return recipe.task == recipes::Task::images ? "image" : "text";
}

int classify(const recipes::TrainedModel& model, const PredictOptions& options) {
  if (!options.prompt.empty())
    throw WrongUsage(fmt::format("predict: --prompt: {} does not write text; give it {} files",
                                 model.recipe.name, kind_of(model.recipe)));
  if (options.files.empty())
    throw WrongUsage(fmt::format("predict: no files were given: {} reads {} files",
                                 model.recipe.name, kind_of(model.recipe)));
  for (const std::string& file : options.files)
    for (const recipes::ModelInput& input : recipes::read_inputs(model, file)) {
      const Tensor probabilities = softmax((*model.net)(input.batch));
      print_guesses(
          input.name,
          best_guesses(probabilities.to_vector<float>(), model.classes, options.top.value_or(1)),
          options.json);
    }
  return 0;
}

std::string prompt_of(const PredictOptions& options) {
  if (!options.prompt.empty()) return options.prompt;
  if (options.files.size() == 1) return read_file(options.files.front());
  throw WrongUsage("predict: this run writes text: give --prompt TEXT, or one file that holds it");
}

int write_text(const recipes::TrainedModel& model, PredictOptions options) {
  const recipes::TextCodecPtr codec = recipes::require_codec(model);
  const std::string prompt = prompt_of(options);
  options.generate.context = model.recipe.sample_shape[0];
  if (!options.json) {
    fmt::print("{}", prompt);
    options.generate.on_number = [&](std::int64_t number) {
      fmt::print("{}", codec->decode({&number, 1}));
      std::fflush(stdout);
    };
  }
  const std::vector<std::int64_t> numbers =
      nn::generate(*model.net, codec->encode(prompt), options.generate);
  if (options.json)
    fmt::print("{}\n",
               nlohmann::ordered_json{{"prompt", prompt}, {"text", codec->decode(numbers)}}.dump(
                   -1, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    fmt::print("\n");
  return 0;
}

void check_kind(const recipes::Recipe& recipe, const PredictOptions& options) {
  const bool asks_for_items = !options.recommend.user.empty() || options.recommend.all;
  if (asks_for_items && !recipe.is_recommender())
    throw WrongUsage(fmt::format("predict: --user and --all: {} does not recommend", recipe.name));
  if (!options.prompt.empty() && recipe.is_recommender())
    throw WrongUsage(fmt::format("predict: --prompt: {} does not write text", recipe.name));
}

int predict(const PredictOptions& options) {
  recipes::TrainedModel model = recipes::load_model(options.run, print_warning);
  check_kind(model.recipe, options);
  apply_limits(model.config, options.limits);
  model.net->hybridize();
  if (model.recipe.is_recommender())
    return recommend(model, options.recommend, options.files, options.top, options.json);
  return model.recipe.task == recipes::Task::characters ? write_text(model, options)
                                                        : classify(model, options);
}

void add_writing(CLI::App& command, PredictOptions& options) {
  constexpr const char* kWriting = "Writing (char-gpt)";
  command.add_option("--prompt", options.prompt, "How the text begins")
      ->type_name("TEXT")
      ->group(kWriting);
  add_count(command, kWriting, "--length", options.generate.length, "N", "Characters to add", 1,
            1'000'000)
      ->default_str("200");
  add_real(command, kWriting, "--temperature", options.generate.temperature, "X",
           "0: always the likeliest", real_number(0, 100))
      ->default_str("0.8");
  add_count(command, kWriting, "--seed", options.generate.seed, "K", "Another seed, another text",
            0)
      ->default_str("0");
}

}  // namespace

void add_predict_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<PredictOptions>();
  CLI::App* command = app.add_subcommand("predict", "Ask a trained model about files of yours");
  command->group(kModelGroup);
  command->add_option("run", options->run, "The run's folder")->type_name("RUNDIR")->required();
  command
      ->add_option("files", options->files, "PNG, JPEG or idx images; text files; users and items")
      ->type_name("FILE...");
  add_count(*command, "Options", "--top", options->top, "N", "How many classes to show, or items",
            1, 1'000'000)
      ->default_str("1, 10 items");
  add_limits(*command, options->limits, "Options");
  command->add_flag("--json", options->json, "One JSON object a line");
  add_writing(*command, *options);
  add_recommending(*command, options->recommend);
  command->footer(R"(Examples:
  lockstep predict runs/mnist-lenet-1 digit.png --top 3
  lockstep predict runs/text-lstm-1 mail.txt
  lockstep predict runs/char-gpt-1 --prompt "Call me " --length 500 --temperature 0.7
  lockstep predict runs/recsys-mf-1 --user 42 --top 10)");
  command->callback([&action, options] { action = [options] { return predict(*options); }; });
}

}  // namespace lockstep::cli
