// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <utility>

#include "lockstep/nn/placed_error.h"

namespace lockstep::python {

// What Python's part of a block throws: where it is the engine's own error, its message says where
// in the model it happened. The exception keeps its traceback.
class PlacedPythonError final : public pybind11::error_already_set, public nn::PlacedError {
 public:
  explicit PlacedPythonError(const pybind11::error_already_set& error)
      : pybind11::error_already_set(error) {}
  void set_place(const std::string& path) override;
};

// The caller holds the GIL.
template <class F>
auto placed(F&& call) {
  try {
    return std::forward<F>(call)();
  } catch (const PlacedPythonError&) {
    throw;
  } catch (const pybind11::error_already_set& error) {
    throw PlacedPythonError(error);
  }
}

}  // namespace lockstep::python
