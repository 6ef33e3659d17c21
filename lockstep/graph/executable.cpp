// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/executable.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <tuple>

#include "lockstep/graph/detail/arena.h"
#include "lockstep/graph/detail/check_options.h"
#include "lockstep/graph/detail/derived_memory.h"
#include "lockstep/graph/detail/state_memory.h"
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

// The states of `graph` lie as those of a program that it shares them with.
passes::StateLayouts layouts_like(const Graph& graph, const CompileOptions& options,
                                  const Program& other) {
  std::vector<std::size_t> states = options.states;
  std::sort(states.begin(), states.end());
  states.erase(std::unique(states.begin(), states.end()), states.end());
  if (states.size() != other.states.size())
    throw InvalidArgument("compile: {} states cannot be those of an executable that has {}",
                          states.size(), other.states.size());
  passes::StateLayouts layouts;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const TensorInfo& info = graph.info(graph.inputs()[states[i]]);
    if (!(info == other.states[i].info))
      throw InvalidArgument("compile: state {} is {}, in the executable that has it {}", states[i],
                            info.str(), other.states[i].info.str());
    layouts.emplace(states[i], other.states[i].layout);
  }
  return layouts;
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

// Finds outputs that are no memory of their own, and keeps its lists from call to call.
class RoomCheck {
 public:
  // An output is written while inputs are still read.
  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
    places_.clear();
    add(inputs, false);
    add(outputs, true);
    std::sort(places_.begin(), places_.end());
    for (std::size_t i = 1; i < places_.size(); ++i) {
      const auto& [storage, is_output, index] = places_[i];
      if (!is_output || std::get<0>(places_[i - 1]) != storage) continue;
      throw InvalidArgument("executable: output {} shares its memory with {} {}", index,
                            std::get<1>(places_[i - 1]) ? "output" : "input",
                            std::get<2>(places_[i - 1]));
    }
  }

 private:
  void add(std::span<const Tensor> tensors, bool are_outputs) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].defined() && tensors[i].info().bytes() > 0)
        places_.emplace_back(tensors[i].storage().get(), are_outputs, i);
  }
  std::vector<std::tuple<const Storage*, bool, std::size_t>> places_;
};

}  // namespace

// The plan, the states and what is derived from them are shared between clones, the pointers are
// not. An arena is shared by executables of which one runs at a time.
struct Executable::Impl {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  struct Call {
    std::vector<TensorView> views;     // direct kernels: inputs, then outputs
    std::vector<std::byte*> pointers;  // prepared kernels: inputs, then outputs
  };
  std::shared_ptr<const Program> program;
  std::shared_ptr<detail::StateMemory> states;
  std::shared_ptr<detail::SharedPool> pool;
  std::shared_ptr<detail::DerivedMemory> derived;
  std::shared_ptr<detail::Arena> arena;
  std::shared_ptr<Storage> staging;  // what the host looks at of a device's memory
  std::vector<std::byte*> bases;     // by buffer
  std::vector<std::size_t> bound;    // buffers of a run's inputs and outputs
  std::uint64_t moves_seen = 0;      // of the states, when their bases were looked up
  std::uint64_t growth_seen = 0;     // of the arena
  RoomCheck rooms;
  std::vector<Call> calls;    // by step
  std::vector<Tensor> dense;  // copies of inputs that were not, while a run is under way
  std::size_t next = kNone;   // step of that run

  // An arena that others have may be in use now, and must not move: a run looks for its place.
  void allocate(bool shares_arena) {
    if (!shares_arena) arena->reserve(program->arena_bytes);
    bases.resize(program->buffers.size());
    for (std::size_t i = 0; i < bases.size(); ++i) {
      const BufferKind kind = program->buffers[i].kind;
      if (kind == BufferKind::input || kind == BufferKind::output) bound.push_back(i);
      if (kind != BufferKind::arena || !shares_arena) bases[i] = fixed_base(program->buffers[i]);
    }
    moves_seen = states->moves();
    growth_seen = shares_arena ? kNever : arena->growth();
    calls.resize(program->steps.size());
    for (std::size_t s = 0; s < calls.size(); ++s) prepare_call(program->steps[s], calls[s]);
  }

  void find_moved_memory() {
    arena->reserve(program->arena_bytes);
    if (moves_seen == states->moves() && growth_seen == arena->growth()) return;
    for (std::size_t i = 0; i < bases.size(); ++i) {
      const BufferKind kind = program->buffers[i].kind;
      if (kind == BufferKind::state || kind == BufferKind::arena)
        bases[i] = fixed_base(program->buffers[i]);
    }
    moves_seen = states->moves();
    growth_seen = arena->growth();
  }

  std::byte* fixed_base(const Buffer& buffer) const {
    switch (buffer.kind) {
      case BufferKind::arena: return arena->data() + buffer.offset;
      case BufferKind::state: return states->state_address(buffer.index);
      case BufferKind::derived: return derived->address(buffer.index);
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

  // From the next step on, none of which delivers.
  void run_up_to(std::size_t end) {
    for (; next < end; ++next) run_step(program->steps[next], calls[next]);
  }

  void run_once(const Step& step) {
    Call call;
    prepare_call(step, call);
    run_step(step, call);
  }

  std::vector<Tensor> new_outputs() const {
    std::vector<Tensor> outputs;
    for (const TensorInfo& info : program->outputs)
      outputs.push_back(Tensor::empty(info.shape, info.dtype, info.device));
    return outputs;
  }

  // Of input number `index` among those that are not states.
  const TensorInfo& input_info(std::size_t index) const {
    return program->inputs[program->run_inputs[index]];
  }

  const StateSlot& slot(std::size_t input) const {
    if (input >= program->slot_of_input.size() || program->slot_of_input[input] < 0)
      throw InvalidArgument("executable: input {} is not a state", input);
    return program->states[static_cast<std::size_t>(program->slot_of_input[input])];
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

  // Number of the state in their memory.
  std::size_t state_of(std::size_t input) const {
    return program->buffers[static_cast<std::size_t>(slot(input).buffer)].index;
  }
};

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;

Executable Executable::compile(const Graph& graph, const CompileOptions& options) {
  return compile(graph, options, nullptr);
}

Executable Executable::compile(const Graph& graph, const CompileOptions& options,
                               const Executable& like) {
  return compile(graph, options, like.impl_.get());
}

Executable Executable::compile(const Graph& graph, const CompileOptions& options,
                               const Impl* like) {
  detail::check_options(graph, options);
  passes::StateLayouts layouts;
  if (like != nullptr) layouts = layouts_like(graph, options, *like->program);
  auto program = std::make_shared<Program>(
      passes::lower(run_passes(graph, options), options, like ? &layouts : nullptr));
  passes::split_parts(*program, options);
  auto impl = std::make_unique<Impl>();
  impl->pool = like ? like->pool : std::make_shared<detail::SharedPool>();
  impl->pool->share_constants(*program);
  program->changes_states = !options.carries.empty();
  if (options.prologue && !program->changes_states) passes::split_prologue(*program);
  passes::plan_memory(*program);
  impl->states = like ? like->states : std::make_shared<detail::StateMemory>(*program);
  impl->derived = std::make_shared<detail::DerivedMemory>(*program, *impl->pool);
  impl->arena = like ? like->arena : std::make_shared<detail::Arena>(program->device);
  impl->program = std::move(program);
  impl->allocate(like != nullptr);
  return Executable(std::move(impl));
}

Executable Executable::clone() const {
  return clone(std::make_shared<detail::Arena>(impl_->program->device), false);
}

Executable Executable::clone(const Executable& like) const {
  return clone(like.impl_->arena, true);
}

Executable Executable::clone(std::shared_ptr<detail::Arena> arena, bool shares_arena) const {
  if (impl_->program->changes_states)
    throw InvalidArgument("executable: runs change its states, so two threads cannot share them");
  auto impl = std::make_unique<Impl>();
  impl->program = impl_->program;
  impl->states = impl_->states;
  impl->pool = impl_->pool;
  impl->derived = impl_->derived;
  impl->arena = std::move(arena);
  impl->allocate(shares_arena);
  return Executable(std::move(impl));
}

std::vector<Tensor> Executable::run(TensorList inputs) {
  const std::vector<Tensor> outputs = impl_->new_outputs();
  start(inputs, outputs, true);
  while (go_on({})) continue;
  return outputs;
}

// Points every input and output buffer at the caller's memory; `dense` keeps the inputs alive, or
// the copies that had to be made of them: the caller's handles may be temporary.
void Executable::bind(std::span<const Tensor> inputs, std::span<const Tensor> outputs, bool are_new,
                      std::vector<Tensor>& dense) {
  const Program& program = *impl_->program;
  const std::size_t expected = program.inputs.size() - program.states.size();
  if (inputs.size() != expected)
    throw InvalidArgument("executable: takes {} inputs, got {}", expected, inputs.size());
  if (outputs.size() != program.outputs.size())
    throw InvalidArgument("executable: gives {} outputs, got room for {}", program.outputs.size(),
                          outputs.size());
  impl_->find_moved_memory();
  for (std::size_t i = 0; i < outputs.size() && !are_new; ++i) {
    check_fits("output", i, outputs[i], program.outputs[i]);
    if (!outputs[i].is_contiguous()) throw InvalidArgument("executable: output {} is not dense", i);
  }
  if (!are_new) impl_->rooms.run(inputs, outputs);
  for (const std::size_t i : impl_->bound) {
    const Buffer& buffer = program.buffers[i];
    if (buffer.kind == BufferKind::output) {
      impl_->bases[i] = outputs[buffer.index].address();
      continue;
    }
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

void Executable::begin(TensorList inputs, TensorList outputs) { start(inputs, outputs, false); }

void Executable::start(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                       bool are_new) {
  impl_->next = Impl::kNone;
  impl_->dense.clear();
  bind(inputs, outputs, are_new, impl_->dense);
  make_fresh();
  impl_->next = 0;
}

void Executable::run_first_part() { impl_->run_up_to(impl_->program->first_part); }

void Executable::run_second_part() { impl_->run_up_to(impl_->program->second_part); }

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
  if (impl_->program->changes_states) impl_->states->set_computed();
  impl_->dense.clear();
  return false;
}

std::optional<NonFinite> Executable::find_non_finite(TensorList inputs) {
  const std::vector<Tensor> outputs = impl_->new_outputs();
  std::vector<Tensor> dense;
  bind(inputs, outputs, true, dense);
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
  impl_->find_moved_memory();
  impl_->states->bring();
  impl_->derived->make(*impl_->program, part, impl_->states->version(),
                       [&](const Step& step) { impl_->run_once(step); });
}

void Executable::set_fresh() { impl_->derived->version = impl_->states->version(); }

bool Executable::is_fresh() const { return impl_->derived->version == impl_->states->version(); }

std::size_t Executable::refresh_parts() const { return impl_->program->prologue.size(); }

void Executable::refresh() {
  impl_->states->set_changed();
  derive();
}

void Executable::derive() {
  for (std::size_t part = 0; part < refresh_parts(); ++part) refresh(part);
  set_fresh();
}

// Before a run. After set_state the first clone that runs derives for all, the others wait for it.
void Executable::make_fresh() {
  impl_->states->bring();
  if (!is_fresh()) {
    const std::lock_guard lock(impl_->derived->refreshing);
    if (!is_fresh()) derive();
  }
  if (impl_->program->changes_states) impl_->states->set_computed();
}

std::vector<Executable::StepTime> Executable::profile(TensorList inputs, int runs) {
  using Clock = std::chrono::steady_clock;
  const std::vector<Tensor> outputs = impl_->new_outputs();
  std::vector<Tensor> dense;
  bind(inputs, outputs, true, dense);
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
  impl_->states->set_changed(impl_->state_of(input));
}

Tensor Executable::state(std::size_t input) const {
  return unpack(input, state_memory(input)).to(impl_->slot(input).info.device);
}

std::span<std::byte> Executable::state_memory(std::size_t input) const {
  return impl_->states->home(impl_->state_of(input));
}

void Executable::set_state_memory(std::size_t input, std::span<std::byte> memory) {
  const std::size_t state = impl_->state_of(input);
  check(memory.size() == impl_->states->home_bytes(state), "a state's memory has another size");
  impl_->states->move_home(state, memory);
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

std::size_t Executable::state_bytes() const {
  return impl_->states->bytes() + impl_->derived->bytes();
}

std::string Executable::str() const { return impl_->program->str(); }

}  // namespace lockstep
