// SPDX-License-Identifier: Apache-2.0
// Norms, recurrent layers, attention and what changes sizes.
#include "bindings/bindings.h"
#include "bindings/block.h"
#include "lockstep/nn/layers.h"

namespace lockstep::python {
namespace {

using nn::BlockPtr;
using nn::Extents;
using nn::Initializer;

nn::NormOptions norm_options(double epsilon, bool center, bool scale, std::int64_t channels,
                             const Initializer& gamma_init, const Initializer& beta_init) {
  return {epsilon, center, scale, channels, gamma_init, beta_init};
}

template <class Make>
void bind_batch_norm(py::module_& m, const char* name, const Make& make) {
  m.def(
      name,
      [make](double momentum, double epsilon, bool center, bool scale, bool use_global_stats,
             std::int64_t channels, const Initializer& gamma_init, const Initializer& beta_init) {
        return make(nn::BatchNormOptions{momentum, epsilon, center, scale, use_global_stats,
                                         channels, gamma_init, beta_init});
      },
      py::arg("momentum") = 0.9, py::arg("epsilon") = 1e-5, py::arg("center") = true,
      py::arg("scale") = true, py::arg("use_global_stats") = false, py::arg("channels") = -1,
      py::arg("gamma_init") = nn::init::one(), py::arg("beta_init") = nn::init::zero());
}

void bind_norms(py::module_& m) {
  bind_batch_norm(m, "batch_norm", [](const nn::BatchNormOptions& options) -> BlockPtr {
    return nn::batch_norm(options);
  });
  bind_batch_norm(m, "sync_batch_norm", [](const nn::BatchNormOptions& options) -> BlockPtr {
    return nn::sync_batch_norm(options);
  });
  m.def(
      "layer_norm",
      [](double epsilon, bool center, bool scale, std::int64_t channels, const Initializer& gamma,
         const Initializer& beta) -> BlockPtr {
        return nn::layer_norm(norm_options(epsilon, center, scale, channels, gamma, beta));
      },
      py::arg("epsilon") = 1e-5, py::arg("center") = true, py::arg("scale") = true,
      py::arg("channels") = -1, py::arg("gamma_init") = nn::init::one(),
      py::arg("beta_init") = nn::init::zero());
  m.def(
      "instance_norm",
      [](double epsilon, bool center, bool scale, std::int64_t channels, const Initializer& gamma,
         const Initializer& beta) -> BlockPtr {
        return nn::instance_norm(norm_options(epsilon, center, scale, channels, gamma, beta));
      },
      py::arg("epsilon") = 1e-5, py::arg("center") = true, py::arg("scale") = true,
      py::arg("channels") = -1, py::arg("gamma_init") = nn::init::one(),
      py::arg("beta_init") = nn::init::zero());
  m.def(
      "group_norm",
      [](int groups, double epsilon, bool center, bool scale, std::int64_t channels,
         const Initializer& gamma, const Initializer& beta) -> BlockPtr {
        return nn::group_norm(groups, norm_options(epsilon, center, scale, channels, gamma, beta));
      },
      py::arg("groups"), py::arg("epsilon") = 1e-5, py::arg("center") = true,
      py::arg("scale") = true, py::arg("channels") = -1, py::arg("gamma_init") = nn::init::one(),
      py::arg("beta_init") = nn::init::zero());
}

void bind_recurrent(py::module_& m) {
  m.def(
      "_recurrent",
      [](const std::string& mode, std::int64_t hidden, int layers, const std::string& layout,
         double dropout, bool bidirectional, std::int64_t inputs,
         bool use_sequence_length) -> BlockPtr {
        nn::RnnLayerOptions options;
        options.layers = layers;
        options.layout = layout;
        options.dropout = dropout;
        options.bidirectional = bidirectional;
        options.inputs = inputs;
        options.use_sequence_length = use_sequence_length;
        return std::make_shared<nn::Recurrent>(mode, hidden, options);
      },
      py::arg("mode"), py::arg("hidden"), py::arg("layers") = 1, py::arg("layout") = "TNC",
      py::arg("dropout") = 0.0, py::arg("bidirectional") = false, py::arg("inputs") = -1,
      py::arg("use_sequence_length") = false);
  py::class_<nn::RecurrentCell, nn::Block, std::shared_ptr<nn::RecurrentCell>>(m, "RecurrentCell")
      .def(py::init([](const std::string& mode, std::int64_t hidden, std::int64_t inputs) {
             nn::RnnCellOptions options;
             options.inputs = inputs;
             return std::make_shared<nn::RecurrentCell>(mode, hidden, options);
           }),
           py::arg("mode"), py::arg("hidden"), py::arg("inputs") = -1)
      .def(
          "begin_state",
          [](const nn::RecurrentCell& self, std::int64_t batch, DType dtype) {
            return self.begin_state(batch, dtype);
          },
          py::arg("batch"), py::arg("dtype") = DType::float32)
      .def("unroll", &nn::RecurrentCell::unroll, py::arg("x"),
           py::arg("states") = std::vector<Tensor>(), py::arg("layout") = "TNC",
           py::call_guard<py::gil_scoped_release>());
}

nn::TransformerOptions transformer_options(std::int64_t hidden, double dropout,
                                           double attention_dropout, const std::string& activation,
                                           bool pre_norm, bool causal) {
  nn::TransformerOptions options;
  options.hidden = hidden;
  options.dropout = dropout;
  options.attention_dropout = attention_dropout;
  options.activation = activation;
  options.pre_norm = pre_norm;
  options.causal = causal;
  return options;
}

void bind_attention(py::module_& m) {
  m.def(
      "multi_head_attention",
      [](std::int64_t width, std::int64_t heads, bool causal, bool cross, double dropout,
         bool bias) -> BlockPtr {
        nn::AttentionOptions options;
        options.causal = causal;
        options.cross = cross;
        options.dropout = dropout;
        options.bias = bias;
        return nn::multi_head_attention(width, heads, options);
      },
      py::arg("width"), py::arg("heads"), py::arg("causal") = false, py::arg("cross") = false,
      py::arg("dropout") = 0.0, py::arg("bias") = true);
  m.def(
      "transformer_encoder_block",
      [](std::int64_t width, std::int64_t heads, std::int64_t hidden, double dropout,
         double attention_dropout, const std::string& activation, bool pre_norm,
         bool causal) -> BlockPtr {
        return nn::transformer_encoder_block(
            width, heads,
            transformer_options(hidden, dropout, attention_dropout, activation, pre_norm, causal));
      },
      py::arg("width"), py::arg("heads"), py::arg("hidden") = 0, py::arg("dropout") = 0.0,
      py::arg("attention_dropout") = 0.0, py::arg("activation") = "gelu",
      py::arg("pre_norm") = true, py::arg("causal") = false);
  m.def(
      "transformer_decoder_block",
      [](std::int64_t width, std::int64_t heads, std::int64_t hidden, double dropout,
         double attention_dropout, const std::string& activation, bool pre_norm) -> BlockPtr {
        return nn::transformer_decoder_block(
            width, heads,
            transformer_options(hidden, dropout, attention_dropout, activation, pre_norm, true));
      },
      py::arg("width"), py::arg("heads"), py::arg("hidden") = 0, py::arg("dropout") = 0.0,
      py::arg("attention_dropout") = 0.0, py::arg("activation") = "gelu",
      py::arg("pre_norm") = true);
}

void bind_sizes(py::module_& m) {
  m.def(
      "_pad",
      [](int axes, const Extents& widths, const std::string& mode, double value) -> BlockPtr {
        return std::make_shared<nn::Pad>(axes, widths, nn::PadOptions{mode, value});
      },
      py::arg("axes"), py::arg("widths"), py::arg("mode") = "constant", py::arg("value") = 0.0);
  m.def(
      "upsample",
      [](const Ints& size, double scale, const std::string& mode, bool align_corners) -> BlockPtr {
        return nn::upsample({size, scale, mode, align_corners});
      },
      py::arg("size") = Ints(), py::arg("scale") = 0.0, py::arg("mode") = "nearest",
      py::arg("align_corners") = false);
  m.def(
      "pixel_shuffle", [](std::int64_t f) -> BlockPtr { return nn::pixel_shuffle(f); },
      py::arg("factor"));
  m.def(
      "pixel_unshuffle", [](std::int64_t f) -> BlockPtr { return nn::pixel_unshuffle(f); },
      py::arg("factor"));
  m.def(
      "spectral_norm",
      [](const py::object& layer, const std::string& parameter, int iterations, double epsilon,
         int axis) -> BlockPtr {
        return nn::spectral_norm(block_of(layer), {parameter, iterations, epsilon, axis});
      },
      py::arg("layer"), py::arg("parameter") = "weight", py::arg("iterations") = 1,
      py::arg("epsilon") = 1e-12, py::arg("axis") = 0);
}

}  // namespace

void bind_more_layers(py::module_& m) {
  bind_norms(m);
  bind_recurrent(m);
  bind_attention(m);
  bind_sizes(m);
}

}  // namespace lockstep::python
