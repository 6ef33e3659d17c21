// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/dispatch.h"

#include <algorithm>
#include <list>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/base/short_list.h"
#include "lockstep/ops/instruction_set.h"
#include "lockstep/ops/launch.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/widen.h"
#include "lockstep/tensor/sizes.h"

namespace lockstep {
namespace {

thread_local InterceptScope* innermost = nullptr;

using ViewList = ShortList<TensorView, 4>;
using InfoList = ShortList<TensorInfo, 4>;

void add_view(ViewList& views, const Tensor& tensor) {
  views.emplace_back(tensor.address(), tensor.shape(), tensor.strides(), tensor.dtype());
}

// Prepared kernels of recent eager calls, so that a loop does not prepare the same one again.
class KernelCache {
 public:
  ChosenKernel find_or_choose(const KernelRequest& request) {
    const std::size_t hash = hash_of(request);
    for (auto [it, end] = index_.equal_range(hash); it != end; ++it) {
      if (!matches(*it->second, request)) continue;
      entries_.splice(entries_.begin(), entries_, it->second);
      return it->second->kernel;
    }
    ChosenKernel kernel = choose_kernel(request);
    if (kernel.prepared) insert(hash, request, kernel);
    return kernel;
  }

 private:
  struct Entry {
    std::size_t hash;
    const OpDef* op;
    Attrs attrs;
    Infos inputs;
    ChosenKernel kernel;
  };

  static std::size_t hash_of(const KernelRequest& request) {
    std::size_t seed = std::hash<const void*>{}(&request.op) ^ request.attrs.hash();
    for (const TensorInfo& info : request.inputs) {
      seed = seed * 31 + static_cast<std::size_t>(info.dtype);
      for (std::int64_t d : info.shape) seed = seed * 1000003 + static_cast<std::size_t>(d);
    }
    return seed;
  }

  static bool matches(const Entry& entry, const KernelRequest& request) {
    return entry.op == &request.op && entry.attrs == request.attrs &&
           std::equal(entry.inputs.begin(), entry.inputs.end(), request.inputs.begin(),
                      request.inputs.end());
  }

  void insert(std::size_t hash, const KernelRequest& request, const ChosenKernel& kernel) {
    entries_.push_front({hash, &request.op, request.attrs,
                         Infos(request.inputs.begin(), request.inputs.end()), kernel});
    index_.emplace(hash, entries_.begin());
    if (entries_.size() > kCapacity) evict();
  }

  void evict() {
    const auto last = std::prev(entries_.end());
    for (auto [it, end] = index_.equal_range(last->hash); it != end; ++it) {
      if (it->second != last) continue;
      index_.erase(it);
      break;
    }
    entries_.pop_back();
  }

  static constexpr std::size_t kCapacity = 256;
  std::list<Entry> entries_;
  std::unordered_multimap<std::size_t, std::list<Entry>::iterator> index_;
};

void run_direct(const KernelCandidate& candidate, std::span<const Tensor> inputs,
                std::span<const Tensor> outputs, const Attrs& attrs) {
  ViewList views(inputs.size() + outputs.size());
  std::vector<Tensor> dense;
  for (const Tensor& input : inputs) {
    if (candidate.strided_inputs || input.is_contiguous())
      add_view(views, input);
    else
      add_view(views, dense.emplace_back(input.contiguous()));
  }
  for (const Tensor& output : outputs) add_view(views, output);
  candidate.direct({views.span().first(inputs.size()), views.span().subspan(inputs.size()), attrs});
}

void run_prepared(const PreparedKernel& kernel, std::span<const Tensor> inputs,
                  std::span<const Tensor> outputs, Device device) {
  std::vector<Tensor> dense;
  std::vector<std::byte*> in;
  std::vector<std::byte*> out;
  for (const Tensor& input : inputs) {
    dense.push_back(input.contiguous());
    in.push_back(dense.back().address());
  }
  for (const Tensor& output : outputs) out.push_back(output.address());
  std::shared_ptr<Storage> scratch;
  if (kernel.scratch_bytes > 0) scratch = Storage::allocate(kernel.scratch_bytes, device);
  kernel.run({in, out, scratch ? scratch->data() : nullptr});
}

// The same call in the turn of the device's queue. What it works on may be freed before that.
void run_late(const ChosenKernel& chosen, std::span<const Tensor> inputs,
              std::span<const Tensor> outputs, const Attrs& attrs) {
  const Device device = outputs[0].device();
  KernelLaunch call{chosen.candidate, chosen.prepared, attrs, {}, inputs.size()};
  const auto add = [&](const Tensor& x) {
    call.operands.push_back({x.address(), x.shape(), x.strides(), x.dtype()});
  };
  const bool strided = !chosen.prepared && chosen.candidate->strided_inputs;
  std::vector<Tensor> dense;  // until the launch is in the queue nobody else gets their memory
  for (const Tensor& input : inputs) add(strided ? input : dense.emplace_back(input.contiguous()));
  for (const Tensor& output : outputs) add(output);
  std::shared_ptr<Storage> scratch;
  if (chosen.prepared && chosen.prepared->scratch_bytes > 0) {
    scratch = Storage::allocate(chosen.prepared->scratch_bytes, device);
    call.scratch = scratch->data();
  }
  launch(device, std::move(call));
}

// An op with nothing but direct kernels needs no preparing: the first that takes the dtype.
const KernelCandidate* find_direct(std::span<const KernelCandidate> kernels, DType dtype) {
  const KernelCandidate* found = nullptr;
  for (const KernelCandidate& candidate : kernels) {
    if (candidate.direct == nullptr) return nullptr;
    if (found == nullptr && candidate.dtypes.has(dtype)) found = &candidate;
  }
  return found;
}

DType deciding_dtype(std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs) {
  return inputs.empty() ? outputs[0].dtype : inputs[0].dtype;
}

// Of as many inputs as the op takes.
Infos infer_counted(const OpDef& op, std::span<const TensorInfo> inputs, const Attrs& attrs) {
  for (const TensorInfo& input : inputs)
    if (!(input.device == inputs[0].device))
      throw InvalidArgument("{}: inputs are on {} and {}", op.name, inputs[0].device.str(),
                            input.device.str());
  // An op's own messages have its name already; those of Shape have not.
  Infos outputs = detail::named(op.name, [&] { return op.infer({op.name.data(), inputs, attrs}); });
  for (const TensorInfo& output : outputs)
    detail::checked_shape(op.name.data(), output.shape, item_size(output.dtype));
  return outputs;
}

// One call that nobody intercepts, of as many inputs as the op takes.
class EagerCall {
 public:
  EagerCall(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs)
      : op_(op), inputs_(inputs), attrs_(attrs), infos_(inputs.size()) {
    for (const Tensor& input : inputs) {
      if (input.is_symbolic())
        throw InvalidArgument("{}: an input stands for a graph value, but nothing is being traced",
                              op.name);
      infos_.emplace_back(input.info());
    }
    output_infos_ = infer_counted(op, infos_.span(), attrs);
  }

  std::size_t outputs() const { return output_infos_.size(); }

  std::optional<Tensor> view() const {
    if (op_.kind != OpKind::view || op_.view == nullptr) return std::nullopt;
    const Tensor& input = inputs_[0];
    const auto spec = op_.view(input.info(), input.strides(), attrs_);
    if (!spec) return std::nullopt;
    return input.window(spec->shape, spec->strides, input.offset() + spec->offset);
  }

  Tensor allocate(std::size_t output) const {
    const TensorInfo& info = output_infos_[output];
    return Tensor::empty(info.shape, info.dtype, info.device);
  }

  void compute(std::span<const Tensor> outputs) const {
    const Device& device = output_infos_[0].device;
    if (!device.is_host()) [[unlikely]]
      return run_late(choose(), inputs_, outputs, attrs_);
    const DType dtype = deciding_dtype(infos_.span(), output_infos_);
    if (const KernelCandidate* direct = find_direct(op_.kernels(DeviceKind::cpu), dtype))
      run_direct(*direct, inputs_, outputs, attrs_);
    else
      run_chosen(outputs);
  }

  std::vector<Tensor> compute_all() const {
    std::vector<Tensor> results;
    results.reserve(outputs());
    for (std::size_t i = 0; i < outputs(); ++i) results.push_back(allocate(i));
    compute(results);
    return results;
  }

 private:
  ChosenKernel choose() const {
    thread_local KernelCache cache;
    const std::vector<Layout> plain(inputs_.size());
    return cache.find_or_choose({op_, attrs_, infos_.span(), output_infos_, plain});
  }

  void run_chosen(std::span<const Tensor> outputs) const {
    const ChosenKernel chosen = choose();
    if (chosen.prepared)
      run_prepared(*chosen.prepared, inputs_, outputs, outputs[0].device());
    else
      run_direct(*chosen.candidate, inputs_, outputs, attrs_);
  }

  const OpDef& op_;
  std::span<const Tensor> inputs_;
  const Attrs& attrs_;
  InfoList infos_;
  Infos output_infos_;
};

std::vector<Tensor> run_eager(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  settle_instruction_set();
  return detail::named(op.name, [&]() -> std::vector<Tensor> {
    const EagerCall call(op, inputs, attrs);
    if (auto window = call.view()) return {std::move(*window)};
    return call.compute_all();
  });
}

// The same without a vector for the one output that most ops have.
Tensor run_eager_one(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  settle_instruction_set();
  return detail::named(op.name, [&]() -> Tensor {
    const EagerCall call(op, inputs, attrs);
    if (auto window = call.view()) return std::move(*window);
    if (call.outputs() > 1) return call.compute_all()[0];
    Tensor output = call.allocate(0);
    call.compute({&output, 1});
    return output;
  });
}

[[noreturn, gnu::cold]] void fail_input_count(const OpDef& op, std::size_t count) {
  std::string takes = std::to_string(op.min_inputs);
  if (op.max_inputs < 0) takes = "at least " + takes;
  if (op.max_inputs > op.min_inputs) takes += fmt::format(" to {}", op.max_inputs);
  throw InvalidArgument("{}: takes {} inputs, got {}", op.name, takes, count);
}

// Checks what interceptors rely on, and says who gets the call: nullptr for nobody.
OpInterceptor* interceptor_of(const OpDef& op, std::span<const Tensor> inputs) {
  check_input_count(op, inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) detail::check_defined(op.name, inputs[i], i);
  return innermost != nullptr ? innermost->interceptor() : nullptr;
}

}  // namespace

InterceptScope::InterceptScope(OpInterceptor* interceptor)
    : interceptor_(interceptor), outer_(innermost) {
  innermost = this;
}

InterceptScope::~InterceptScope() { innermost = outer_; }

OuterScope::OuterScope() : saved_(innermost) {
  check(innermost != nullptr, "no interceptor to leave");
  innermost = innermost->outer_;
}

OuterScope::~OuterScope() { innermost = saved_; }

void tell_write(const char* function, const Tensor& target) {
  if (innermost != nullptr && innermost->interceptor() != nullptr)
    innermost->interceptor()->before_write(function, target);
}

std::vector<Tensor> apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  if (OpInterceptor* interceptor = interceptor_of(op, inputs))
    return interceptor->intercept(op, inputs, attrs);
  return run_eager(op, inputs, attrs);
}

Tensor apply_one(const OpDef& op, std::initializer_list<Tensor> inputs, const Attrs& attrs) {
  const std::span<const Tensor> span(inputs.begin(), inputs.size());
  if (OpInterceptor* interceptor = interceptor_of(op, span))
    return interceptor->intercept(op, span, attrs)[0];
  return run_eager_one(op, span, attrs);
}

void check_input_count(const OpDef& op, std::size_t count) {
  const auto n = static_cast<int>(count);
  if (n < op.min_inputs || (op.max_inputs >= 0 && n > op.max_inputs)) fail_input_count(op, count);
}

Infos infer(const OpDef& op, std::span<const TensorInfo> inputs, const Attrs& attrs) {
  check_input_count(op, inputs.size());
  return infer_counted(op, inputs, attrs);
}

std::span<const KernelCandidate> kernels_for(const KernelRequest& request) {
  return request.op.kernels(kernel_kind(request.outputs[0].device));
}

ChosenKernel choose_kernel(const KernelRequest& request) {
  settle_instruction_set();
  const DType dtype = deciding_dtype(request.inputs, request.outputs);
  const std::span<const KernelCandidate> kernels = kernels_for(request);
  if (kernels.empty())
    throw Unsupported("{}: there is no kernel for {}", request.op.name,
                      request.outputs[0].device.str());
  std::string reasons;
  for (const KernelCandidate& candidate : kernels) {
    std::string declined;
    if (!candidate.dtypes.has(dtype)) {
      declined = fmt::format("does not take {}", name_of(dtype));
    } else if (candidate.direct != nullptr) {
      return {&candidate, nullptr};
    } else if (auto prepared = candidate.prepare(request, declined)) {
      return {&candidate, std::move(prepared)};
    }
    reasons += fmt::format("; {}: {}", candidate.name, declined);
  }
  if (dtype == DType::float16 || dtype == DType::bfloat16)
    if (auto widened = prepare_in_float32(request)) return {nullptr, std::move(widened)};
  throw Unsupported("{}: no kernel takes {}{}", request.op.name, name_of(dtype), reasons);
}

}  // namespace lockstep
