// SPDX-License-Identifier: Apache-2.0
#include "bindings/bindings.h"
#include "bindings/block.h"
#include "bindings/data.h"
#include "lockstep/data/catalogue.h"
#include "lockstep/data/loader.h"

namespace lockstep::python {
namespace {

struct HeldTransform {
  data::Transform transform;
};

HeldTransform held(data::Transform transform) { return {std::move(transform)}; }

data::Transform of_function(const py::object& function, bool draws) {
  std::string name = "custom";
  if (py::hasattr(function, "__name__")) name = py::cast<std::string>(function.attr("__name__"));
  data::Transform made;
  made.description = name;
  made.uses = draws ? 1 : 0;
  made.apply = [call = PythonCall(function), draws](const Tensor& x, const RandomKey& key) {
    const py::gil_scoped_acquire locked;
    if (!draws) return to_tensor(call.get()(x));
    const py::object generator = py::module_::import("lockstep.data").attr("_generator");
    return to_tensor(call.get()(x, generator(key.seed, key.step, key.shard, key.use)));
  };
  return made;
}

void bind_pictures(py::module_& m) {
  m.def(
      "to_tensor",
      [](const std::optional<std::vector<float>>& mean,
         const std::optional<std::vector<float>>& deviation) {
        if (!mean && !deviation) return held(data::to_tensor());
        return held(data::to_tensor(mean.value_or(std::vector<float>{0.0F}),
                                    deviation.value_or(std::vector<float>{1.0F})));
      },
      py::arg("mean") = py::none(), py::arg("deviation") = py::none(),
      "[C, H, W] float32 in [0, 1] of pixels [H, W, C], normalised where asked.");
  m.def(
      "normalize",
      [](const std::vector<float>& mean, const std::vector<float>& deviation) {
        return held(data::normalize(mean, deviation));
      },
      py::arg("mean"), py::arg("deviation"));
  m.def(
      "cast", [](DType dtype) { return held(data::cast(dtype)); }, py::arg("dtype"));
  m.def(
      "resize", [](std::int64_t h, std::int64_t w) { return held(data::resize(h, w)); },
      py::arg("height"), py::arg("width"));
  m.def(
      "resize_short", [](std::int64_t size) { return held(data::resize_short(size)); },
      py::arg("size"));
  m.def(
      "center_crop", [](std::int64_t h, std::int64_t w) { return held(data::center_crop(h, w)); },
      py::arg("height"), py::arg("width"));
}

void bind_random(py::module_& m) {
  m.def(
      "random_crop",
      [](std::int64_t h, std::int64_t w, std::int64_t pad, std::vector<float> fill) {
        return held(data::random_crop(h, w, pad, std::move(fill)));
      },
      py::arg("height"), py::arg("width"), py::arg("pad") = 0,
      py::arg("fill") = std::vector<float>{});
  m.def(
      "random_resized_crop",
      [](std::int64_t h, std::int64_t w, double min_area, double max_area, double min_ratio,
         double max_ratio) {
        return held(data::random_resized_crop(h, w, min_area, max_area, min_ratio, max_ratio));
      },
      py::arg("height"), py::arg("width"), py::arg("min_area") = 0.08, py::arg("max_area") = 1.0,
      py::arg("min_ratio") = 3.0 / 4.0, py::arg("max_ratio") = 4.0 / 3.0);
  m.def(
      "random_flip_left_right", [](double p) { return held(data::random_flip_left_right(p)); },
      py::arg("p") = 0.5);
  m.def(
      "random_flip_top_bottom", [](double p) { return held(data::random_flip_top_bottom(p)); },
      py::arg("p") = 0.5);
  m.def(
      "random_rotation", [](double degrees) { return held(data::random_rotation(degrees)); },
      py::arg("degrees"));
  m.def(
      "random_color_jitter",
      [](double brightness, double contrast, double saturation, double hue) {
        return held(data::random_color_jitter(brightness, contrast, saturation, hue));
      },
      py::arg("brightness"), py::arg("contrast"), py::arg("saturation"), py::arg("hue") = 0.0);
}

// Threads that wait for the GIL are waited for without it.
class HeldLoader {
 public:
  HeldLoader(const py::object& dataset, const py::object& sampler, std::int64_t batch,
             data::LoaderOptions options)
      : loader_(std::make_unique<data::Loader>(to_dataset(dataset),
                                               data::ShardSampler(to_sampler(sampler), batch, 1),
                                               std::move(options))) {}
  ~HeldLoader() {
    const py::gil_scoped_release released;
    loader_.reset();
  }
  HeldLoader(const HeldLoader&) = delete;
  HeldLoader& operator=(const HeldLoader&) = delete;

  py::tuple step(std::int64_t number) {
    std::vector<data::Fields> shards;
    {
      const py::gil_scoped_release released;
      shards = loader_->step(number);
    }
    return py::tuple(py::cast(shards.at(0)));
  }
  std::int64_t steps_per_epoch() const { return loader_->steps_per_epoch(); }

 private:
  std::unique_ptr<data::Loader> loader_;
};

}  // namespace

data::Transform to_transform(const py::object& transform) {
  if (transform.is_none()) return {};
  if (py::isinstance<HeldTransform>(transform))
    return py::cast<HeldTransform&>(transform).transform;
  if (PyCallable_Check(transform.ptr()) != 0) return of_function(transform, false);
  throw py::type_error("transform: expected one of lockstep.data, or a function of a tensor");
}

py::object from_transform(const data::Transform& transform) {
  return py::cast(HeldTransform{transform});
}

void bind_transforms(py::module_& m) {
  py::class_<HeldTransform>(m, "Transform", "A change of a sample's first field.")
      .def(
          "__call__",
          [](const HeldTransform& self, const Tensor& x, std::uint64_t seed, std::uint32_t step) {
            return self.transform.apply(x, RandomKey{seed, step, 0, 0});
          },
          py::arg("x"), py::arg("seed") = 0, py::arg("step") = 0,
          py::call_guard<py::gil_scoped_release>())
      .def("__repr__", [](const HeldTransform& self) { return self.transform.description; });
  m.def("compose", [](const py::args& transforms) {
    std::vector<data::Transform> list;
    for (const py::handle& transform : transforms)
      list.push_back(to_transform(py::reinterpret_borrow<py::object>(transform)));
    return held(data::compose(std::move(list)));
  });
  m.def(
      "joint",
      [](const py::object& both, const py::object& image, const py::object& mask) {
        return held(data::joint(to_transform(both), to_transform(image), to_transform(mask)));
      },
      py::arg("both"), py::arg("image") = py::none(), py::arg("mask") = py::none(),
      "For samples of an image and its mask: `both` changes the two with the same draws.");
  m.def(
      "random_transform", [](const py::object& f) { return held(of_function(f, true)); },
      py::arg("function"),
      "A function of a sample's first field and a numpy Generator, which is another for each\n"
      "sample and step and the same on every worker.");
  bind_pictures(m);
  bind_random(m);
}

void bind_loader(py::module_& m) {
  py::class_<HeldLoader>(m, "_Loader")
      .def(py::init([](const py::object& dataset, const py::object& sampler, std::int64_t batch,
                       const py::object& transform, std::uint64_t seed, int threads,
                       std::int64_t prefetch) {
        data::LoaderOptions options;
        options.transform = to_transform(transform);
        options.seed = seed;
        options.threads = threads;
        options.prefetch = prefetch;
        return std::make_unique<HeldLoader>(dataset, sampler, batch, options);
      }))
      .def("step", &HeldLoader::step)
      .def_property_readonly("steps_per_epoch", &HeldLoader::steps_per_epoch);
  m.def("_load_batch", [](const py::object& dataset, const std::vector<std::int64_t>& indices,
                          const py::object& transform) {
    const data::DatasetPtr set = to_dataset(dataset);
    const data::Transform change = to_transform(transform);
    data::Fields fields;
    {
      const py::gil_scoped_release released;
      fields = data::load_batch(*set, indices, change);
    }
    return py::tuple(py::cast(fields));
  });
  m.def(
      "_get",
      [](const std::string& name, const std::string& cache) {
        const py::gil_scoped_release released;
        return data::get(name, {.cache_dir = cache});
      },
      py::arg("name"), py::arg("cache"));
}

}  // namespace lockstep::python
