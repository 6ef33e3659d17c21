// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings/casters.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/sampler.h"
#include "lockstep/data/transform.h"

namespace lockstep::python {

// A data set of the engine's, arrays with a common first axis, or anything with __len__ and
// __getitem__, whose samples are tuples of arrays and numbers.
data::DatasetPtr to_dataset(const py::object& dataset);
// None: a random order. Else the engine's, or an object with __len__ and epoch(number).
data::SamplerPtr to_sampler(const py::object& sampler);
// One of lockstep.data's, or a function of a sample's first field; None: none.
data::Transform to_transform(const py::object& transform);
py::object from_transform(const data::Transform& transform);

void bind_transforms(py::module_& m);
void bind_images(py::module_& m);
void bind_loader(py::module_& m);

}  // namespace lockstep::python
