// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/graph/passes/passes.h"
#include "lockstep/graph/passes/step_order.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/fused.h"
#include "lockstep/ops/known_ops.h"
#include "lockstep/ops/reorder.h"
#include "lockstep/ops/slice_ops.h"
#include "lockstep/tensor/copy.h"

namespace lockstep::passes {
namespace {

// Copies a strided window of a plain block into a dense one.
class GatherKernel final : public PreparedKernel {
 public:
  explicit GatherKernel(const Operand& from) : from_(from), dense_(contiguous_strides(from.shape)) {
    name = "copy";
    input_layouts.resize(1);
    output_layouts.resize(1);
  }
  void run(const KernelBuffers& buffers) const override {
    copy_strided(from_.shape, {buffers.inputs[0], from_.strides, from_.dtype},
                 {buffers.outputs[0], dense_, from_.dtype});
  }

 private:
  Operand from_;
  Strides dense_;
};

bool is_dense(const Operand& operand) {
  return operand.layout.is_plain() && is_contiguous(operand.shape, operand.strides);
}

// The bytes of a blocked operand as a line of elements.
Operand flat(Operand operand) {
  const TensorInfo info{operand.shape, operand.dtype, {}};
  const std::size_t bytes = operand.layout.bytes(info);
  operand.shape = {static_cast<std::int64_t>(bytes / item_size(operand.dtype))};
  operand.strides = {1};
  operand.layout = {};
  return operand;
}

// Of all of a graph. The host's devices are one here.
Device device_of(const Graph& graph) {
  const auto placed = [](const Device& device) { return device.is_host() ? Device() : device; };
  std::optional<Device> found;
  for (const Node& node : graph.nodes())
    for (const TensorInfo& info : node.outputs) {
      if (found && !(placed(info.device) == *found))
        throw InvalidArgument("compile: the graph is on {} and {}", found->str(),
                              info.device.str());
      found = placed(info.device);
    }
  return found.value_or(Device());
}

bool is_single(const Shape& operand, const Shape& whole) {
  return operand.numel() == 1 && whole.numel() != 1;
}

// Layout choice is greedy, in graph order: a kernel with a preference (oneDNN's) is asked with
// every layout open; element-wise ops follow the layout of their inputs; everything else is plain.
// Conversions are inserted where producer and consumer differ, at most one for each value and
// layout. States take the layout that their first consumer with a preference asks for: that is
// known only after the whole graph was seen, so lowering runs again with what the last run learnt.
class Lowering {
 public:
  Lowering(const Graph& graph, const CompileOptions& options, const StateLayouts& state_layouts)
      : graph_(graph),
        options_(options),
        state_layouts_(state_layouts),
        uses_(count_uses(graph)),
        forms_(graph.nodes().size()),
        state_of_node_(graph.nodes().size(), -1) {
    program_.device = device_of(graph);
  }

  Program run() {
    place_inputs();
    for (std::size_t id = 0; id < graph_.nodes().size(); ++id) lower_node(id);
    place_outputs();
    put_steps_in_order();
    return std::move(program_);
  }

  // What each state's consumers asked for, as far as it is not plain.
  const StateLayouts& wishes() const { return wishes_; }

 private:
  using Forms = std::vector<Operand>;  // one value in several layouts; the first is the original

  std::int32_t new_buffer(BufferKind kind, std::size_t bytes, std::size_t index = 0) {
    program_.buffers.push_back({kind, bytes, index});
    mentions_.emplace_back();
    return static_cast<std::int32_t>(program_.buffers.size()) - 1;
  }

  Operand new_operand(const TensorInfo& info, const Layout& layout) {
    const std::int32_t buffer = new_buffer(BufferKind::arena, layout.bytes(info));
    return {buffer, 0, info.shape, contiguous_strides(info.shape), info.dtype, layout};
  }

  Forms& forms(ValueId value) {
    return forms_[static_cast<std::size_t>(value.node)][static_cast<std::size_t>(value.output)];
  }

  void add_form(ValueId value, const Operand& operand) {
    forms(value).push_back(operand);
    mentions(operand.buffer).forms.push_back(value);
  }

  const Operand& original(ValueId value) {
    if (forms(value).empty()) cast_to(value, natural_layout(value));
    return forms(value).front();
  }

  // The layout that a value has when nobody asks for another.
  Layout natural_layout(ValueId value) {
    if (!forms(value).empty()) return forms(value).front().layout;
    return with_dtype(natural_layout(graph_.node(value).inputs[0]), graph_.info(value).dtype);
  }

  const Buffer& buffer(std::int32_t id) const {
    return program_.buffers[static_cast<std::size_t>(id)];
  }

  bool is_unused(std::size_t node, std::size_t output) const { return uses_[node][output] == 0; }

  const StateSlot* state_of(ValueId value) const {
    const std::int32_t state = state_of_node_[static_cast<std::size_t>(value.node)];
    return state < 0 ? nullptr : &program_.states[static_cast<std::size_t>(state)];
  }

  void place_inputs() {
    program_.inputs = graph_.input_infos();
    program_.slot_of_input.assign(program_.inputs.size(), -1);
    std::vector<bool> is_state(program_.inputs.size(), false);
    for (const std::size_t state : options_.states) is_state[state] = true;
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueId value = graph_.inputs()[i];
      const TensorInfo& info = graph_.info(value);
      Operand operand{-1, 0, info.shape, contiguous_strides(info.shape), info.dtype, {}};
      if (is_state[i]) {
        const auto known = state_layouts_.find(i);
        if (known != state_layouts_.end()) operand.layout = known->second;
        operand.buffer =
            new_buffer(BufferKind::state, operand.layout.bytes(info), program_.states.size());
        program_.slot_of_input[i] = static_cast<std::int32_t>(program_.states.size());
        state_of_node_[static_cast<std::size_t>(value.node)] = program_.slot_of_input[i];
        program_.states.push_back({i, info, operand.layout, operand.buffer});
      } else {
        operand.buffer = new_buffer(BufferKind::input, info.bytes(), program_.run_inputs.size());
        program_.run_inputs.push_back(i);
      }
      forms_[static_cast<std::size_t>(value.node)].resize(1);
      add_form(value, operand);
    }
  }

  void lower_node(std::size_t id) {
    const Node& node = graph_.nodes()[id];
    if (node.is_constant()) place_constant(id, node);
    if (node.op == nullptr) return;
    forms_[id].resize(node.outputs.size());
    if (is_lazy_cast(node)) return;
    if (node.op->kind == OpKind::view && lower_view(id, node)) return;
    if (node.op->kind == OpKind::elementwise && lower_elementwise(id, node)) return;
    lower_general(id, node);
  }

  // A conversion between the types of mixed precision waits for its readers: each gets the value
  // straight in the layout that it wants.
  bool is_lazy_cast(const Node& node) const {
    const auto mixed = [](DType d) { return d == DType::float32 || d == DType::bfloat16; };
    return options_.choose_layouts && node.op == &known_ops().cast &&
           mixed(node.outputs[0].dtype) && mixed(graph_.info(node.inputs[0]).dtype);
  }

  Operand cast_to(ValueId value, const Layout& layout) {
    const ValueId from = graph_.node(value).inputs[0];
    const bool plain = original(from).layout.is_plain();
    const Operand source = plain ? form_that_is_dense(from) : original(from);
    return convert_by(value, source, layout, "cast",
                      make_reorder(graph_.info(from), source.layout, graph_.info(value), layout));
  }

  void place_constant(std::size_t id, const Node& node) {
    const Tensor dense = node.constant.contiguous();
    const TensorInfo& info = dense.info();
    const std::int32_t buffer =
        new_buffer(BufferKind::constant, info.bytes(), program_.constants.size());
    program_.constants.push_back(dense);
    forms_[id].resize(1);
    add_form({static_cast<std::int32_t>(id), 0},
             {buffer, 0, info.shape, contiguous_strides(info.shape), info.dtype, {}});
  }

  // A window on the input's buffer, when its plain form allows one.
  bool lower_view(std::size_t id, const Node& node) {
    if (node.op->view == nullptr) return false;
    const Operand source = form_that_is_plain(node.inputs[0]);
    const TensorInfo info{source.shape, source.dtype, graph_.info(node.inputs[0]).device};
    const auto spec = node.op->view(info, source.strides, node.attrs);
    if (!spec) return false;
    Operand window = source;
    window.shape = spec->shape;
    window.strides = spec->strides;
    window.byte_offset += static_cast<std::size_t>(spec->offset) * item_size(source.dtype);
    add_form({static_cast<std::int32_t>(id), 0}, window);
    return true;
  }

  // Runs an element-wise op on the bytes of whatever layout its inputs have in common.
  bool lower_elementwise(std::size_t id, const Node& node) {
    const std::optional<Layout> layout = common_layout(node);
    if (!layout || layout->is_plain()) return false;
    if (layout->padded() && !keeps_padding_zero(node)) return false;
    emit_elementwise(id, node, *layout);
    return true;
  }

  std::optional<Layout> common_layout(const Node& node) {
    const TensorInfo& output = node.outputs[0];
    std::optional<Layout> layout;
    std::optional<Layout> of_state;  // a state's own layout goes first: it is carried back in it
    for (ValueId input : node.inputs) {
      const TensorInfo& info = graph_.info(input);
      if (is_single(info.shape, output.shape)) continue;
      if (!(info.shape == output.shape) || info.dtype != output.dtype) return std::nullopt;
      const Layout natural = natural_layout(input);
      if (!layout || (layout->is_plain() && !natural.is_plain())) layout = natural;
      if (!of_state && !natural.is_plain() && state_of(input) != nullptr) of_state = natural;
    }
    return of_state ? of_state : layout;
  }

  bool keeps_padding_zero(const Node& node) const {
    std::vector<bool> single;
    for (ValueId input : node.inputs)
      single.push_back(is_single(graph_.info(input).shape, node.outputs[0].shape));
    return preserves_zero(*node.op, node.attrs, single);
  }

  void emit_elementwise(std::size_t id, const Node& node, const Layout& layout) {
    Step step = new_step(id, node);
    Infos infos;
    for (ValueId input : node.inputs) {
      if (is_single(graph_.info(input).shape, node.outputs[0].shape)) {
        Operand single = form_that_is_dense(input);
        single.shape = single.strides = {};  // it may have more axes than the line
        step.inputs.push_back(single);
      } else {
        wish(input, layout);
        step.inputs.push_back(flat(form_in(input, layout)));
      }
      infos.push_back({step.inputs.back().shape, step.inputs.back().dtype, program_.device});
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const Operand output = new_operand(node.outputs[i], layout);
      add_form({static_cast<std::int32_t>(id), static_cast<std::int32_t>(i)}, output);
      step.outputs.push_back(flat(output));
    }
    const Infos outputs = infer(*node.op, infos, node.attrs);
    const std::vector<Layout> plain(infos.size());
    finish(std::move(step), choose_kernel({*node.op, node.attrs, infos, outputs, plain}));
  }

  void lower_general(std::size_t id, const Node& node) {
    Infos infos;
    std::vector<Layout> offered;
    for (ValueId input : node.inputs) {
      infos.push_back(graph_.info(input));
      offered.push_back(natural_layout(input));
    }
    const auto unused = std::make_unique<bool[]>(node.outputs.size());
    for (std::size_t i = 0; i < node.outputs.size(); ++i) unused[i] = is_unused(id, i);
    KernelRequest request{*node.op, node.attrs, infos, node.outputs, offered};
    request.choose_layouts = options_.choose_layouts;
    request.allow_winograd = options_.winograd;
    request.output_unused = {unused.get(), node.outputs.size()};
    const ChosenKernel chosen = choose_kernel(request);
    Step step = new_step(id, node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      step.inputs.push_back(input_for(node.inputs[i], chosen, i));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const Layout layout = chosen.prepared ? chosen.prepared->output_layouts[i] : Layout();
      const Operand output = new_operand(node.outputs[i], layout);
      add_form({static_cast<std::int32_t>(id), static_cast<std::int32_t>(i)}, output);
      step.outputs.push_back(output);
    }
    finish(std::move(step), chosen);
  }

  Operand input_for(ValueId value, const ChosenKernel& chosen, std::size_t index) {
    if (chosen.prepared) {
      const Layout& layout = chosen.prepared->input_layouts[index];
      wish(value, layout);
      return form_in(value, layout);
    }
    return chosen.candidate->strided_inputs ? form_that_is_plain(value) : form_that_is_dense(value);
  }

  void wish(ValueId value, const Layout& layout) {
    const StateSlot* state = state_of(value);
    if (state != nullptr && !layout.is_plain()) wishes_.try_emplace(state->input, layout);
  }

  Operand form_in(ValueId value, const Layout& layout) {
    if (layout.is_plain()) return form_that_is_dense(value);
    for (const Operand& form : forms(value))
      if (form.layout == layout) return form;
    if (forms(value).empty()) return cast_to(value, layout);
    const bool plain = original(value).layout.is_plain();
    return convert(value, plain ? form_that_is_dense(value) : original(value), layout);
  }

  Operand form_that_is_plain(ValueId value) {
    for (const Operand& form : forms(value))
      if (form.layout.is_plain()) return form;
    if (forms(value).empty()) return cast_to(value, {});
    return convert(value, original(value), {});
  }

  Operand form_that_is_dense(ValueId value) {
    for (const Operand& form : forms(value))
      if (is_dense(form)) return form;
    const Operand source = form_that_is_plain(value);
    if (is_dense(source)) return source;
    const Operand target =
        convert_by(value, source, {}, "copy", std::make_shared<GatherKernel>(source));
    program_.steps.back().copies = true;
    return target;
  }

  Operand convert(ValueId value, const Operand& source, const Layout& layout) {
    const TensorInfo& info = graph_.info(value);
    return convert_by(value, source, layout, "reorder",
                      make_reorder(info, source.layout, info, layout));
  }

  Operand convert_by(ValueId value, const Operand& source, const Layout& layout, const char* label,
                     std::shared_ptr<const PreparedKernel> kernel) {
    const Operand target = new_operand(graph_.info(value), layout);
    Step step;
    step.label = label;
    step.inputs = {source};
    step.outputs = {target};
    finish(std::move(step), {nullptr, std::move(kernel)});
    add_form(value, target);
    return target;
  }

  static Step new_step(std::size_t id, const Node& node) {
    Step step;
    step.label = std::string(node.op->name);
    step.node = static_cast<std::int32_t>(id);
    step.attrs = node.attrs;
    step.may_overwrite_input = node.op->kind == OpKind::elementwise;
    step.meets = is_slice_transfer(*node.op);
    return step;
  }

  void finish(Step step, const ChosenKernel& chosen) {
    step.prepared = chosen.prepared;
    if (!chosen.prepared) step.direct = chosen.candidate;
    if (step.prepared && step.prepared->scratch_bytes > 0)
      step.scratch = new_buffer(BufferKind::arena, step.prepared->scratch_bytes);
    append(std::move(step));
  }

  void append(Step step) {
    const std::size_t place = program_.steps.size();
    for (const Operand& operand : step.inputs) mentions(operand.buffer).readers.push_back(place);
    for (const Operand& operand : step.outputs) mentions(operand.buffer).makers.push_back(place);
    program_.steps.push_back(std::move(step));
    order_.append();
  }

  void put_steps_in_order() {
    std::vector<Step> steps;
    steps.reserve(program_.steps.size());
    for (const std::size_t place : order_.steps())
      steps.push_back(std::move(program_.steps[place]));
    program_.steps = std::move(steps);
  }

  // Returned outputs first: one of them may be a state's old value. They are there before anything
  // is delivered that does not lead to them.
  void place_outputs() {
    std::size_t returned = 0;
    std::vector<bool> leaves_otherwise(graph_.outputs().size(), false);
    for (const Carry& carry : options_.carries) leaves_otherwise[carry.output] = true;
    for (const Delivery& delivery : options_.deliveries) leaves_otherwise[delivery.output] = true;
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      if (leaves_otherwise[i]) continue;
      const std::size_t first_new = program_.steps.size();
      return_output(graph_.outputs()[i], returned++);
      for (std::size_t s = first_new; s < program_.steps.size(); ++s) move_up(s);
    }
    for (std::size_t i = 0; i < options_.deliveries.size(); ++i) deliver(i);
    std::vector<std::optional<Operand>> old_values;
    for (const Carry& carry : options_.carries)
      old_values.push_back(saved_old_value(graph_.outputs()[carry.output], slot_of(carry.input)));
    for (std::size_t i = 0; i < options_.carries.size(); ++i)
      carry_back(options_.carries[i], old_values[i]);
  }

  // A copy of what is carried or delivered, when that is a state's value as it was before the run:
  // another carry, or who receives another delivery, may overwrite it first.
  std::optional<Operand> saved_old_value(ValueId value, const StateSlot& slot) {
    const Operand source = form_in(value, slot.layout);
    if (buffer(source.buffer).kind != BufferKind::state) return std::nullopt;
    const Operand target = new_operand(slot.info, slot.layout);
    copy_into(source, target.buffer, slot.info, slot.layout);
    return target;
  }

  const StateSlot& slot_of(std::size_t input) const {
    const std::int32_t slot = program_.slot_of_input[input];
    check(slot >= 0, "an output goes where an input is, which is not a state");
    return program_.states[static_cast<std::size_t>(slot)];
  }

  // Conversion and delivery move up to where their input is ready and the state was read for the
  // last time: the value dies young, and whoever receives it may write to the state.
  void deliver(std::size_t index) {
    const Delivery& delivery = options_.deliveries[index];
    const StateSlot slot = slot_of(delivery.like);
    const std::size_t first_new = program_.steps.size();
    const ValueId value = graph_.outputs()[delivery.output];
    const std::optional<Operand> old_value = saved_old_value(value, slot);
    Step step;
    step.label = "deliver";
    step.inputs = {old_value ? *old_value : form_in(value, slot.layout)};
    step.delivery = static_cast<std::int32_t>(index);
    append(std::move(step));
    for (std::size_t s = first_new; s < program_.steps.size(); ++s) move_up(s, slot.buffer);
  }

  // To right after the last step that makes the input or, for a delivery, reads the state.
  void move_up(std::size_t place, std::int32_t state = -1) {
    const Step& step = program_.steps[place];
    std::size_t last = StepOrder::kFront;
    const auto follow = [&](const std::vector<std::size_t>& steps) {
      for (const std::size_t earlier : steps)
        if (order_.precedes(earlier, place) &&
            (last == StepOrder::kFront || order_.precedes(last, earlier)))
          last = earlier;
    };
    follow(mentions(step.inputs[0].buffer).makers);
    if (step.delivery >= 0) follow(mentions(state).readers);
    order_.move_after(place, last);
  }

  // Writes the value straight into the caller's buffer where nothing else stands in the way.
  void return_output(ValueId value, std::size_t index) {
    const TensorInfo& info = graph_.info(value);
    program_.outputs.push_back(info);
    const Operand source = form_that_is_dense(value);
    const std::int32_t target = new_buffer(BufferKind::output, info.bytes(), index);
    if (fills_arena_buffer(source, info.bytes()))
      redirect(source.buffer, target);
    else
      copy_into(source, target, info, {});
  }

  void carry_back(const Carry& carry, const std::optional<Operand>& old_value) {
    const StateSlot slot = slot_of(carry.input);
    if (old_value) return copy_into(*old_value, slot.buffer, slot.info, slot.layout);
    const Operand source = form_in(graph_.outputs()[carry.output], slot.layout);
    if (fills_arena_buffer(source, slot.layout.bytes(slot.info)) &&
        can_write_early(source.buffer, slot.buffer))
      redirect(source.buffer, slot.buffer);
    else
      copy_into(source, slot.buffer, slot.info, slot.layout);
  }

  bool fills_arena_buffer(const Operand& operand, std::size_t bytes) const {
    return buffer(operand.buffer).kind == BufferKind::arena && operand.byte_offset == 0 &&
           buffer(operand.buffer).bytes == bytes;
  }

  // True when nothing reads the old state after the step that makes the new one, except that step
  // itself where it works element by element on the whole of it.
  bool can_write_early(std::int32_t fresh, std::int32_t state) const {
    const std::vector<std::size_t>& makers = mentions(fresh).makers;
    if (makers.empty()) return false;
    const auto earlier = [&](std::size_t a, std::size_t b) { return order_.precedes(a, b); };
    const std::size_t first = *std::min_element(makers.begin(), makers.end(), earlier);
    for (const std::size_t reader : mentions(state).readers) {
      if (order_.precedes(first, reader)) return false;
      if (reader == first && !writes_over(program_.steps[first], fresh, state)) return false;
    }
    return true;
  }

  // Where the step reads the state, it may put `fresh` element for element in its place.
  static bool writes_over(const Step& step, std::int32_t fresh, std::int32_t state) {
    const auto output = std::find_if(step.outputs.begin(), step.outputs.end(),
                                     [&](const Operand& o) { return o.buffer == fresh; });
    return std::all_of(step.inputs.begin(), step.inputs.end(), [&](const Operand& input) {
      return input.buffer != state || (step.may_overwrite_input && lies_on(input, *output));
    });
  }

  // Element for element in the same place of their buffers.
  static bool lies_on(const Operand& a, const Operand& b) {
    return a.byte_offset == b.byte_offset && a.shape == b.shape && a.strides == b.strides &&
           item_size(a.dtype) == item_size(b.dtype);
  }

  void copy_into(const Operand& source, std::int32_t target, const TensorInfo& info,
                 const Layout& layout) {
    const Operand from = layout.is_plain() ? source : flat(source);
    Step step;
    step.label = "copy";
    step.inputs = {from};
    step.outputs = {{target, 0, info.shape, contiguous_strides(info.shape), info.dtype, layout}};
    step.copies = true;
    finish(std::move(step), {nullptr, std::make_shared<GatherKernel>(from)});
  }

  // Who made, read or is `from` makes, reads or is `to`.
  void redirect(std::int32_t from, std::int32_t to) {
    const Mentions moved = std::exchange(mentions(from), {});
    const auto move = [&](std::vector<Operand>& operands) {
      for (Operand& operand : operands)
        if (operand.buffer == from) operand.buffer = to;
    };
    for (const std::size_t place : moved.readers) move(program_.steps[place].inputs);
    for (const std::size_t place : moved.makers) move(program_.steps[place].outputs);
    for (const ValueId value : moved.forms) move(forms(value));
    const auto append_to = [](auto& target, const auto& more) {
      target.insert(target.end(), more.begin(), more.end());
    };
    append_to(mentions(to).readers, moved.readers);
    append_to(mentions(to).makers, moved.makers);
    append_to(mentions(to).forms, moved.forms);
  }

  // Where a buffer is spoken of.
  struct Mentions {
    std::vector<std::size_t> makers, readers;  // steps
    std::vector<ValueId> forms;
  };
  Mentions& mentions(std::int32_t buffer) { return mentions_[static_cast<std::size_t>(buffer)]; }
  const Mentions& mentions(std::int32_t buffer) const {
    return mentions_[static_cast<std::size_t>(buffer)];
  }

  const Graph& graph_;
  const CompileOptions& options_;
  const StateLayouts& state_layouts_;
  std::vector<std::vector<int>> uses_;
  std::vector<std::vector<Forms>> forms_;
  std::vector<std::int32_t> state_of_node_;  // number of the slot, or -1
  StateLayouts wishes_;
  Program program_;  // its steps stand as they were made until the end
  StepOrder order_;
  std::vector<Mentions> mentions_;  // by buffer
};

}  // namespace

Program lower(const Graph& graph, const CompileOptions& options, const StateLayouts* given) {
  if (given != nullptr) return Lowering(graph, options, *given).run();
  StateLayouts wishes;
  // Twice at most: a weight learns its layout from its convolution, then a momentum buffer from the
  // weight beside it.
  for (int round = 0; round < 2 && options.choose_layouts && !options.states.empty(); ++round) {
    Lowering lowering(graph, options, wishes);
    lowering.run();
    for (const auto& [state, layout] : lowering.wishes()) wishes.try_emplace(state, layout);
  }
  return Lowering(graph, options, wishes).run();
}

}  // namespace lockstep::passes
