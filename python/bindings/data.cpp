// SPDX-License-Identifier: Apache-2.0
#include "bindings/data.h"

#include "bindings/bindings.h"
#include "bindings/block.h"
#include "lockstep/data/image_folder.h"
#include "lockstep/data/standard_sets.h"
#include "lockstep/data/subset.h"
#include "lockstep/data/text/sequences.h"

namespace lockstep::python {
namespace {

data::Fields to_fields(const py::object& sample) {
  data::Fields fields;
  if (!py::isinstance<py::tuple>(sample) && !py::isinstance<py::list>(sample))
    return {to_tensor(sample)};
  for (const py::handle& field : sample) fields.push_back(to_tensor(field));
  return fields;
}

std::int64_t length_of(const py::object& object) {
  const Py_ssize_t length = PyObject_Length(object.ptr());
  if (length < 0) throw py::error_already_set();
  return length;
}

// Samples that Python makes. Loader threads ask for them one at a time, under the GIL, while the
// step computes without it.
class PythonDataset final : public data::Dataset {
 public:
  explicit PythonDataset(const py::object& dataset)
      : dataset_(dataset),
        size_(length_of(dataset)),
        has_batches_(py::hasattr(dataset, "get_batch")) {}
  std::int64_t size() const override { return size_; }
  data::Fields sample(std::int64_t index) const override {
    const py::gil_scoped_acquire locked;
    return to_fields(dataset_.get().attr("__getitem__")(index));
  }
  data::Fields batch(std::span<const std::int64_t> indices) const override {
    if (!has_batches_) return Dataset::batch(indices);
    const py::gil_scoped_acquire locked;
    const std::vector<std::int64_t> numbers(indices.begin(), indices.end());
    return to_fields(dataset_.get().attr("get_batch")(numbers));
  }

 private:
  PythonCall dataset_;
  std::int64_t size_;
  bool has_batches_;
};

class PythonSampler final : public data::Sampler {
 public:
  explicit PythonSampler(const py::object& sampler)
      : sampler_(sampler), size_(length_of(sampler)) {}
  std::int64_t size() const override { return size_; }
  std::vector<std::int64_t> epoch(std::int64_t number) const override {
    const py::gil_scoped_acquire locked;
    std::vector<std::int64_t> order;
    for (const py::handle& index : py::object(sampler_.get().attr("epoch")(number)))
      order.push_back(py::cast<std::int64_t>(index));
    if (static_cast<std::int64_t>(order.size()) != size_)
      throw InvalidArgument("sampler: epoch {} has {} samples, its length is {}", number,
                            order.size(), size_);
    return order;
  }

 private:
  PythonCall sampler_;
  std::int64_t size_;
};

bool are_arrays(const py::object& object) {
  if (!py::isinstance<py::tuple>(object) || py::len(object) == 0) return false;
  for (const py::handle& item : object)
    if (!py::hasattr(item, "shape")) return false;
  return true;
}

std::shared_ptr<data::Dataset> mutable_ptr(data::DatasetPtr dataset) {
  return std::const_pointer_cast<data::Dataset>(std::move(dataset));
}

void bind_dataset(py::module_& m) {
  py::class_<data::Dataset, std::shared_ptr<data::Dataset>>(m, "Samples", "A set of samples.")
      .def("__len__", &data::Dataset::size)
      .def("__getitem__",
           [](const data::Dataset& self, std::int64_t index) {
             if (index < 0) index += self.size();
             if (index < 0 || index >= self.size())
               throw py::index_error("data set: no sample " + std::to_string(index));
             data::Fields fields;
             {
               const py::gil_scoped_release released;
               fields = self.sample(index);
             }
             return py::tuple(py::cast(fields));
           })
      .def(
          "batch",
          [](const data::Dataset& self, const std::vector<std::int64_t>& indices) {
            data::Fields fields;
            {
              const py::gil_scoped_release released;
              fields = self.batch(indices);
            }
            return py::tuple(py::cast(fields));
          },
          py::arg("indices"), "Samples stacked along a new first axis.")
      .def_property_readonly("class_names", &data::Dataset::class_names);
  m.def(
      "as_dataset", [](const py::object& given) { return mutable_ptr(to_dataset(given)); },
      py::arg("dataset"), "The engine's data set of arrays, or of samples that Python makes.");
  m.def(
      "arrays",
      [](const py::args& arrays, const std::vector<std::string>& class_names) {
        return mutable_ptr(std::make_shared<data::ArrayDataset>(
            py::cast<std::vector<Tensor>>(arrays), class_names));
      },
      py::arg("class_names") = std::vector<std::string>(),
      "Arrays with a common first axis as a data set.");
}

void bind_parts(py::module_& m) {
  m.def("subset", [](const py::object& set, const std::vector<std::int64_t>& indices) {
    return mutable_ptr(std::make_shared<data::Subset>(to_dataset(set), indices));
  });
  m.def("slice", [](const py::object& set, std::int64_t first, std::int64_t end) {
    return mutable_ptr(data::slice(to_dataset(set), first, end));
  });
  m.def(
      "random_split",
      [](const py::object& set, const std::vector<std::int64_t>& sizes, std::uint64_t seed) {
        std::vector<std::shared_ptr<data::Dataset>> parts;
        for (const auto& part : data::random_split(to_dataset(set), sizes, seed))
          parts.push_back(mutable_ptr(part));
        return parts;
      },
      py::arg("dataset"), py::arg("sizes"), py::arg("seed") = 0);
}

void bind_sets(py::module_& m) {
  const auto release = py::call_guard<py::gil_scoped_release>();
  m.def(
      "image_folder",
      [](const FilePath& folder, bool skip_bad, bool allow_empty) {
        return mutable_ptr(std::make_shared<data::ImageFolder>(
            folder.text,
            data::ImageFolderOptions{.skip_bad = skip_bad, .allow_empty = allow_empty}));
      },
      py::arg("folder"), py::arg("skip_bad") = false, py::arg("allow_empty") = false, release,
      "A folder with a folder of .jpg, .jpeg and .png files for each class, in the order of names: "
      "uint8 [H, W, C] and int64.\n"
      "With skip_bad every picture is decoded now, and those that cannot be are left out; else one "
      "is an error when it is asked for. A class without a picture is an error, unless "
      "allow_empty.");
  m.def(
      "_mnist", [](const std::string& f, bool train) { return mutable_ptr(data::mnist(f, train)); },
      release);
  m.def(
      "_fashion_mnist",
      [](const std::string& f, bool train) { return mutable_ptr(data::fashion_mnist(f, train)); },
      release);
  m.def(
      "_cifar10",
      [](const std::string& f, bool train) { return mutable_ptr(data::cifar10(f, train)); },
      release);
}

void bind_samplers(py::module_& m) {
  py::class_<data::Sampler, std::shared_ptr<data::Sampler>>(m, "Order", "An order of samples.")
      .def("__len__", &data::Sampler::size)
      .def("epoch", &data::Sampler::epoch, py::arg("number"));
  const auto changeable = [](data::SamplerPtr sampler) {
    return std::const_pointer_cast<data::Sampler>(std::move(sampler));
  };
  m.def(
      "sequential_sampler",
      [=](std::int64_t size) { return changeable(data::sequential_sampler(size)); },
      py::arg("size"));
  m.def(
      "random_sampler",
      [=](std::int64_t size, std::uint64_t seed) {
        return changeable(data::random_sampler(size, seed));
      },
      py::arg("size"), py::arg("seed") = 0);
  m.def(
      "weighted_sampler",
      [=](const std::vector<double>& weights, std::int64_t draws, std::uint64_t seed) {
        return changeable(data::weighted_sampler(weights, draws, seed));
      },
      py::arg("weights"), py::arg("draws"), py::arg("seed") = 0);
  m.def(
      "bucket_sampler",
      [=](const std::vector<std::int64_t>& lengths, std::vector<std::int64_t> bounds,
          std::int64_t batch, std::uint64_t seed) {
        return changeable(data::bucket_sampler(lengths, std::move(bounds), batch, seed));
      },
      py::arg("lengths"), py::arg("bounds"), py::arg("batch"), py::arg("seed") = 0,
      "Orders in which each run of `batch` samples is of like length: of those up to one and the "
      "same of the ascending `bounds`.\n"
      "What does not fill a run waits for another epoch.");
}

}  // namespace

data::DatasetPtr to_dataset(const py::object& dataset) {
  if (py::isinstance<data::Dataset>(dataset))
    return py::cast<std::shared_ptr<data::Dataset>>(dataset);
  if (are_arrays(dataset))
    return std::make_shared<data::ArrayDataset>(py::cast<std::vector<Tensor>>(dataset));
  if (py::hasattr(dataset, "__len__") && py::hasattr(dataset, "__getitem__"))
    return std::make_shared<PythonDataset>(dataset);
  throw py::type_error("data set: expected arrays or an object with __len__ and __getitem__, got " +
                       py::cast<std::string>(py::repr(py::type::of(dataset))));
}

data::SamplerPtr to_sampler(const py::object& sampler) {
  if (sampler.is_none()) return {};
  if (py::isinstance<data::Sampler>(sampler))
    return py::cast<std::shared_ptr<data::Sampler>>(sampler);
  if (!py::hasattr(sampler, "epoch") || !py::hasattr(sampler, "__len__"))
    throw py::type_error("sampler: expected an object with __len__ and epoch(number)");
  return std::make_shared<PythonSampler>(sampler);
}

void bind_data(py::module_& core) {
  py::module_ m = core.def_submodule("data", "Data sets, transforms and the loader.");
  bind_dataset(m);
  bind_parts(m);
  bind_sets(m);
  bind_samplers(m);
  bind_transforms(m);
  bind_images(m);
  bind_loader(m);
}

}  // namespace lockstep::python
