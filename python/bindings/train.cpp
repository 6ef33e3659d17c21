// SPDX-License-Identifier: Apache-2.0
#include "bindings/train.h"

#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "bindings/block.h"
#include "bindings/data.h"
#include "bindings/loss.h"
#include "bindings/metric.h"
#include "bindings/optim.h"
#include "lockstep/train/observers.h"

namespace lockstep::python {
namespace {

train::Field to_field(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string role = text.substr(0, colon);
  const std::string name = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (role == "input") return train::input(name);
  if (role == "label") return train::label(name);
  if (role == "input_and_label") return train::input_and_label(name);
  if (role == "unused") return train::unused(name);
  throw InvalidArgument(
      "fields: there is no role '{}' (there are: input, label, input_and_label, unused)", role);
}

// A trainer, and what it refers to.
class HeldTrainer {
 public:
  HeldTrainer(const py::object& net, const py::object& loss,
              const std::shared_ptr<optim::Optimizer>& rule, std::int64_t global_batch,
              std::int64_t shards, int threads, std::uint64_t seed,
              const std::vector<std::string>& fields, bool accuracy, DType compute,
              const py::object& job, const py::object& classes, bool allow_different_bits)
      : job_(job), net_(block_of(net, "Trainer: net")) {
    train::TrainerOptions options;
    options.global_batch = global_batch;
    options.shards = shards;
    options.threads = threads;
    options.seed = seed;
    for (const std::string& field : fields) options.fields.push_back(to_field(field));
    options.accuracy = accuracy;
    options.compile.compute = compute;
    options.allow_different_bits = allow_different_bits;
    if (!job.is_none()) {
      auto& own = argument_as<HeldJob&>(job, "Trainer: job", "what lockstep.join_job() gives").own;
      options.mode = own.mode.get();
      options.survival = own.survival.get();
      survives_ = options.survival != nullptr;
    }
    trainer_ = std::make_unique<train::Trainer>(net_, to_loss(loss, classes), rule, options);
  }

  train::Trainer& get() { return *trainer_; }
  const nn::BlockPtr& net() const { return net_; }
  bool survives() const { return survives_; }

 private:
  py::object job_;
  nn::BlockPtr net_;
  bool survives_ = false;
  std::unique_ptr<train::Trainer> trainer_;
};

// Keyword arguments of fit, taken one by one; what is left over is a mistake.
class Keywords {
 public:
  explicit Keywords(const py::kwargs& given) : left_(given.attr("copy")()) {}

  py::object take(const char* name) {
    if (!left_.contains(name)) return py::none();
    return py::object(left_.attr("pop")(name));
  }
  template <class T>
  void take(const char* name, T& into) {
    const py::object value = take(name);
    if (!value.is_none()) into = argument_as<T>(value, std::string("fit: ") + name);
  }
  void finish() const {
    if (left_.empty()) return;
    throw py::type_error("fit: there is no option " +
                         py::cast<std::string>(py::repr(py::list(left_)[0])));
  }

 private:
  py::dict left_;
};

std::optional<train::Monitor> to_monitor(const py::object& given) {
  if (given.is_none()) return std::nullopt;
  if (py::isinstance<py::str>(given)) {
    const auto name = py::cast<std::string>(given);
    return train::Monitor{name, name.find("loss") == std::string::npos};
  }
  const auto [name, maximize] = argument_as<std::pair<std::string, bool>>(
      given, "fit: monitor", "a metric's name or (name, maximize)");
  return train::Monitor{name, maximize};
}

// With one that prints what the run warns of, where none of those given shows it.
std::vector<train::CallbackPtr> to_callbacks(const py::object& given) {
  std::vector<train::CallbackPtr> callbacks;
  bool shown = false;
  if (!given.is_none()) {
    if (!py::isinstance<py::iterable>(given))
      refuse("fit: callbacks", "a list of callbacks", given);
    for (const py::handle& one : given) {
      const auto callback = py::reinterpret_borrow<py::object>(one);
      callbacks.push_back(to_callback(callback));
      shown = shown || shows_warnings(callback);
    }
  }
  if (!shown) callbacks.push_back(train::print_warnings());
  return callbacks;
}

void check_length(const train::FitOptions& options) {
  if (options.steps == 0 && options.epochs < 1)
    throw InvalidArgument("fit: epochs is {}, expected 1 or more, or steps", options.epochs);
  if (options.steps < 0)
    throw InvalidArgument("fit: steps is {}, expected 1 or more, or 0 for whole epochs",
                          options.steps);
}

train::FitOptions to_fit_options(const py::kwargs& given) {
  Keywords keywords(given);
  train::FitOptions options;
  keywords.take("epochs", options.epochs);
  keywords.take("steps", options.steps);
  options.transform = to_transform(keywords.take("transform"));
  options.sampler = to_sampler(keywords.take("sampler"));
  options.schedule = to_schedule(keywords.take("schedule"));
  const py::object validation = keywords.take("validation");
  if (!validation.is_none()) options.validation = to_dataset(validation);
  options.validation_transform = to_transform(keywords.take("validation_transform"));
  options.metrics = to_metrics(keywords.take("metrics"));
  keywords.take("validation_batch", options.validation_batch);
  options.train_metrics = to_metrics(keywords.take("train_metrics"));
  keywords.take("train_metric_samples", options.train_metric_samples);
  keywords.take("evaluate_every", options.evaluate_every);
  const py::object checkpoints = keywords.take("checkpoints");
  if (!checkpoints.is_none())
    options.checkpoints =
        argument_as<FilePath>(checkpoints, "fit: checkpoints", "str or os.PathLike").text;
  keywords.take("checkpoint_every", options.checkpoint_every);
  keywords.take("keep_last", options.keep_last);
  options.monitor = to_monitor(keywords.take("monitor"));
  keywords.take("resume", options.resume);
  keywords.take("loader_threads", options.loader_threads);
  keywords.take("prefetch", options.prefetch);
  keywords.take("skip_bad", options.skip_bad);
  options.callbacks = to_callbacks(keywords.take("callbacks"));
  keywords.finish();
  check_length(options);
  return options;
}

// A callback may fit something else.
class Current {
 public:
  explicit Current(SignalWatch& watch) : before_(std::exchange(SignalWatch::current(), &watch)) {}
  ~Current() { SignalWatch::current() = before_; }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  SignalWatch* before_;
};

train::FitResult fit(HeldTrainer& trainer, const py::object& dataset, const py::kwargs& keywords) {
  train::FitOptions options = to_fit_options(keywords);
  const data::DatasetPtr set = to_dataset(dataset);
  const auto watch = std::make_shared<SignalWatch>(trainer.survives());
  options.callbacks.push_back(watch);
  options.stop = watch->stop();
  train::FitResult result;
  {
    const Current current(*watch);
    const py::gil_scoped_release released;
    result = trainer.get().fit(set, options);
  }
  watch->rethrow();
  return result;
}

train::Evaluation evaluate(HeldTrainer& trainer, const py::object& dataset, std::int64_t batch,
                           int threads, const py::object& transform, const py::object& metrics,
                           bool keep_predictions) {
  const data::DatasetPtr set = to_dataset(dataset);
  train::EvaluateOptions options;
  options.batch = batch;
  options.threads = threads;
  options.transform = to_transform(transform);
  options.metrics = to_metrics(metrics);
  options.keep_predictions = keep_predictions;
  const py::gil_scoped_release released;
  return trainer.get().evaluate(*set, options);
}

py::object predict(HeldTrainer& trainer, const py::object& dataset, std::int64_t batch, int threads,
                   const py::object& transform) {
  const data::DatasetPtr set = to_dataset(dataset);
  const train::PredictOptions options{batch, threads, to_transform(transform)};
  std::vector<Tensor> outputs;
  {
    const py::gil_scoped_release released;
    outputs = trainer.get().predict_all(set, options);
  }
  if (outputs.size() == 1) return py::cast(outputs[0]);
  return py::tuple(py::cast(outputs));
}

}  // namespace

void bind_train(py::module_& core) {
  py::module_ m = core.def_submodule("train", "The training step and the run.");
  bind_results(m);
  bind_callbacks(m);
  py::class_<HeldTrainer>(m, "Trainer")
      .def(py::init<const py::object&, const py::object&, const std::shared_ptr<optim::Optimizer>&,
                    std::int64_t, std::int64_t, int, std::uint64_t, const std::vector<std::string>&,
                    bool, DType, const py::object&, const py::object&, bool>(),
           py::arg("net"), py::arg("loss"), py::arg("optimizer"), py::arg("global_batch") = 128,
           py::arg("shards") = 0, py::arg("threads") = 1, py::arg("seed") = 0,
           py::arg("fields") = std::vector<std::string>(), py::arg("accuracy") = true,
           py::arg("compute") = DType::float32, py::arg("job") = py::none(),
           py::arg("classes") = py::none(), py::arg("allow_different_bits") = false)
      .def("_fit", &fit)
      .def("evaluate", &evaluate, py::arg("dataset"), py::arg("batch") = 0, py::arg("threads") = 0,
           py::arg("transform") = py::none(), py::arg("metrics") = py::none(),
           py::arg("keep_predictions") = false)
      .def("predict", &predict, py::arg("dataset"), py::arg("batch") = 0, py::arg("threads") = 0,
           py::arg("transform") = py::none())
      .def_property_readonly("net", &HeldTrainer::net);
}

}  // namespace lockstep::python
