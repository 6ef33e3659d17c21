// SPDX-License-Identifier: Apache-2.0
#include "lockstep/autograd/backward_observer.h"

namespace lockstep::autograd {
namespace {

thread_local BackwardObserver* innermost = nullptr;

}  // namespace

BackwardObserver::BackwardObserver() : outer_(innermost) { innermost = this; }
BackwardObserver::~BackwardObserver() { innermost = outer_; }
BackwardObserver* BackwardObserver::current() { return innermost; }

}  // namespace lockstep::autograd
