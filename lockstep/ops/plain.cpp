// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/plain.h"

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

thread_local const OwnTensorScope* scope_of_thread = nullptr;

}  // namespace

OwnTensorScope::OwnTensorScope(std::function<Tensor(const Tensor&)> resolve)
    : resolve_(std::move(resolve)) {
  check(scope_of_thread == nullptr, "one interceptor has tensors of its own at a time");
  scope_of_thread = this;
}

OwnTensorScope::~OwnTensorScope() { scope_of_thread = nullptr; }

Tensor plain(const Tensor& x) {
  return scope_of_thread == nullptr ? x : scope_of_thread->resolve_(x);
}

}  // namespace lockstep
