// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/dispatch.h"

#include <algorithm>
#include <array>
#include <list>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/ops/widen.h"

namespace lockstep {
namespace {

thread_local InterceptScope* innermost = nullptr;

void check_count(const OpDef& op, std::size_t count) {
  const auto n = static_cast<int>(count);
  if (n >= op.min_inputs && (op.max_inputs < 0 || n <= op.max_inputs)) return;
  if (op.min_inputs == op.max_inputs)
    throw InvalidArgument("{}: takes {} inputs, got {}", op.name, op.min_inputs, n);
  throw InvalidArgument("{}: takes at least {} inputs, got {}", op.name, op.min_inputs, n);
}

TensorView view_of(const Tensor& tensor) {
  return {tensor.raw(), tensor.shape(), tensor.strides(), tensor.dtype()};
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
  constexpr std::size_t kFew = 4;
  std::array<TensorView, kFew> few;
  std::vector<TensorView> many;
  std::vector<Tensor> keep;
  const std::size_t total = inputs.size() + outputs.size();
  std::span<TensorView> views(few);
  if (total > kFew) {
    many.resize(total);
    views = many;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (candidate.strided_inputs || inputs[i].is_contiguous()) {
      views[i] = view_of(inputs[i]);
      continue;
    }
    keep.push_back(inputs[i].contiguous());
    views[i] = view_of(keep.back());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) views[inputs.size() + i] = view_of(outputs[i]);
  candidate.direct({views.first(inputs.size()), views.subspan(inputs.size(), outputs.size()),
                    attrs});
}

void run_prepared(const PreparedKernel& kernel, std::span<const Tensor> inputs,
                  std::span<const Tensor> outputs, Device device) {
  std::vector<Tensor> dense;
  std::vector<std::byte*> in;
  std::vector<std::byte*> out;
  for (const Tensor& input : inputs) {
    dense.push_back(input.contiguous());
    in.push_back(dense.back().raw());
  }
  for (const Tensor& output : outputs) out.push_back(output.raw());
  std::shared_ptr<Storage> scratch;
  if (kernel.scratch_bytes > 0) scratch = Storage::allocate(kernel.scratch_bytes, device);
  kernel.run({in, out, scratch ? scratch->data() : nullptr});
}

bool only_direct(const OpDef& op) {
  return std::all_of(op.cpu.begin(), op.cpu.end(),
                     [](const KernelCandidate& c) { return c.direct != nullptr; });
}

void run_kernels(const OpDef& op, std::span<const Tensor> inputs, const Infos& input_infos,
                 std::span<const Tensor> outputs, const Infos& output_infos, const Attrs& attrs) {
  thread_local KernelCache cache;
  const std::vector<Layout> plain(inputs.size());
  const KernelRequest request{op, attrs, input_infos, output_infos, plain};
  const ChosenKernel chosen = cache.find_or_choose(request);
  if (chosen.prepared)
    run_prepared(*chosen.prepared, inputs, outputs, outputs[0].device());
  else
    run_direct(*chosen.candidate, inputs, outputs, attrs);
}

DType deciding_dtype(std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs) {
  return inputs.empty() ? outputs[0].dtype : inputs[0].dtype;
}

std::optional<Tensor> try_view(const OpDef& op, const Tensor& input, const Attrs& attrs) {
  const auto spec = op.view(input.info(), input.strides(), attrs);
  if (!spec) return std::nullopt;
  return input.window(spec->shape, spec->strides, input.offset() + spec->offset);
}

std::vector<Tensor> run_eager(const OpDef& op, std::span<const Tensor> inputs,
                              const Attrs& attrs) {
  Infos input_infos;
  input_infos.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    if (input.is_symbolic())
      throw InvalidArgument("{}: an input stands for a graph value, but nothing is being traced",
                            op.name);
    input_infos.push_back(input.info());
  }
  const Infos output_infos = infer(op, input_infos, attrs);
  if (op.kind == OpKind::view && op.view != nullptr)
    if (auto window = try_view(op, inputs[0], attrs)) return {*window};
  std::vector<Tensor> outputs;
  outputs.reserve(output_infos.size());
  for (const TensorInfo& info : output_infos)
    outputs.push_back(Tensor::empty(info.shape, info.dtype, info.device));
  const DType dtype = deciding_dtype(input_infos, output_infos);
  if (only_direct(op))
    for (const KernelCandidate& candidate : op.cpu)
      if (candidate.dtypes.has(dtype)) {
        run_direct(candidate, inputs, outputs, attrs);
        return outputs;
      }
  run_kernels(op, inputs, input_infos, outputs, output_infos, attrs);
  return outputs;
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

std::vector<Tensor> apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  check_count(op, inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].defined()) throw InvalidArgument("{}: input {} is undefined", op.name, i);
  if (innermost != nullptr && innermost->interceptor() != nullptr)
    return innermost->interceptor()->intercept(op, inputs, attrs);
  return run_eager(op, inputs, attrs);
}

Tensor apply_one(const OpDef& op, std::initializer_list<Tensor> inputs, const Attrs& attrs) {
  return apply(op, std::span(inputs.begin(), inputs.size()), attrs)[0];
}

Infos infer(const OpDef& op, std::span<const TensorInfo> inputs, const Attrs& attrs) {
  check_count(op, inputs.size());
  for (const TensorInfo& input : inputs)
    if (!(input.device == inputs[0].device))
      throw InvalidArgument("{}: inputs are on {} and {}", op.name, inputs[0].device.str(),
                            input.device.str());
  return op.infer({op.name.data(), inputs, attrs});
}

ChosenKernel choose_kernel(const KernelRequest& request) {
  const DType dtype = deciding_dtype(request.inputs, request.outputs);
  std::string reasons;
  for (const KernelCandidate& candidate : request.op.cpu) {
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
