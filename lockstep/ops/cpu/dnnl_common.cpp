// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/dnnl_common.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "lockstep/base/memory_error.h"
#include "lockstep/ops/instruction_set.h"
#include "lockstep/ops/op.h"
#include "lockstep/ops/reorder.h"
#include "lockstep/tensor/alignment.h"
#include "lockstep/tensor/copy.h"

namespace lockstep::kernels {
namespace {

using dnnl::memory;

std::byte* address_of(const DnnlOperand& operand, const KernelBuffers& buffers) {
  switch (operand.where) {
    case DnnlOperand::Where::input: return buffers.inputs[operand.index];
    case DnnlOperand::Where::output: return buffers.outputs[operand.index];
    case DnnlOperand::Where::scratch: return buffers.scratch + operand.index;
  }
  fail_check("unknown operand");
}

bool is_padded(const dnnl_memory_desc_t& desc) {
  return !std::equal(desc.dims, desc.dims + desc.ndims, desc.padded_dims);
}

// The blocks of each axis multiplied, 1 where it has none.
std::array<dnnl_dim_t, DNNL_MAX_NDIMS> block_sizes(const dnnl_blocking_desc_t& blocking) {
  std::array<dnnl_dim_t, DNNL_MAX_NDIMS> sizes;
  sizes.fill(1);
  for (int i = 0; i < blocking.inner_nblks; ++i)
    sizes[static_cast<std::size_t>(blocking.inner_idxs[i])] *= blocking.inner_blks[i];
  return sizes;
}

// Axes from the slowest to the fastest, inner blocks left out.
std::vector<int> outer_order(const dnnl_memory_desc_t& desc) {
  std::vector<int> order(static_cast<std::size_t>(desc.ndims));
  std::iota(order.begin(), order.end(), 0);
  const auto& strides = desc.format_desc.blocking.strides;
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return strides[a] > strides[b]; });
  return order;
}

}  // namespace

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine engine = [] {
    settle_instruction_set();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

dnnl::stream& dnnl_stream() {
  thread_local dnnl::stream stream(dnnl_engine());
  return stream;
}

OneThread::OneThread() : saved_(omp_get_max_threads()) {
  if (saved_ != 1) omp_set_num_threads(1);
}

OneThread::~OneThread() {
  if (saved_ != 1) omp_set_num_threads(saved_);
}

std::optional<memory::data_type> dnnl_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return memory::data_type::f32;
    case DType::bfloat16: return memory::data_type::bf16;
    case DType::float16: return memory::data_type::f16;
    case DType::int32: return memory::data_type::s32;
    case DType::int8: return memory::data_type::s8;
    case DType::uint8: return memory::data_type::u8;
    default: return std::nullopt;
  }
}

bool has_bf16_instructions() {
  settle_instruction_set();
  return dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_bf16;
}

memory::dims dnnl_dims(const Shape& shape) {
  return shape.rank() == 0 ? memory::dims{1} : memory::dims(shape.begin(), shape.end());
}

memory::desc plain_desc(const memory::dims& dims, memory::data_type type) {
  memory::dims strides(dims.size(), 1);
  for (std::size_t i = dims.size() - 1; i > 0; --i)
    strides[i - 1] = strides[i] * std::max<std::int64_t>(dims[i], 1);
  return memory::desc(dims, type, strides);
}

memory::desc any_desc(const memory::dims& dims, memory::data_type type) {
  return memory::desc(dims, type, memory::format_tag::any);
}

memory::desc desc_like(const memory::desc& pattern, const memory::dims& dims,
                       memory::data_type type) {
  if (is_row_major(pattern)) return plain_desc(dims, type);
  check(pattern.data.format_kind == dnnl_blocked, "an opaque layout fits one shape only");
  check(pattern.data.ndims == static_cast<int>(dims.size()), "layouts of as many axes");
  dnnl_memory_desc_t d = pattern.data;
  dnnl_blocking_desc_t& blocking = d.format_desc.blocking;
  const auto blocks = block_sizes(blocking);
  d.data_type = memory::convert_to_c(type);
  dnnl_dim_t stride = 1;
  for (int i = 0; i < blocking.inner_nblks; ++i) stride *= blocking.inner_blks[i];
  const std::vector<int> order = outer_order(pattern.data);
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    const auto i = static_cast<std::size_t>(*axis);
    d.dims[i] = dims[i];
    blocking.strides[i] = stride;
    const dnnl_dim_t outer = (dims[i] + blocks[i] - 1) / blocks[i];
    d.padded_dims[i] = outer * blocks[i];
    stride *= std::max<dnnl_dim_t>(outer, 1);
  }
  return memory::desc(d);
}

bool is_row_major(const memory::desc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  if (d.format_kind != dnnl_blocked || d.format_desc.blocking.inner_nblks != 0) return false;
  if (is_padded(d) || d.offset0 != 0 || d.extra.flags != 0) return false;
  dnnl_dim_t stride = 1;
  for (int i = d.ndims - 1; i >= 0; --i) {
    if (d.dims[i] != 1 && d.format_desc.blocking.strides[i] != stride) return false;
    stride *= d.dims[i];
  }
  return true;
}

std::int64_t channel_block(const memory::desc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  if (d.format_kind != dnnl_blocked || d.offset0 != 0 || d.extra.flags != 0) return 0;
  const dnnl_blocking_desc_t& blocking = d.format_desc.blocking;
  if (blocking.inner_nblks != 1 || blocking.inner_idxs[0] != 1) return 0;
  const dnnl_dim_t block = blocking.inner_blks[0];
  dnnl_dim_t stride = block;
  for (int i = d.ndims - 1; i >= 0; --i) {
    if (d.dims[i] != 1 && blocking.strides[i] != stride) return 0;
    stride *= i == 1 ? d.padded_dims[i] / block : d.padded_dims[i];
  }
  return block == 8 || block == 16 ? block : 0;
}

bool DnnlLayout::equals(const BlockedLayout& other) const {
  const auto* same = dynamic_cast<const DnnlLayout*>(&other);
  return same != nullptr && same->desc_ == desc_;
}

bool DnnlLayout::padded() const { return is_padded(desc_.data); }

std::string DnnlLayout::str() const {
  const dnnl_memory_desc_t& d = desc_.data;
  if (d.format_kind != dnnl_blocked) return "opaque";
  const dnnl_blocking_desc_t& blocking = d.format_desc.blocking;
  const auto blocks = block_sizes(blocking);
  std::string tag;
  for (int axis : outer_order(d))
    tag += static_cast<char>((blocks[static_cast<std::size_t>(axis)] > 1 ? 'A' : 'a') + axis);
  for (int i = 0; i < blocking.inner_nblks; ++i)
    tag += fmt::format("{}{}", blocking.inner_blks[i],
                       static_cast<char>('a' + blocking.inner_idxs[i]));
  return tag;
}

memory::desc desc_of(const TensorInfo& info, const Layout& layout) {
  if (layout.is_plain()) {
    const auto type = dnnl_type(info.dtype);
    check(type.has_value(), "oneDNN does not have this dtype");
    return plain_desc(dnnl_dims(info.shape), *type);
  }
  const auto* blocked = dynamic_cast<const DnnlLayout*>(layout.blocked());
  check(blocked != nullptr, "a layout of another kernel library");
  return blocked->desc();
}

Layout layout_of(const memory::desc& desc) {
  if (is_row_major(desc)) return {};
  return Layout(std::make_shared<DnnlLayout>(desc));
}

void rethrow(const dnnl::error& error, const std::string& what) {
  if (error.status == dnnl_out_of_memory) throw_no_memory(what + ": oneDNN");
  if (error.status == dnnl_unimplemented)
    throw Unsupported("{}: oneDNN has no implementation for it", what);
  throw InternalError(fmt::format("{}: oneDNN: {}", what, error.what()));
}

std::unique_ptr<PreparedKernel> decline(const dnnl::error& error, const std::string& what,
                                        std::string& declined) {
  if (error.status != dnnl_unimplemented && error.status != dnnl_invalid_arguments)
    rethrow(error, what);
  declined = fmt::format("the library refuses it: {}", error.what());
  return nullptr;
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

std::unique_ptr<DnnlKernel::Binding> DnnlKernel::make_binding() const {
  auto binding = std::make_unique<Binding>();
  for (const Step& step : steps_) {
    std::vector<dnnl_exec_arg_t> list;
    for (const DnnlArgument& argument : step.arguments) {
      binding->memories.emplace_back(argument.operand.desc, dnnl_engine(), nullptr);
      list.push_back({argument.name, binding->memories.back().get()});
    }
    binding->steps.push_back(std::move(list));
  }
  binding->addresses.resize(binding->memories.size(), nullptr);
  return binding;
}

std::unique_ptr<DnnlKernel::Binding> DnnlKernel::take() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto binding = std::move(idle_.back());
      idle_.pop_back();
      return binding;
    }
  }
  return make_binding();
}

// Setting an address makes the library write the padding's zeros, so it is done on change only.
void DnnlKernel::bind(Binding& binding, const KernelBuffers& buffers) const {
  std::size_t i = 0;
  for (const Step& step : steps_)
    for (const DnnlArgument& argument : step.arguments) {
      std::byte* address = address_of(argument.operand, buffers);
      if (address != binding.addresses[i]) binding.memories[i].set_data_handle(address);
      binding.addresses[i++] = address;
    }
}

void DnnlKernel::run(const KernelBuffers& buffers) const try {
  const OneThread one;
  auto binding = take();
  bind(*binding, buffers);
  dnnl_stream_t stream = dnnl_stream().get();
  for (std::size_t i = 0; i < steps_.size(); ++i)
    dnnl::error::wrap_c_api(dnnl_primitive_execute(steps_[i].primitive.get(), stream,
                                                   static_cast<int>(binding->steps[i].size()),
                                                   binding->steps[i].data()),
                            "could not execute a primitive");
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(binding));
} catch (const dnnl::error& error) {
  rethrow(error, name);
}

DnnlBuilder::DnnlBuilder(const KernelRequest& request)
    : request_(request), kernel_(std::make_unique<DnnlKernel>()) {
  kernel_->input_layouts.resize(request.inputs.size());
  kernel_->output_layouts.resize(request.outputs.size());
}

DnnlOperand DnnlBuilder::input(std::size_t index, const memory::desc& wanted) {
  const DnnlOperand direct{DnnlOperand::Where::input, index, wanted};
  const Layout layout = layout_of(wanted);
  if (request_.choose_layouts) kernel_->input_layouts[index] = layout;
  if (request_.choose_layouts || layout.is_plain()) return direct;
  const DnnlOperand converted = scratch(wanted);
  const auto type = *dnnl_type(request_.inputs[index].dtype);
  reorder({DnnlOperand::Where::input, index, plain_desc(wanted.dims(), type)}, converted);
  return converted;
}

DnnlOperand DnnlBuilder::output(std::size_t index, const memory::desc& made) {
  const DnnlOperand direct{DnnlOperand::Where::output, index, made};
  const Layout layout = layout_of(made);
  if (request_.choose_layouts) kernel_->output_layouts[index] = layout;
  if (request_.choose_layouts || layout.is_plain()) return direct;
  const DnnlOperand raw = scratch(made);
  const auto type = *dnnl_type(request_.outputs[index].dtype);
  last_.emplace_back(raw,
                     DnnlOperand{DnnlOperand::Where::output, index, plain_desc(made.dims(), type)});
  return raw;
}

DnnlOperand DnnlBuilder::scratch(const memory::desc& desc) {
  const DnnlOperand operand{DnnlOperand::Where::scratch, kernel_->scratch_bytes, desc};
  kernel_->scratch_bytes += aligned(desc.get_size());
  return operand;
}

void DnnlBuilder::add_step(dnnl::primitive primitive, const memory::desc& scratchpad,
                           std::vector<DnnlArgument> arguments) {
  if (scratchpad.get_size() > 0) arguments.push_back({DNNL_ARG_SCRATCHPAD, scratch(scratchpad)});
  kernel_->steps_.push_back({std::move(primitive), std::move(arguments)});
}

void DnnlBuilder::reorder(const DnnlOperand& from, const DnnlOperand& to) {
  const OneThread one;
  const dnnl::reorder::primitive_desc desc(dnnl_engine(), from.desc, dnnl_engine(), to.desc,
                                           user_scratchpad());
  add<dnnl::reorder>(desc, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

std::unique_ptr<PreparedKernel> DnnlBuilder::finish(std::string name) {
  for (const auto& [from, to] : last_) reorder(from, to);
  kernel_->name = std::move(name);
  return std::move(kernel_);
}

}  // namespace lockstep::kernels

namespace lockstep {
namespace {

class PlainConversion final : public PreparedKernel {
 public:
  PlainConversion(const TensorInfo& from, const TensorInfo& to)
      : shape_(from.shape), from_(from.dtype), to_(to.dtype) {
    name = "convert";
    input_layouts.resize(1);
    output_layouts.resize(1);
  }

  void run(const KernelBuffers& buffers) const override {
    const Strides strides = contiguous_strides(shape_);
    copy_strided(shape_, {buffers.inputs[0], strides, from_}, {buffers.outputs[0], strides, to_});
  }

 private:
  Shape shape_;
  DType from_, to_;
};

// A plain tensor reads as any factoring of its axes: the blocked side says which.
dnnl::memory::desc matching_desc(const TensorInfo& info, const Layout& layout,
                                 const TensorInfo& other_info, const Layout& other) {
  const dnnl::memory::desc desc = kernels::desc_of(info, layout);
  if (!layout.is_plain() || other.is_plain()) return desc;
  return kernels::plain_desc(kernels::desc_of(other_info, other).dims(),
                             *kernels::dnnl_type(info.dtype));
}

// Layouts that factor the axes differently (groups of a weight, say) meet in a plain one.
void add_reorder(kernels::DnnlBuilder& builder, const kernels::DnnlOperand& from,
                 const kernels::DnnlOperand& to) {
  if (from.desc.dims() == to.desc.dims()) return builder.reorder(from, to);
  const auto type = from.desc.data_type();
  kernels::DnnlOperand plain = builder.scratch(kernels::plain_desc(from.desc.dims(), type));
  builder.reorder(from, plain);
  plain.desc = kernels::plain_desc(to.desc.dims(), type);
  builder.reorder(plain, to);
}

}  // namespace

std::unique_ptr<PreparedKernel> make_reorder(const TensorInfo& from_info, const Layout& from,
                                             const TensorInfo& to_info, const Layout& to) try {
  check(from_info.shape == to_info.shape, "a reorder keeps the shape");
  if (from.is_plain() && to.is_plain())
    return std::make_unique<PlainConversion>(from_info, to_info);
  if (!kernels::dnnl_type(from_info.dtype) || !kernels::dnnl_type(to_info.dtype))
    throw Unsupported("reorder: blocked layouts do not hold {} to {}", name_of(from_info.dtype),
                      name_of(to_info.dtype));
  const kernels::OneThread one;
  const std::array inputs{from_info};
  const std::array outputs{to_info};
  const std::array offered{from};
  static const OpDef op{.name = "reorder"};
  const Attrs none;
  const KernelRequest request{op, none, inputs, outputs, offered, true};
  kernels::DnnlBuilder builder(request);
  add_reorder(builder, builder.input(0, matching_desc(from_info, from, to_info, to)),
              builder.output(0, matching_desc(to_info, to, from_info, from)));
  return builder.finish("reorder");
} catch (const dnnl::error& error) {
  kernels::rethrow(error, "reorder");
}

Layout with_dtype(const Layout& layout, DType dtype) {
  const auto type = kernels::dnnl_type(dtype);
  const auto* blocked = dynamic_cast<const kernels::DnnlLayout*>(layout.blocked());
  if (blocked == nullptr || !type) return {};
  return Layout(std::make_shared<kernels::DnnlLayout>(
      kernels::desc_like(blocked->desc(), blocked->desc().dims(), *type)));
}

}  // namespace lockstep
