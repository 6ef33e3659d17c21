// SPDX-License-Identifier: Apache-2.0
// Functions that are compositions of ops, or return less than the op of their name does.
#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "lockstep/ops/ops.h"
#include "lockstep/tensor/storage.h"

namespace lockstep::python {
namespace {

using Guard = py::call_guard<py::gil_scoped_release>;

void bind_creation(py::module_& m) {
  m.def("empty", &Tensor::empty, py::arg("shape"), py::arg("dtype") = DType::float32,
        py::arg("device") = Device(), "A tensor with whatever its memory holds.");
  m.def(
      "zeros", [](const Shape& s, DType t, const Device& d) { return zeros(s, t, d); },
      py::arg("shape"), py::arg("dtype") = DType::float32, py::arg("device") = Device(), "All 0.");
  m.def(
      "ones", [](const Shape& s, DType t, const Device& d) { return ones(s, t, d); },
      py::arg("shape"), py::arg("dtype") = DType::float32, py::arg("device") = Device(), "All 1.");
  m.def("zeros_like", &zeros_like, py::arg("x"), "All 0, like `x`.");
  m.def("ones_like", &ones_like, py::arg("x"), "All 1, like `x`.");
}

void bind_shapes(py::module_& m) {
  m.def("flatten", &flatten, py::arg("x"), py::arg("start_axis") = 1,
        "The axes from `start_axis` on made one.", Guard());
  m.def("swap_axes", &swap_axes, py::arg("x"), py::arg("a"), py::arg("b"), "Two axes exchanged.",
        Guard());
  m.def("slice_axis", &slice_axis, py::arg("x"), py::arg("axis"), py::arg("begin"), py::arg("end"),
        "A part of one axis.", Guard());
  m.def("stack", &stack, py::arg("parts"), py::arg("axis") = 0,
        "Tensors of one shape along a new axis.", Guard());
  m.def("meshgrid", &meshgrid, py::arg("vectors"), "The coordinates of a grid.", Guard());
  m.def("_split_parts", static_cast<std::vector<Tensor> (*)(const Tensor&, int, int)>(&split),
        Guard());
  m.def("_split_sizes", &split_sizes, Guard());
  m.def("diag", &diag, py::arg("x"), py::arg("offset") = 0,
        "The diagonal of a matrix, or the matrix of a diagonal.", Guard());
  m.def("diag_embed", &diag_embed, py::arg("x"), py::arg("offset") = 0,
        "Matrices with the last axis of `x` on their diagonals.", Guard());
  m.def("pixel_shuffle", &pixel_shuffle, py::arg("x"), py::arg("factor"), "Channels become places.",
        Guard());
  m.def("pixel_unshuffle", &pixel_unshuffle, py::arg("x"), py::arg("factor"),
        "Places become channels.", Guard());
  m.def(
      "einsum",
      [](const std::string& equation, const py::args& operands) {
        std::vector<Tensor> tensors;
        for (const py::handle& operand : operands) tensors.push_back(to_tensor(operand));
        const py::gil_scoped_release released;
        return einsum(equation, tensors);
      },
      py::arg("equation"), "Sums of products, in Einstein's notation: einsum('ij,jk->ik', a, b).");
}

void bind_contents(py::module_& m) {
  m.def("nonzero", &nonzero, py::arg("x"), "Where elements are not 0: [count, axes], int64.",
        Guard());
  m.def(
      "unique",
      [](const Tensor& x) {
        const Unique found = unique(x);
        return py::make_tuple(found.values, found.inverse, found.counts);
      },
      py::arg("x"), "The values sorted, each once; where each element stands there; their counts.");
  m.def("multinomial", &multinomial, py::arg("probabilities"), py::arg("count") = 1,
        py::arg("replacement") = true, "Class numbers drawn by their probabilities.", Guard());
  m.def("random_key", &random_key, py::arg("seed"), py::arg("step") = 0, py::arg("shard") = 0,
        "What draws are made of, as a tensor: draws of one key are the same everywhere.");
}

// The ops of these names return what their gradients need, too.
void bind_first_outputs(py::module_& m) {
  m.def("layer_norm", &layer_norm, py::arg("x"), py::arg("gamma"), py::arg("beta"),
        py::arg("epsilon") = 1e-5, "Normalised over the last axis.", Guard());
  m.def("group_norm", &group_norm, py::arg("x"), py::arg("gamma"), py::arg("beta"),
        py::arg("groups"), py::arg("epsilon") = 1e-5, "Normalised over groups of channels.",
        Guard());
  m.def("instance_norm", &instance_norm, py::arg("x"), py::arg("gamma"), py::arg("beta"),
        py::arg("epsilon") = 1e-5, "Normalised over each channel of each sample.", Guard());
  m.def("softmax_cross_entropy", &softmax_cross_entropy, py::arg("logits"), py::arg("labels"),
        py::arg("smoothing") = 0.0, "-log softmax(logits) at each label.", Guard());
}

}  // namespace

void bind_functions(py::module_& m) {
  bind_creation(m);
  bind_shapes(m);
  bind_contents(m);
  bind_first_outputs(m);
  m.def("_to_device",
        [](const Tensor& x, const py::object& device) { return x.to(to_device(device.ptr())); });
  m.def(
      "memory_stats",
      [] {
        const MemoryStats stats = memory_stats();
        py::dict result;
        result["live_bytes"] = stats.live_bytes;
        result["peak_bytes"] = stats.peak_bytes;
        return result;
      },
      "Bytes that tensors hold now, and the most they held.");
}

}  // namespace lockstep::python
