// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/models/models.h"

#include "bindings/bindings.h"
#include "bindings/block.h"
#include "lockstep/nn/models/recommenders.h"

namespace lockstep::python {
namespace {

using nn::BlockPtr;
namespace models = nn::models;

void bind_small_models(py::module_& m) {
  m.def(
      "mlp",
      [](const std::vector<std::int64_t>& hidden, std::int64_t classes, double dropout) {
        return models::mlp({hidden, classes, dropout});
      },
      py::arg("hidden") = std::vector<std::int64_t>{128}, py::arg("classes") = 10,
      py::arg("dropout") = 0.0, "Dense layers with relu between them.");
  m.def(
      "lenet",
      [](std::int64_t width, std::int64_t hidden, std::int64_t classes, double dropout) {
        return models::lenet({width, hidden, classes, dropout});
      },
      py::arg("width") = 32, py::arg("hidden") = 128, py::arg("classes") = 10,
      py::arg("dropout") = 0.0, "Two of convolution, relu, pool; then two dense layers.");
  m.def(
      "cifar_cnn",
      [](std::int64_t width, std::int64_t hidden, std::int64_t classes, double dropout) {
        return models::cifar_cnn({width, hidden, classes, dropout});
      },
      py::arg("width") = 64, py::arg("hidden") = 128, py::arg("classes") = 10,
      py::arg("dropout") = 0.0);
  m.def("cifar_resnet18", &models::cifar_resnet18, py::arg("classes") = 10);
}

void bind_image_models(py::module_& m) {
  m.def(
      "resnet",
      [](int layers, int version, std::int64_t classes, bool small_images) {
        return models::resnet({layers, version, classes, small_images});
      },
      py::arg("layers") = 18, py::arg("version") = 1, py::arg("classes") = 1000,
      py::arg("small_images") = false, "Residual networks: He et al., 2015 and 2016.");
  m.def(
      "vgg",
      [](int layers, bool batch_norm, std::int64_t hidden, std::int64_t classes, double dropout) {
        return models::vgg({layers, batch_norm, hidden, classes, dropout});
      },
      py::arg("layers") = 16, py::arg("batch_norm") = false, py::arg("hidden") = 4096,
      py::arg("classes") = 1000, py::arg("dropout") = 0.5);
  m.def(
      "mobilenet",
      [](int version, double width, std::int64_t classes) {
        return models::mobilenet({version, width, classes});
      },
      py::arg("version") = 2, py::arg("width") = 1.0, py::arg("classes") = 1000);
  m.def(
      "densenet",
      [](int layers, std::int64_t classes, double dropout) {
        return models::densenet({layers, classes, dropout});
      },
      py::arg("layers") = 121, py::arg("classes") = 1000, py::arg("dropout") = 0.0);
}

void bind_text_models(py::module_& m) {
  m.def(
      "bert",
      [](std::int64_t vocabulary, std::int64_t segments, std::int64_t context, std::int64_t width,
         std::int64_t heads, int blocks, double dropout, bool masked_lm) {
        return models::bert(
            {vocabulary, segments, context, width, heads, blocks, dropout, masked_lm});
      },
      py::arg("vocabulary") = 30522, py::arg("segments") = 2, py::arg("context") = 512,
      py::arg("width") = 768, py::arg("heads") = 12, py::arg("blocks") = 12,
      py::arg("dropout") = 0.1, py::arg("masked_lm") = false, "Devlin et al., 2018.");
  m.def(
      "lstm_classifier",
      [](std::int64_t vocabulary, std::int64_t width, std::int64_t hidden, int layers,
         bool bidirectional, std::int64_t classes, double dropout) {
        return models::lstm_classifier(
            {vocabulary, width, hidden, layers, bidirectional, classes, dropout});
      },
      py::arg("vocabulary") = 10000, py::arg("width") = 128, py::arg("hidden") = 256,
      py::arg("layers") = 1, py::arg("bidirectional") = false, py::arg("classes") = 2,
      py::arg("dropout") = 0.0);
  m.def(
      "gpt",
      [](std::int64_t vocabulary, std::int64_t context, std::int64_t width, std::int64_t heads,
         int blocks, double dropout, double attention_dropout) {
        return models::gpt({vocabulary, context, width, heads, blocks, dropout, attention_dropout});
      },
      py::arg("vocabulary") = 96, py::arg("context") = 128, py::arg("width") = 256,
      py::arg("heads") = 8, py::arg("blocks") = 4, py::arg("dropout") = 0.0,
      py::arg("attention_dropout") = 0.0);
}

void bind_vit(py::module_& m) {
  m.def(
      "vit",
      [](std::int64_t image, std::int64_t patch, std::int64_t width, std::int64_t heads, int blocks,
         std::int64_t classes, double dropout) {
        return models::vit({image, patch, width, heads, blocks, classes, dropout});
      },
      py::arg("image") = 32, py::arg("patch") = 4, py::arg("width") = 192, py::arg("heads") = 6,
      py::arg("blocks") = 6, py::arg("classes") = 10, py::arg("dropout") = 0.0);
}

void bind_recommenders(py::module_& m) {
  m.def(
      "matrix_factorization",
      [](std::int64_t users, std::int64_t items, std::int64_t width, double mean,
         bool sparse_grad) {
        return models::matrix_factorization({users, items, width, mean, sparse_grad});
      },
      py::arg("users"), py::arg("items"), py::arg("width") = 16, py::arg("mean") = 0.0,
      py::arg("sparse_grad") = false);
  m.def(
      "dlrm",
      [](const std::vector<std::int64_t>& rows, std::int64_t width,
         const std::vector<std::int64_t>& bottom, const std::vector<std::int64_t>& top,
         bool sparse_grad) {
        return models::dlrm({rows, width, bottom, top, sparse_grad});
      },
      py::arg("rows"), py::arg("width") = 16, py::arg("bottom") = std::vector<std::int64_t>{64},
      py::arg("top") = std::vector<std::int64_t>{64, 32}, py::arg("sparse_grad") = false);
}

}  // namespace

void bind_models(py::module_& core) {
  py::module_ m = core.def_submodule("models", "Nets that are known by name.");
  bind_small_models(m);
  bind_image_models(m);
  bind_text_models(m);
  bind_vit(m);
  bind_recommenders(m);
  m.def(
      "make_model",
      [](const std::string& name, std::optional<std::int64_t> classes,
         std::optional<std::int64_t> vocabulary, std::optional<double> dropout) {
        return models::make_model(name, {classes, vocabulary, dropout});
      },
      py::arg("name"), py::arg("classes") = py::none(), py::arg("vocabulary") = py::none(),
      py::arg("dropout") = py::none(), "A library model by name: make_model('resnet50_v1').");
  m.def("model_names", &models::model_names);
}

}  // namespace lockstep::python
