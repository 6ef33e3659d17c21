// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/autograd/autograd.h"

namespace lockstep::autograd {

// As backward(), but what lies behind the heads is forgotten: to whatever is recorded later those
// tensors are constants, where backward() would have it be an error to go back through them. A
// recurrent net's state goes on from batch to batch so in MXNet.
void backward_and_forget(TensorList heads, TensorList head_grads = {});

}  // namespace lockstep::autograd
