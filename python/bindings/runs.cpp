// SPDX-License-Identifier: Apache-2.0
// Recipes, and what their runs leave.
#include "bindings/bindings.h"
#include "bindings/block.h"
#include "bindings/data.h"
#include "bindings/loss.h"
#include "bindings/optim.h"
#include "lockstep/nn/generate.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/recipes/learning.h"
#include "lockstep/recipes/model_input.h"
#include "lockstep/recipes/recipe_data.h"
#include "lockstep/recipes/run_files.h"
#include "lockstep/tensor/philox.h"

namespace lockstep::python {
namespace {

std::shared_ptr<data::Dataset> mutable_ptr(data::DatasetPtr dataset) {
  return std::const_pointer_cast<data::Dataset>(std::move(dataset));
}

py::object transform_or_none(const std::function<data::Transform()>& make) {
  return make == nullptr ? py::object(py::none()) : from_transform(make());
}

HeldLoss loss_of(const recipes::Recipe& recipe) {
  const train::LossFunction function = recipe.loss();
  return {function.name(),
          [function](const Tensor& y, const Tensor& t, const Tensor&) { return function(y, t); },
          function};
}

void bind_recipes(py::module_& m) {
  using recipes::Recipe;
  py::class_<Recipe>(m, "Recipe", "A model with its data and its way of learning.")
      .def_readonly("name", &Recipe::name)
      .def_readonly("summary", &Recipe::summary)
      .def_readonly("dataset", &Recipe::dataset)
      .def_readonly("sample_shape", &Recipe::sample_shape)
      .def_readonly("classes", &Recipe::classes)
      .def_readonly("global_batch", &Recipe::global_batch)
      .def_readonly("shards", &Recipe::shards)
      .def_readonly("epochs", &Recipe::epochs)
      .def("net", &Recipe::net, "The net, without contents.")
      .def("loss", &loss_of)
      .def("optimizer",
           [](const Recipe& self) {
             return std::const_pointer_cast<optim::Optimizer>(
                 recipes::make_optimizer(self.learning));
           })
      .def(
          "schedule",
          [](const Recipe& self, std::int64_t steps) {
            return recipes::make_schedule(self.learning, steps);
          },
          py::arg("steps"))
      .def("train_transform",
           [](const Recipe& self) { return transform_or_none(self.train_transform); })
      .def("test_transform",
           [](const Recipe& self) { return transform_or_none(self.test_transform); })
      .def(
          "open_data",
          [](const Recipe& self, const std::string& place) {
            recipes::DataSource source;
            source.place = place;
            const recipes::RecipeData data = recipes::open_data(self, source);
            return std::pair(mutable_ptr(data.train), mutable_ptr(data.test));
          },
          py::arg("place") = "synthetic", "(train, test): generated, or of a folder.",
          py::call_guard<py::gil_scoped_release>())
      .def("__repr__",
           [](const Recipe& self) { return fmt::format("{}: {}", self.name, self.summary); });
  m.def("names", &recipes::recipe_names);
  m.def(
      "find", [](const std::string& name) { return recipes::find_recipe(name); }, py::arg("name"));
}

// Of pixels as a picture has them: what the run's recipe makes of them.
Tensor to_input(const recipes::TrainedModel& model, const Tensor& x) {
  if (x.dtype() != DType::uint8 || model.recipe.test_transform == nullptr) return x;
  const data::Transform transform = model.recipe.test_transform();
  return expand_dims(transform.apply(x, RandomKey()), 0);
}

struct HeldModel {
  recipes::TrainedModel model;
  std::vector<std::string> warnings;
};

Tensor scores(HeldModel& held, const Tensor& x) {
  const Tensor input = to_input(held.model, x);
  return (*held.model.net)(input);
}

std::string generate(HeldModel& held, const std::string& prompt, std::int64_t length,
                     double temperature, std::uint64_t seed) {
  const recipes::TextCodecPtr codec = recipes::require_codec(held.model);
  nn::GenerateOptions options;
  options.context = held.model.recipe.sample_shape[0];
  options.length = length;
  options.temperature = temperature;
  options.seed = seed;
  return codec->decode(nn::generate(*held.model.net, codec->encode(prompt), options));
}

void bind_models_of_runs(py::module_& m) {
  using Release = py::gil_scoped_release;
  py::class_<HeldModel>(m, "TrainedModel", "A net with the parameters of a run's last checkpoint.")
      .def_property_readonly("net", [](const HeldModel& h) { return h.model.net; })
      .def_property_readonly("recipe", [](const HeldModel& h) { return h.model.recipe; })
      .def_property_readonly("classes", [](const HeldModel& h) { return h.model.classes; })
      .def_property_readonly("step", [](const HeldModel& h) { return h.model.step; })
      .def_property_readonly("params_sha256",
                             [](const HeldModel& h) { return h.model.params_sha256; })
      .def_property_readonly("_config",
                             [](const HeldModel& h) { return recipes::to_json(h.model.config); })
      .def_readonly("warnings", &HeldModel::warnings)
      .def("_scores", &scores, py::call_guard<Release>())
      .def(
          "_read",
          [](const HeldModel& h, const std::string& file) {
            std::vector<std::pair<std::string, Tensor>> inputs;
            for (recipes::ModelInput& input : recipes::read_inputs(h.model, file))
              inputs.emplace_back(input.name, input.batch);
            return inputs;
          },
          py::call_guard<Release>())
      .def("generate", &generate, py::arg("prompt"), py::arg("length") = 200,
           py::arg("temperature") = 0.8, py::arg("seed") = 0, py::call_guard<Release>());
  m.def(
      "_load_run",
      [](const std::string& folder) {
        std::vector<std::string> warnings;
        recipes::TrainedModel model =
            recipes::load_model(folder, [&](const std::string& line) { warnings.push_back(line); });
        model.net->hybridize();
        return std::make_unique<HeldModel>(HeldModel{std::move(model), std::move(warnings)});
      },
      py::call_guard<Release>());
}

}  // namespace

void bind_runs(py::module_& core) {
  py::module_ m = core.def_submodule("recipes", "What `lockstep train` knows by name.");
  bind_recipes(m);
  bind_models_of_runs(m);
}

}  // namespace lockstep::python
