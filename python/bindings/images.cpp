// SPDX-License-Identifier: Apache-2.0
#include "bindings/bindings.h"
#include "bindings/data.h"
#include "lockstep/data/codec.h"
#include "lockstep/data/image.h"

namespace lockstep::python {
namespace {

data::ImageOptions options_of(bool as_stored) {
  data::ImageOptions options;
  if (as_stored) options.channels = data::Channels::as_stored;
  return options;
}

}  // namespace

void bind_images(py::module_& m) {
  m.def(
      "decode_image",
      [](const py::bytes& bytes, const std::string& name, bool as_stored) {
        const std::string_view view = bytes;
        const py::gil_scoped_release released;
        return data::decode_image(view, name, options_of(as_stored));
      },
      py::arg("bytes"), py::arg("name") = "decode_image", py::arg("as_stored") = false,
      "A JPEG or PNG image as uint8 [H, W, C]; three channels unless it is wanted as stored.");
  m.def(
      "encode_png", [](const Tensor& image) { return py::bytes(data::encode_png(image)); },
      py::arg("image"), "uint8 [H, W] or [H, W, C] as a PNG file.");
  m.def("resize_image", &data::resize_image, py::arg("image"), py::arg("height"), py::arg("width"),
        py::call_guard<py::gil_scoped_release>(),
        "Bilinear; of [H, W, C] with pixels of 0 to 255, uint8 or float32.");
}

}  // namespace lockstep::python
