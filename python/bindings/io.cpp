// SPDX-License-Identifier: Apache-2.0
// Files of named tensors, and of MXNet's arrays.
#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "lockstep/base/file.h"
#include "lockstep/io/mxnet_arrays.h"
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

io::StoredArray make_sparse(const std::string& stype, const std::vector<std::int64_t>& shape,
                            Tensor data, Tensor indices, const std::optional<Tensor>& indptr) {
  if (stype != "row_sparse" && stype != "csr")
    throw InvalidArgument("sparse array: there is no storage '{}' (row_sparse, csr)", stype);
  if (indptr.has_value() != (stype == "csr"))
    throw InvalidArgument("sparse array: csr has indptr, and row_sparse has none");
  io::StoredArray array{
      indptr ? io::Storage::csr : io::Storage::row_sparse, Shape(shape), std::move(data), {}};
  if (indptr) array.indices.push_back(*indptr);
  array.indices.push_back(std::move(indices));
  io::check(array, "sparse array");
  return array;
}

py::object from_stored(const io::StoredArray& array) {
  return array.storage == io::Storage::dense ? py::cast(array.data) : py::cast(array);
}

io::StoredArray to_stored(const py::handle& value) {
  if (py::isinstance<io::StoredArray>(value)) return py::cast<io::StoredArray>(value);
  return io::stored(py::cast<Tensor>(value));
}

// A dictionary, or a list where there are no names.
py::object from_arrays(const io::MxnetArrays& read) {
  if (read.names.empty()) {
    py::list list;
    for (const io::StoredArray& array : read.arrays) list.append(from_stored(array));
    return list;
  }
  py::dict dict;
  for (std::size_t i = 0; i < read.arrays.size(); ++i)
    dict[py::str(read.names[i])] = from_stored(read.arrays[i]);
  return dict;
}

// Names of a file may be any bytes; Python's strings are not.
py::object from_arrays_of(const std::string& name, const io::MxnetArrays& read) {
  try {
    return from_arrays(read);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_UnicodeDecodeError)) throw;
    throw Corrupt("{}: has a name that is no UTF-8", name);
  }
}

py::object load_mxnet(const std::string& path) {
  io::MxnetArrays read;
  {
    const py::gil_scoped_release released;
    read = io::read_mxnet_arrays(path);
  }
  return from_arrays_of(path, read);
}

py::object mxnet_from_bytes(const std::string& bytes, const std::string& name) {
  return from_arrays_of(name, io::mxnet_arrays_from_bytes(bytes, name));
}

void save_mxnet(const std::string& path, const std::vector<std::string>& names,
                const py::list& values) {
  io::MxnetArrays arrays{{}, names};
  for (const py::handle& value : values) arrays.arrays.push_back(to_stored(value));
  const py::gil_scoped_release released;
  io::write_mxnet_arrays(path, arrays);
}

void bind_mxnet(py::module_& m) {
  py::class_<io::StoredArray>(m, "SparseArray",
                              "A sparse array of MXNet's: the elements that are stored, and where "
                              "they belong.")
      .def(py::init(&make_sparse), py::arg("stype"), py::arg("shape"), py::arg("data"),
           py::arg("indices"), py::arg("indptr") = py::none())
      .def_property_readonly("stype",
                             [](const io::StoredArray& self) { return io::name_of(self.storage); })
      .def_property_readonly("shape", [](const io::StoredArray& self) { return self.shape; })
      .def_property_readonly("data", [](const io::StoredArray& self) { return self.data; })
      .def_property_readonly("indices",
                             [](const io::StoredArray& self) { return self.indices.back(); })
      .def_property_readonly("indptr",
                             [](const io::StoredArray& self) -> std::optional<Tensor> {
                               if (self.storage != io::Storage::csr) return {};
                               return self.indices.front();
                             })
      .def(
          "dense",
          [](const io::StoredArray& self) {
            return io::to_dense(self, "sparse array", kMaxInflated);
          },
          "The tensor with zeros where nothing is stored.");
  m.def("_load_mxnet", &load_mxnet);
  m.def("_mxnet_from_bytes", &mxnet_from_bytes);
  m.def("_mxnet_array_from_bytes", [](const std::string& bytes, const std::string& name) {
    return from_stored(io::mxnet_array_from_bytes(bytes, name));
  });
  m.def("_save_mxnet", &save_mxnet);
}

}  // namespace

void bind_io(py::module_& core) {
  py::module_ m = core.def_submodule("io", "Files of named tensors.");
  m.def("_load", &load);
  m.def("_save", &save);
  m.def("_format", [](const std::string& path) { return io::name_of(io::format_of_file(path)); });
  m.def("_write_file", [](const std::string& path, const std::string& contents) {
    const py::gil_scoped_release released;
    write_file(path, contents);
  });
  m.attr("_max_inflated") = kMaxInflated;
  m.attr("formats") = py::tuple(py::cast(io::format_names()));
  bind_mxnet(m);
}

}  // namespace lockstep::python
