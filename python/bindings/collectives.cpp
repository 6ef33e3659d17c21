// SPDX-License-Identifier: Apache-2.0
// Collectives between the workers of a job, on tensors. A process alone is a group of one.
#include "bindings/bindings.h"
#include "bindings/train.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::python {
namespace {

comm::Element element_of(const char* call, DType dtype) {
  switch (dtype) {
    case DType::float32: return comm::Element::float32;
    case DType::float64: return comm::Element::float64;
    case DType::float16: return comm::Element::float16;
    case DType::bfloat16: return comm::Element::bfloat16;
    case DType::int32: return comm::Element::int32;
    case DType::int64: return comm::Element::int64;
    case DType::uint8: return comm::Element::uint8;
    default:
      throw InvalidArgument("{}: {} cannot be added up between workers", call, name_of(dtype));
  }
}

comm::Reduction reduction_of(const std::string& name) {
  if (name == "sum") return comm::Reduction::sum;
  if (name == "min") return comm::Reduction::minimum;
  if (name == "max") return comm::Reduction::maximum;
  throw InvalidArgument("all_reduce: there is no '{}' (there are: sum, min, max)", name);
}

std::span<std::byte> bytes_of(const Tensor& dense) {
  if (dense.numel() == 0) return {};
  return {dense.raw(), dense.info().bytes()};
}

comm::CallOptions with_timeout(double seconds) {
  comm::CallOptions options;
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds));
  return options;
}

Tensor all_reduce(const HeldJob& job, const Tensor& x, const std::string& reduction,
                  double timeout) {
  const comm::Element element = element_of("all_reduce", x.dtype());
  const comm::Reduction how = reduction_of(reduction);
  const Tensor result = x.copy();
  if (const auto others = job.own.communicator())
    others->all_reduce(bytes_of(result), element, how, with_timeout(timeout));
  return result;
}

Tensor broadcast(const HeldJob& job, const Tensor& x, int root, double timeout) {
  const Tensor result = x.copy();
  if (const auto others = job.own.communicator())
    others->broadcast(bytes_of(result), root, with_timeout(timeout));
  return result;
}

Tensor all_gather(const HeldJob& job, const Tensor& x, double timeout) {
  const Tensor part = x.contiguous();
  const auto others = job.own.communicator();
  Shape shape = x.shape();
  shape.insert(0, others == nullptr ? 1 : others->size());
  const Tensor all = Tensor::empty(shape, x.dtype());
  if (others == nullptr)
    all.assign(part);
  else
    others->all_gather(bytes_of(part), bytes_of(all), with_timeout(timeout));
  return all;
}

void barrier(const HeldJob& job, double timeout) {
  if (const auto others = job.own.communicator()) others->barrier(with_timeout(timeout));
}

}  // namespace

void bind_collectives(py::class_<HeldJob>& job) {
  using Release = py::gil_scoped_release;
  job.def("all_reduce", &all_reduce, py::arg("x"), py::arg("reduction") = "sum",
          py::arg("timeout") = 60.0,
          "The sum, the least or the largest over all workers, the same bits on each.",
          py::call_guard<Release>())
      .def("broadcast", &broadcast, py::arg("x"), py::arg("root") = 0, py::arg("timeout") = 60.0,
           "The tensor of worker `root`.", py::call_guard<Release>())
      .def("all_gather", &all_gather, py::arg("x"), py::arg("timeout") = 60.0,
           "Every worker's tensor along a new first axis.", py::call_guard<Release>())
      .def("barrier", &barrier, py::arg("timeout") = 60.0, "Waits until all workers have come.",
           py::call_guard<Release>());
}

}  // namespace lockstep::python
