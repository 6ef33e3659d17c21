// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>

#include "lockstep/ops/op.h"

namespace lockstep {

// Every op call goes through here: inference, then whoever intercepts (tape, tracer), else kernels.
std::vector<Tensor> apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs = {});
// For ops with one output, or when only the first is wanted.
Tensor apply_one(const OpDef& op, std::initializer_list<Tensor> inputs, const Attrs& attrs = {});

// Sees the ops of the thread that entered it, innermost first. The tape and the tracer are two.
class OpInterceptor {
 public:
  virtual ~OpInterceptor() = default;
  // The number of inputs is checked; inference is not done yet.
  virtual std::vector<Tensor> intercept(const OpDef& op, std::span<const Tensor> inputs,
                                        const Attrs& attrs) = 0;
  // A function is about to write into a tensor in place, which is no op. May throw.
  virtual void before_write(const char*, const Tensor&) {}
};

// Tells whoever intercepts on this thread.
void tell_write(const char* function, const Tensor& target);

// While it lives, ops of this thread go to `interceptor`; with nullptr, past every interceptor.
class InterceptScope {
 public:
  explicit InterceptScope(OpInterceptor* interceptor);
  ~InterceptScope();
  InterceptScope(const InterceptScope&) = delete;
  InterceptScope& operator=(const InterceptScope&) = delete;

  OpInterceptor* interceptor() const { return interceptor_; }

 private:
  friend class OuterScope;
  OpInterceptor* interceptor_;
  InterceptScope* outer_;
};

// While it lives, ops go to the interceptor outside the innermost one. For use inside intercept().
class OuterScope {
 public:
  OuterScope();
  ~OuterScope();
  OuterScope(const OuterScope&) = delete;
  OuterScope& operator=(const OuterScope&) = delete;

 private:
  InterceptScope* saved_;
};

// Throws InvalidArgument for a number of inputs that the op does not take.
void check_input_count(const OpDef& op, std::size_t count);

// Inference with all checks on number of inputs and devices.
Infos infer(const OpDef& op, std::span<const TensorInfo> inputs, const Attrs& attrs);

// The op's kernels for the device of the request's outputs.
std::span<const KernelCandidate> kernels_for(const KernelRequest& request);

// The first candidate that takes the request. Throws Unsupported with each one's reason.
struct ChosenKernel {
  const KernelCandidate* candidate = nullptr;
  std::shared_ptr<const PreparedKernel> prepared;  // when the candidate is not a direct one
};
ChosenKernel choose_kernel(const KernelRequest& request);

}  // namespace lockstep
