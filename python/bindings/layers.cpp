// SPDX-License-Identifier: Apache-2.0
// The layers that most nets are made of.
#include "lockstep/nn/layers.h"

#include "bindings/bindings.h"
#include "bindings/block.h"
#include "bindings/placed.h"

namespace lockstep::python {
namespace {

using nn::BlockPtr;
using nn::Extents;
using nn::Initializer;

void bind_dense(py::module_& m) {
  m.def(
      "dense",
      [](std::int64_t units, const std::string& activation, std::int64_t inputs, bool bias,
         bool flatten, const Initializer& weight_init, const Initializer& bias_init) -> BlockPtr {
        return nn::dense(units, {.inputs = inputs,
                                 .activation = activation,
                                 .bias = bias,
                                 .flatten = flatten,
                                 .weight_init = weight_init,
                                 .bias_init = bias_init});
      },
      py::arg("units"), py::arg("activation") = "", py::arg("inputs") = -1, py::arg("bias") = true,
      py::arg("flatten") = true, py::arg("weight_init") = Initializer(),
      py::arg("bias_init") = nn::init::zero(), "activation(x weight^T + bias)");
  m.def(
      "embedding",
      [](std::int64_t rows, std::int64_t width, const Initializer& weight_init,
         std::optional<std::int64_t> padding_index, bool sparse_grad) -> BlockPtr {
        return nn::embedding(rows, width, {weight_init, padding_index, sparse_grad});
      },
      py::arg("rows"), py::arg("width"), py::arg("weight_init") = Initializer(),
      py::arg("padding_index") = py::none(), py::arg("sparse_grad") = false,
      "Rows of a table by their numbers.");
  m.def(
      "flatten", []() -> BlockPtr { return nn::flatten(); }, "[N, everything else].");
  m.def(
      "dropout", [](double p, const Ints& axes) -> BlockPtr { return nn::dropout(p, axes); },
      py::arg("p"), py::arg("axes") = Ints(), "Zeroes elements in train mode.");
  m.def(
      "lambda_",
      [](py::object function, const std::string& description) -> BlockPtr {
        return nn::lambda(
            [call = PythonCall(std::move(function))](const Tensor& x) {
              const py::gil_scoped_acquire locked;
              return placed([&] { return to_tensor(call.get()(x)); });
            },
            description);
      },
      py::arg("function"), py::arg("description") = "Lambda",
      "A function of a tensor as a block without parameters.");
}

using MakeConv = std::shared_ptr<nn::Conv> (*)(std::int64_t, const Extents&, nn::ConvLayerOptions);

void bind_conv(py::module_& m, const char* name, MakeConv make) {
  m.def(
      name,
      [make](std::int64_t channels, const Extents& kernel, const Extents& stride,
             const Extents& padding, const Extents& dilation, std::int64_t groups,
             std::int64_t inputs, const std::string& activation, bool bias,
             const Initializer& weight_init, const Initializer& bias_init,
             const Extents& output_padding, const std::string& padding_mode) -> BlockPtr {
        return make(channels, kernel,
                    {.stride = stride,
                     .padding = padding,
                     .dilation = dilation,
                     .groups = groups,
                     .inputs = inputs,
                     .activation = activation,
                     .bias = bias,
                     .weight_init = weight_init,
                     .bias_init = bias_init,
                     .output_padding = output_padding,
                     .padding_mode = padding_mode});
      },
      py::arg("channels"), py::arg("kernel"), py::arg("stride") = Extents(1),
      py::arg("padding") = Extents(0), py::arg("dilation") = Extents(1), py::arg("groups") = 1,
      py::arg("inputs") = -1, py::arg("activation") = "", py::arg("bias") = true,
      py::arg("weight_init") = Initializer(), py::arg("bias_init") = nn::init::zero(),
      py::arg("output_padding") = Extents(0), py::arg("padding_mode") = "zeros",
      "A convolution of x [N, C, spatial...].");
}

using MakePool = std::shared_ptr<nn::Pool> (*)(const Extents&, const nn::PoolLayerOptions&);

void bind_pool(py::module_& m, const char* name, MakePool make) {
  m.def(
      name,
      [make](const Extents& kernel, const Extents& stride, const Extents& padding, bool ceil_mode,
             bool count_include_pad, const Extents& dilation) -> BlockPtr {
        return make(kernel, {stride, padding, ceil_mode, count_include_pad, dilation});
      },
      py::arg("kernel"), py::arg("stride") = py::none(), py::arg("padding") = Extents(0),
      py::arg("ceil_mode") = false, py::arg("count_include_pad") = true,
      py::arg("dilation") = Extents(1), "The largest, or the mean, of each window.");
}

template <class Make>
void bind_sizes(py::module_& m, const char* name, Make make) {
  m.def(
      name, [make](const Extents& sizes) -> BlockPtr { return make(sizes); }, py::arg("sizes"));
}

template <class Make>
void bind_plain(py::module_& m, const char* name, Make make) {
  m.def(name, [make]() -> BlockPtr { return make(); });
}

void bind_pools(py::module_& m) {
  bind_pool(m, "max_pool1d", nn::max_pool1d);
  bind_pool(m, "max_pool2d", nn::max_pool2d);
  bind_pool(m, "max_pool3d", nn::max_pool3d);
  bind_pool(m, "avg_pool1d", nn::avg_pool1d);
  bind_pool(m, "avg_pool2d", nn::avg_pool2d);
  bind_pool(m, "avg_pool3d", nn::avg_pool3d);
  bind_plain(m, "global_max_pool1d", nn::global_max_pool1d);
  bind_plain(m, "global_max_pool2d", nn::global_max_pool2d);
  bind_plain(m, "global_max_pool3d", nn::global_max_pool3d);
  bind_plain(m, "global_avg_pool1d", nn::global_avg_pool1d);
  bind_plain(m, "global_avg_pool2d", nn::global_avg_pool2d);
  bind_plain(m, "global_avg_pool3d", nn::global_avg_pool3d);
  bind_sizes(m, "adaptive_avg_pool1d", nn::adaptive_avg_pool1d);
  bind_sizes(m, "adaptive_avg_pool2d", nn::adaptive_avg_pool2d);
  bind_sizes(m, "adaptive_avg_pool3d", nn::adaptive_avg_pool3d);
  bind_sizes(m, "adaptive_max_pool1d", nn::adaptive_max_pool1d);
  bind_sizes(m, "adaptive_max_pool2d", nn::adaptive_max_pool2d);
  bind_sizes(m, "adaptive_max_pool3d", nn::adaptive_max_pool3d);
}

void bind_activations(py::module_& m) {
  m.def(
      "activation", [](const std::string& name) -> BlockPtr { return nn::activation(name); },
      py::arg("name"), "relu, sigmoid, tanh, gelu, ... by name.");
  bind_plain(m, "relu", nn::relu);
  bind_plain(m, "selu", nn::selu);
  bind_plain(m, "gelu", nn::gelu);
  bind_plain(m, "silu", nn::silu);
  m.def(
      "leaky_relu", [](double slope) -> BlockPtr { return nn::leaky_relu(slope); },
      py::arg("slope") = 0.01);
  m.def(
      "elu", [](double alpha) -> BlockPtr { return nn::elu(alpha); }, py::arg("alpha") = 1.0);
  m.def(
      "prelu",
      [](std::int64_t channels, const Initializer& init) -> BlockPtr {
        return nn::prelu(channels, init);
      },
      py::arg("channels") = 1, py::arg("init") = nn::init::constant(0.25));
}

}  // namespace

void bind_layers(py::module_& m) {
  bind_dense(m);
  bind_conv(m, "conv1d", nn::conv1d);
  bind_conv(m, "conv2d", nn::conv2d);
  bind_conv(m, "conv3d", nn::conv3d);
  bind_conv(m, "conv1d_transpose", nn::conv1d_transpose);
  bind_conv(m, "conv2d_transpose", nn::conv2d_transpose);
  bind_conv(m, "conv3d_transpose", nn::conv3d_transpose);
  bind_pools(m);
  bind_activations(m);
}

}  // namespace lockstep::python
