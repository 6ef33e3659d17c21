// SPDX-License-Identifier: Apache-2.0
// Files of named tensors.
#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "lockstep/io/tensor_file.h"
#include "lockstep/train/parameter_file.h"

namespace lockstep::python {
namespace {

using Format = std::optional<std::string>;

std::optional<io::FileFormat> format_of(const Format& name) {
  if (!name) return {};
  return io::format_from_name(*name);
}

std::vector<io::NamedTensor> load(const std::string& path, const Format& format,
                                  std::int64_t max_inflated) {
  const py::gil_scoped_release released;
  return train::load_parameters(path, format_of(format), {.max_inflated = max_inflated});
}

void save(const std::string& path, const std::vector<io::NamedTensor>& tensors,
          const Format& format) {
  const py::gil_scoped_release released;
  io::save_tensors(path, tensors, format_of(format));
}

}  // namespace

void bind_io(py::module_& core) {
  py::module_ m = core.def_submodule("io", "Files of named tensors.");
  m.def("_load", &load);
  m.def("_save", &save);
  m.def("_format", [](const std::string& path) { return io::name_of(io::format_of_file(path)); });
  m.attr("_max_inflated") = kMaxInflated;
  m.attr("formats") = py::tuple(py::cast(io::format_names()));
}

}  // namespace lockstep::python
