// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/executable.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>

#include "lockstep/graph/detail/lasting_memory.h"
#include "lockstep/graph/passes/passes.h"
#include "lockstep/graph/program.h"
#include "lockstep/ops/launch.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/reorder.h"

namespace lockstep {
namespace {

Graph run_passes(const Graph& graph, const CompileOptions& options) {
  Graph result = graph;
  passes::verify(result, "tracing");
  const auto apply_pass = [&](const char* name, auto&& pass) {
    result = pass(result);
    passes::verify(result, name);
  };
  if (options.simplify) apply_pass("simplify", passes::simplify);
  if (options.fuse) {
    apply_pass("join_slices", passes::join_slices);
    apply_pass("drop slices", passes::simplify);
    apply_pass("fuse_activations", passes::fuse_activations);
    if (options.recompute) apply_pass("recompute", passes::recompute);
  }
  if (options.compute != DType::float32)
    apply_pass("mix_precision",
               [&](const Graph& g) { return passes::mix_precision(g, options.compute); });
  if (options.fuse) apply_pass("fuse_elementwise", passes::fuse_elementwise);
  apply_pass("schedule", [&](const Graph& g) { return passes::schedule(g, options); });
  return result;
}

void check_delivery(const Graph& graph, const CompileOptions& options, const Delivery& delivery) {
  const auto is_same = [&](const auto& exit) { return exit.output == delivery.output; };
  if (delivery.output >= graph.outputs().size())
    throw InvalidArgument("compile: delivered output {} of {} does not exist", delivery.output,
                          graph.outputs().size());
  if (std::count(options.states.begin(), options.states.end(), delivery.like) == 0)
    throw InvalidArgument("compile: output {} is delivered like input {}, which is not a state",
                          delivery.output, delivery.like);
  if (std::any_of(options.carries.begin(), options.carries.end(), is_same) ||
      std::count_if(options.deliveries.begin(), options.deliveries.end(), is_same) > 1)
    throw InvalidArgument("compile: output {} leaves in two ways", delivery.output);
  const TensorInfo& from = graph.info(graph.outputs()[delivery.output]);
  const TensorInfo& to = graph.info(graph.inputs()[delivery.like]);
  if (!(from == to))
    throw InvalidArgument("compile: the delivered output {} is {}, its state is {}",
                          delivery.output, from.str(), to.str());
}

void check_options(const Graph& graph, const CompileOptions& options) {
  if (options.compute != DType::float32 && options.compute != DType::bfloat16)
    throw InvalidArgument("compile: computes in float32 or bfloat16, not in {}",
                          name_of(options.compute));
  for (std::size_t state : options.states)
    if (state >= graph.inputs().size())
      throw InvalidArgument("compile: state {} of {} inputs does not exist", state,
                            graph.inputs().size());
  std::set<std::size_t> targets;
  for (const Carry& carry : options.carries) {
    if (!targets.insert(carry.input).second)
      throw InvalidArgument("compile: two outputs are carried into input {}", carry.input);
    if (carry.output >= graph.outputs().size())
      throw InvalidArgument("compile: carried output {} of {} does not exist", carry.output,
                            graph.outputs().size());
    if (std::count(options.states.begin(), options.states.end(), carry.input) == 0)
      throw InvalidArgument("compile: output {} is carried into input {}, which is not a state",
                            carry.output, carry.input);
    const TensorInfo& from = graph.info(graph.outputs()[carry.output]);
    const TensorInfo& to = graph.info(graph.inputs()[carry.input]);
    if (!(from == to))
      throw InvalidArgument("compile: the carried output {} is {}, its state is {}", carry.output,
                            from.str(), to.str());
  }
  for (const Delivery& delivery : options.deliveries) check_delivery(graph, options, delivery);
}

// What `info` is, with its device where that is all there is to say.
std::string difference_text(const TensorInfo& info, const TensorInfo& expected) {
  if (info.device == expected.device) return info.str();
  return fmt::format("{} on {}, not on {}", info.str(), info.device.str(), expected.device.str());
}

void check_fits(const char* what, std::size_t index, const Tensor& tensor,
                const TensorInfo& expected) {
  if (!tensor.defined() || !(tensor.info() == expected))
    throw InvalidArgument("executable: {} {} is {}, compiled for {}", what, index,
                          tensor.defined() ? difference_text(tensor.info(), expected) : "undefined",
                          expected.str());
  if (tensor.is_symbolic())
    throw InvalidArgument("executable: {} {} has no data: it stands for a graph value", what,
                          index);
}

void reorder_bytes(const TensorInfo& info, std::byte* source, const Layout& from, std::byte* target,
                   const Layout& to) {
  if (from.is_plain() && to.is_plain()) {
    std::memcpy(target, source, info.bytes());
    return;
  }
  const auto kernel = make_reorder(info, from, info, to);
  const auto scratch = Storage::allocate(kernel->scratch_bytes, {});
  kernel->run({{&source, 1}, {&target, 1}, scratch->data()});
}

// The first place where something is a NaN, or else the first where it is infinite: a mask may hold
// infinities that do no harm.
class FirstNonFinite {
 public:
  void look(std::span<const std::byte> bytes, DType dtype, const NonFinite& place) {
    if (dtype == DType::float32) search<float>(bytes, place);
    if (dtype == DType::float64) search<double>(bytes, place);
  }
  bool found_nan() const { return nan_.has_value(); }
  std::optional<NonFinite> where() const { return nan_ ? nan_ : infinity_; }

 private:
  template <class T>
  void search(std::span<const std::byte> bytes, const NonFinite& place) {
    const std::span values(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
    const auto is_nan = [](T v) { return std::isnan(v); };
    const auto is_infinite = [](T v) { return std::isinf(v); };
    if (!nan_ && std::any_of(values.begin(), values.end(), is_nan)) nan_ = place;
    if (!infinity_ && std::any_of(values.begin(), values.end(), is_infinite)) infinity_ = place;
  }
  std::optional<NonFinite> nan_, infinity_;
};

// Where the host sets and reads a state.
TensorInfo at_home(TensorInfo info) {
  if (!info.device.is_host()) info.device = {};
  return info;
}

bool overlap(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.info().bytes() > 0 && b.info().bytes() > 0;
}

// An output is written while inputs are still read, so it must be memory of its own.
void check_room(std::size_t index, std::span<const Tensor> inputs,
                std::span<const Tensor> outputs) {
  const Tensor& output = outputs[index];
  if (!output.is_contiguous()) throw InvalidArgument("executable: output {} is not dense", index);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && overlap(output, inputs[i]))
      throw InvalidArgument("executable: output {} shares its memory with input {}", index, i);
  for (std::size_t i = 0; i < index; ++i)
    if (overlap(output, outputs[i]))
      throw InvalidArgument("executable: output {} shares its memory with output {}", index, i);
}

}  // namespace

// The plan, the states and what is derived from them are shared between clones; the arena and the
// pointers are not.
struct Executable::Impl {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  struct Call {
    std::vector<TensorView> views;     // direct kernels: inputs, then outputs
    std::vector<std::byte*> pointers;  // prepared kernels: inputs, then outputs
  };
  std::shared_ptr<const Program> program;
  std::shared_ptr<detail::LastingMemory> lasting;
  std::shared_ptr<Storage> arena;
  std::shared_ptr<Storage> staging;  // what the host looks at of a device's memory
  std::vector<std::byte*> bases;     // by buffer
  std::uint64_t moves_seen = 0;      // of the states, when their bases were looked up
  std::vector<Call> calls;           // by step
  std::vector<Tensor> dense;         // copies of inputs that were not, while a run is under way
  std::size_t next = kNone;          // step of that run

  void allocate() {
    arena = Storage::allocate(program->arena_bytes, program->device);
    bases.resize(program->buffers.size());
    for (std::size_t i = 0; i < bases.size(); ++i) bases[i] = fixed_base(program->buffers[i]);
    moves_seen = lasting->moves();
    calls.resize(program->steps.size());
    for (std::size_t s = 0; s < calls.size(); ++s) prepare_call(program->steps[s], calls[s]);
  }

  void find_moved_states() {
    if (moves_seen == lasting->moves()) return;
    for (std::size_t i = 0; i < bases.size(); ++i)
      if (program->buffers[i].kind == BufferKind::state) bases[i] = fixed_base(program->buffers[i]);
    moves_seen = lasting->moves();
  }

  std::byte* fixed_base(const Buffer& buffer) const {
    switch (buffer.kind) {
      case BufferKind::arena: return arena->data() + buffer.offset;
      case BufferKind::state: return lasting->state_address(buffer.index);
      case BufferKind::derived: return lasting->derived_address(buffer.index);
      case BufferKind::constant: return program->constants[buffer.index].address();
      default: return nullptr;
    }
  }

  static void prepare_call(const Step& step, Call& call) {
    const std::size_t count = step.inputs.size() + step.outputs.size();
    if (step.prepared) {
      call.pointers.resize(count);
      return;
    }
    for (const auto* operands : {&step.inputs, &step.outputs})
      for (const Operand& operand : *operands)
        call.views.push_back({nullptr, operand.shape, operand.strides, operand.dtype});
  }

  std::byte* address(const Operand& operand) const {
    return bases[static_cast<std::size_t>(operand.buffer)] + operand.byte_offset;
  }

  void run_step(const Step& step, Call& call) {
    if (!program->device.is_host()) return queue_step(step);
    std::size_t k = 0;
    const std::size_t inputs = step.inputs.size();
    if (step.prepared) {
      for (const Operand& operand : step.inputs) call.pointers[k++] = address(operand);
      for (const Operand& operand : step.outputs) call.pointers[k++] = address(operand);
      const std::span<std::byte* const> all(call.pointers);
      std::byte* scratch =
          step.scratch < 0 ? nullptr : bases[static_cast<std::size_t>(step.scratch)];
      step.prepared->run({all.first(inputs), all.subspan(inputs), scratch});
      return;
    }
    for (const Operand& operand : step.inputs) call.views[k++].data = address(operand);
    for (const Operand& operand : step.outputs) call.views[k++].data = address(operand);
    const std::span<const TensorView> all(call.views);
    step.direct->direct({all.first(inputs), all.subspan(inputs), step.attrs});
  }

  void queue_step(const Step& step) const {
    const Device& device = program->device;
    KernelLaunch call{step.direct, step.prepared, step.attrs, {}, step.inputs.size()};
    for (const auto* operands : {&step.inputs, &step.outputs})
      for (const Operand& o : *operands)
        call.operands.push_back({address(o), o.shape, o.strides, o.dtype});
    if (step.scratch >= 0) call.scratch = bases[static_cast<std::size_t>(step.scratch)];
    if (!step.copies) return launch(device, std::move(call));
    const TensorView &from = call.operands[0], &to = call.operands[1];
    device.backend->copy(from.shape, {from.data, from.strides, from.dtype},
                         {to.data, contiguous_strides(from.shape), to.dtype});
  }

  void run_part(const std::vector<Step>& part) {
    for (const Step& step : part) {
      Call call;
      prepare_call(step, call);
      run_step(step, call);
    }
  }

  std::vector<Tensor> new_outputs() const {
    std::vector<Tensor> outputs;
    for (const TensorInfo& info : program->outputs)
      outputs.push_back(Tensor::empty(info.shape, info.dtype, info.device));
    return outputs;
  }

  // Of input number `index` among those that are not states.
  const TensorInfo& input_info(std::size_t index) const {
    for (std::size_t i = 0; i < program->inputs.size(); ++i) {
      const bool state = std::any_of(program->states.begin(), program->states.end(),
                                     [&](const StateSlot& slot) { return slot.input == i; });
      if (!state && index-- == 0) return program->inputs[i];
    }
    fail_check("no such input");
  }

  const StateSlot& slot(std::size_t input) const {
    for (const StateSlot& state : program->states)
      if (state.input == input) return state;
    throw InvalidArgument("executable: input {} is not a state", input);
  }

  std::span<const std::byte> bytes_of(const Operand& operand) const {
    const TensorInfo info{operand.shape, operand.dtype, {}};
    return {address(operand), operand.layout.bytes(info)};
  }

  // The same bytes where the host can look at them; the next call may use the place again.
  std::span<const std::byte> host_bytes_of(const Operand& operand) {
    const std::span<const std::byte> bytes = bytes_of(operand);
    if (program->device.is_host()) return bytes;
    if (!staging || staging->bytes() < bytes.size()) staging = Storage::allocate(bytes.size(), {});
    const std::span<std::byte> host(staging->data(), bytes.size());
    program->device.backend->copy_out(address(operand), host).wait();
    return host;
  }

  // Number of the state in the lasting memory.
  std::size_t state_of(std::size_t input) const {
    return program->buffers[static_cast<std::size_t>(slot(input).buffer)].index;
  }
};

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;

Executable Executable::compile(const Graph& graph, const CompileOptions& options) {
  check_options(graph, options);
  auto program = std::make_shared<Program>(passes::lower(run_passes(graph, options), options));
  program->changes_states = !options.carries.empty();
  if (options.prologue && !program->changes_states) passes::split_prologue(*program);
  passes::plan_memory(*program);
  auto impl = std::make_unique<Impl>();
  impl->lasting = std::make_shared<detail::LastingMemory>(*program);
  impl->program = std::move(program);
  impl->allocate();
  return Executable(std::move(impl));
}

Executable Executable::clone() const {
  if (impl_->program->changes_states)
    throw InvalidArgument("executable: runs change its states, so two threads cannot share them");
  auto impl = std::make_unique<Impl>();
  impl->program = impl_->program;
  impl->lasting = impl_->lasting;
  impl->allocate();
  return Executable(std::move(impl));
}

std::vector<Tensor> Executable::run(TensorList inputs) {
  const std::vector<Tensor> outputs = impl_->new_outputs();
  run_into(inputs, outputs);
  return outputs;
}

// Points every input and output buffer at the caller's memory; `dense` keeps the inputs alive, or
// the copies that had to be made of them: the caller's handles may be temporary.
void Executable::bind(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                      std::vector<Tensor>& dense) {
  const Program& program = *impl_->program;
  const std::size_t expected = program.inputs.size() - program.states.size();
  if (inputs.size() != expected)
    throw InvalidArgument("executable: takes {} inputs, got {}", expected, inputs.size());
  if (outputs.size() != program.outputs.size())
    throw InvalidArgument("executable: gives {} outputs, got room for {}", program.outputs.size(),
                          outputs.size());
  impl_->find_moved_states();
  for (std::size_t i = 0; i < impl_->bases.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (buffer.kind == BufferKind::output) {
      check_fits("output", buffer.index, outputs[buffer.index], program.outputs[buffer.index]);
      check_room(buffer.index, inputs, outputs);
      impl_->bases[i] = outputs[buffer.index].address();
    }
    if (buffer.kind != BufferKind::input) continue;
    const Tensor& input = inputs[buffer.index];
    check_fits("input", buffer.index, input, impl_->input_info(buffer.index));
    dense.push_back(input.contiguous());
    impl_->bases[i] = dense.back().address();
  }
}

void Executable::run_into(TensorList inputs, TensorList outputs) { run_into(inputs, outputs, {}); }

void Executable::run_into(TensorList inputs, TensorList outputs, const Receiver& receiver) {
  begin(inputs, outputs);
  while (go_on(receiver)) continue;
}

void Executable::begin(TensorList inputs, TensorList outputs) {
  impl_->next = Impl::kNone;
  impl_->dense.clear();
  bind(inputs, outputs, impl_->dense);
  make_fresh();
  impl_->next = 0;
}

bool Executable::go_on(const Receiver& receiver) {
  const std::vector<Step>& steps = impl_->program->steps;
  while (impl_->next < steps.size()) {
    const std::size_t s = impl_->next++;
    if (steps[s].delivery < 0) {
      impl_->run_step(steps[s], impl_->calls[s]);
      continue;
    }
    if (receiver)
      receiver(static_cast<std::size_t>(steps[s].delivery),
               impl_->host_bytes_of(steps[s].inputs[0]));
    return true;
  }
  // Who read a state in the middle of the run has seen the one before.
  if (impl_->program->changes_states) impl_->lasting->set_computed();
  impl_->dense.clear();
  return false;
}

std::optional<NonFinite> Executable::find_non_finite(TensorList inputs) {
  const std::vector<Tensor> outputs = impl_->new_outputs();
  std::vector<Tensor> dense;
  bind(inputs, outputs, dense);
  FirstNonFinite first;
  for (const StateSlot& slot : impl_->program->states)
    first.look(state_memory(slot.input), slot.info.dtype, {NonFinite::Kind::state, slot.input});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor seen = inputs[i].to(at_home(inputs[i].info()).device).contiguous();
    first.look({seen.raw(), seen.info().bytes()}, seen.dtype(), {NonFinite::Kind::input, i});
  }
  make_fresh();
  const std::vector<Step>& steps = impl_->program->steps;
  for (std::size_t s = 0; s < steps.size() && !first.found_nan(); ++s) {
    if (steps[s].delivery >= 0) continue;
    impl_->run_step(steps[s], impl_->calls[s]);
    for (const Operand& output : steps[s].outputs)
      first.look(impl_->host_bytes_of(output), output.dtype,
                 {NonFinite::Kind::step, s, call_text(steps[s])});
  }
  return first.where();
}

void Executable::refresh(std::size_t part) {
  impl_->find_moved_states();
  impl_->lasting->bring();
  impl_->run_part(impl_->program->prologue.at(part));
}

void Executable::set_fresh() { impl_->lasting->stale = false; }

std::size_t Executable::refresh_parts() const { return impl_->program->prologue.size(); }

void Executable::refresh() {
  impl_->lasting->set_changed();
  derive();
}

void Executable::derive() {
  for (std::size_t part = 0; part < refresh_parts(); ++part) refresh(part);
  set_fresh();
}

// Before a run. After set_state the first clone that runs derives for all, the others wait for it.
void Executable::make_fresh() {
  detail::LastingMemory& lasting = *impl_->lasting;
  lasting.bring();
  if (lasting.stale) {
    const std::lock_guard lock(lasting.refreshing);
    if (lasting.stale) derive();
  }
  if (impl_->program->changes_states) lasting.set_computed();
}

std::vector<Executable::StepTime> Executable::profile(TensorList inputs, int runs) {
  using Clock = std::chrono::steady_clock;
  const std::vector<Tensor> outputs = impl_->new_outputs();
  std::vector<Tensor> dense;
  bind(inputs, outputs, dense);
  make_fresh();
  const std::vector<Step>& steps = impl_->program->steps;
  const Device& device = impl_->program->device;
  std::vector<StepTime> times;
  for (const Step& step : steps)
    times.push_back({step_text(*impl_->program, step), std::numeric_limits<double>::infinity()});
  for (int run = 0; run < runs; ++run)
    for (std::size_t s = 0; s < steps.size(); ++s) {
      if (steps[s].delivery >= 0) {
        times[s].seconds = 0;
        continue;
      }
      const Clock::time_point start = Clock::now();
      impl_->run_step(steps[s], impl_->calls[s]);
      if (!device.is_host()) device.backend->synchronize();
      const std::chrono::duration<double> spent = Clock::now() - start;
      times[s].seconds = std::min(times[s].seconds, spent.count());
    }
  return times;
}

void Executable::set_state(std::size_t input, const Tensor& value) {
  pack(input, value, state_memory(input));
  impl_->lasting->set_changed(impl_->state_of(input));
}

Tensor Executable::state(std::size_t input) const {
  return unpack(input, state_memory(input)).to(impl_->slot(input).info.device);
}

std::span<std::byte> Executable::state_memory(std::size_t input) const {
  return impl_->lasting->home(impl_->state_of(input));
}

void Executable::set_state_memory(std::size_t input, std::span<std::byte> memory) {
  const std::size_t state = impl_->state_of(input);
  check(memory.size() == impl_->lasting->home_bytes(state), "a state's memory has another size");
  impl_->lasting->move_home(state, memory);
}

void Executable::pack(std::size_t input, const Tensor& value, std::span<std::byte> bytes) const {
  const StateSlot& slot = impl_->slot(input);
  const TensorInfo info = at_home(slot.info);
  const bool here = slot.info.device.is_host() || !value.defined() || value.is_symbolic();
  const Tensor host = here ? value : value.to(info.device);
  check_fits("state", input, host, info);
  check(bytes.size() == slot.layout.bytes(info), "packed bytes have another size");
  const Tensor dense = host.contiguous();
  reorder_bytes(info, dense.raw(), {}, bytes.data(), slot.layout);
}

Tensor Executable::unpack(std::size_t input, std::span<const std::byte> bytes) const {
  const StateSlot& slot = impl_->slot(input);
  const TensorInfo info = at_home(slot.info);
  check(bytes.size() == slot.layout.bytes(info), "packed bytes have another size");
  Tensor result = Tensor::empty(info.shape, info.dtype, info.device);
  reorder_bytes(info, const_cast<std::byte*>(bytes.data()), slot.layout, result.raw(), {});
  return result;
}

const Infos& Executable::output_infos() const { return impl_->program->outputs; }

std::vector<std::size_t> Executable::delivery_order() const {
  std::vector<std::size_t> order;
  for (const Step& step : impl_->program->steps)
    if (step.delivery >= 0) order.push_back(static_cast<std::size_t>(step.delivery));
  return order;
}

std::size_t Executable::arena_bytes() const { return impl_->program->arena_bytes; }

std::size_t Executable::state_bytes() const { return impl_->lasting->bytes(); }

std::string Executable::str() const { return impl_->program->str(); }

}  // namespace lockstep
