// SPDX-License-Identifier: Apache-2.0
#include "bindings/loss.h"

#include "bindings/arguments.h"
#include "bindings/bindings.h"
#include "bindings/block.h"
#include "lockstep/nn/loss.h"

namespace lockstep::python {
namespace {

template <class L>
HeldLoss held(const L& loss) {
  return {loss.name(),
          [loss](const Tensor& y, const Tensor& t, const Tensor& w) { return loss(y, t, w); },
          train::LossFunction(loss)};
}

template <class L>
HeldLoss held_of_three(const L& loss) {
  const auto three = [loss](const Tensor& a, const Tensor& b, const Tensor& c) {
    return loss(a, b, c);
  };
  return {loss.name(), three, train::LossFunction(three)};
}

py::tuple all_of(const train::Tensors& outputs, const train::Tensors& labels) {
  py::tuple arguments(outputs.size() + labels.size());
  std::size_t place = 0;
  for (const Tensor& output : outputs) arguments[place++] = py::cast(output);
  for (const Tensor& label : labels) arguments[place++] = py::cast(label);
  return arguments;
}

train::LossFunction::Function from_callable(const py::object& function) {
  return
      [call = PythonCall(function)](const train::Tensors& outputs, const train::Tensors& labels) {
        const py::gil_scoped_acquire locked;
        return to_tensor(call.get()(*all_of(outputs, labels)));
      };
}

// A class, or a function of lockstep.nn: what they make is a loss, and they are none.
bool makes_losses(const py::object& given) {
  if (py::isinstance<py::type>(given)) return true;
  return PyCFunction_CheckExact(given.ptr()) != 0 &&
         py::str(given.attr("__module__")).equal(py::str("lockstep._core.nn"));
}

// (predicted, expected), or those and which of them count.
train::LossFunction::ClassFunction classes_of(const py::object& function) {
  return
      [call = PythonCall(function)](const train::Tensors& outputs, const train::Tensors& labels) {
        const py::gil_scoped_acquire locked;
        const py::object result = call.get()(*all_of(outputs, labels));
        const auto tensors = py::cast<std::vector<Tensor>>(result);
        if (tensors.size() != 2 && tensors.size() != 3)
          throw InvalidArgument("classes: expected (predicted, expected), got {} tensors",
                                tensors.size());
        return nn::Classes{tensors[0], tensors[1], tensors.size() == 3 ? tensors[2] : Tensor()};
      };
}

void bind_cross_entropies(py::module_& m) {
  m.def(
      "SoftmaxCrossEntropyLoss",
      [](int axis, bool from_logits, double smoothing, double weight,
         const std::vector<double>& class_weights, std::optional<std::int64_t> ignore_label) {
        return held(nn::SoftmaxCrossEntropyLoss(
            {axis, from_logits, smoothing, weight, class_weights, ignore_label}));
      },
      py::arg("axis") = -1, py::arg("from_logits") = false, py::arg("smoothing") = 0.0,
      py::arg("weight") = 1.0, py::arg("class_weights") = std::vector<double>(),
      py::arg("ignore_label") = py::none(), "-log softmax(prediction) at the label.");
  m.def(
      "SigmoidBinaryCrossEntropyLoss",
      [](bool from_sigmoid, double weight) {
        return held(nn::SigmoidBinaryCrossEntropyLoss(from_sigmoid, weight));
      },
      py::arg("from_sigmoid") = false, py::arg("weight") = 1.0);
  m.def(
      "KLDivLoss",
      [](bool from_logits, int axis, double weight, bool log_target) {
        return held(nn::KLDivLoss(from_logits, axis, weight, log_target));
      },
      py::arg("from_logits") = true, py::arg("axis") = -1, py::arg("weight") = 1.0,
      py::arg("log_target") = false);
  m.def(
      "CTCLoss",
      [](const std::string& layout, const std::string& blank, double weight) {
        return held(
            nn::CTCLoss({layout == "TNC" ? nn::SequenceLayout::TNC : nn::SequenceLayout::NTC,
                         blank == "first" ? nn::BlankLabel::first : nn::BlankLabel::last, weight}));
      },
      py::arg("layout") = "NTC", py::arg("blank") = "last", py::arg("weight") = 1.0);
}

void bind_distances(py::module_& m) {
  m.def(
      "L1Loss", [](double weight) { return held(nn::L1Loss(weight)); }, py::arg("weight") = 1.0,
      "|p - t|");
  m.def(
      "L2Loss", [](double weight) { return held(nn::L2Loss(weight)); }, py::arg("weight") = 1.0,
      "(p - t)^2 / 2");
  m.def(
      "HuberLoss", [](double rho, double weight) { return held(nn::HuberLoss(rho, weight)); },
      py::arg("rho") = 1.0, py::arg("weight") = 1.0);
  m.def(
      "HingeLoss", [](double margin, double weight) { return held(nn::HingeLoss(margin, weight)); },
      py::arg("margin") = 1.0, py::arg("weight") = 1.0);
  m.def(
      "SquaredHingeLoss",
      [](double margin, double weight) { return held(nn::SquaredHingeLoss(margin, weight)); },
      py::arg("margin") = 1.0, py::arg("weight") = 1.0);
  m.def(
      "LogisticLoss",
      [](const std::string& label_format, double weight) {
        return held(nn::LogisticLoss(
            label_format == "binary" ? nn::LabelFormat::binary : nn::LabelFormat::signs, weight));
      },
      py::arg("label_format") = "signs", py::arg("weight") = 1.0);
  m.def(
      "PoissonNLLLoss",
      [](bool from_logits, bool compute_full, double epsilon, double weight) {
        return held(nn::PoissonNLLLoss({from_logits, compute_full, epsilon, weight}));
      },
      py::arg("from_logits") = true, py::arg("compute_full") = false, py::arg("epsilon") = 1e-8,
      py::arg("weight") = 1.0);
  m.def(
      "TripletLoss",
      [](double margin, double weight) { return held_of_three(nn::TripletLoss(margin, weight)); },
      py::arg("margin") = 1.0, py::arg("weight") = 1.0);
  m.def(
      "CosineEmbeddingLoss",
      [](double margin, double weight) {
        return held_of_three(nn::CosineEmbeddingLoss(margin, weight));
      },
      py::arg("margin") = 0.0, py::arg("weight") = 1.0);
}

}  // namespace

train::LossFunction to_loss(const py::object& loss, const py::object& classes) {
  train::LossFunction function;
  if (py::isinstance<HeldLoss>(loss))
    function = py::cast<HeldLoss&>(loss).function;
  else if (py::isinstance<nn::Block>(loss))
    function = train::LossFunction(block_of(loss));
  else if (makes_losses(loss))
    throw py::type_error(fmt::format("Trainer: loss must be a loss, and {0} makes one: write {0}()",
                                     py::cast<std::string>(loss.attr("__name__"))));
  else if (PyCallable_Check(loss.ptr()) != 0)
    function = train::LossFunction(from_callable(loss));
  else
    refuse("Trainer: loss", "a loss of lockstep.nn, a Block or a function", loss);
  if (classes.is_none()) return function;
  return train::LossFunction(
      train::LossFunction::Function(
          [function](const train::Tensors& y, const train::Tensors& t) { return function(y, t); }),
      classes_of(classes));
}

void bind_loss(py::module_& m) {
  py::class_<HeldLoss>(m, "Loss", "One value for each sample.")
      .def_readonly("name", &HeldLoss::name)
      .def(
          "__call__",
          [](const HeldLoss& self, const Tensor& prediction, const Tensor& label,
             const Tensor& sample_weight) { return self.call(prediction, label, sample_weight); },
          py::arg("prediction"), py::arg("label"), py::arg("sample_weight") = Tensor(),
          py::call_guard<py::gil_scoped_release>())
      .def("__repr__", [](const HeldLoss& self) { return self.name; });
  bind_cross_entropies(m);
  bind_distances(m);
}

}  // namespace lockstep::python
