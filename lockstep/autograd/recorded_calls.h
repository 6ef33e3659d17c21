// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/op.h"

namespace lockstep::autograd {

// Output `place` of a recorded call or, without a call, the variable of that number.
struct RecordedValue {
  std::int64_t call = -1;
  std::size_t place = 0;
};

// A call of an op or of a function.
struct RecordedCall {
  const OpDef* op = nullptr;
  std::shared_ptr<const Function> function = nullptr;
  Attrs attrs = {};
  std::vector<RecordedValue> inputs = {};
};

// What the tape knows of how the heads were computed: calls in the order in which they were
// recorded, of leaves and of tensors that have no history, each once.
struct RecordedCalls {
  std::vector<RecordedCall> calls;
  std::vector<Tensor> variables;
  std::vector<RecordedValue> heads;
};

// Throws InvalidArgument where the record of a head was freed.
RecordedCalls recorded_calls(TensorList heads);

}  // namespace lockstep::autograd
