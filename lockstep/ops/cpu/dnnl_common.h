// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dnnl.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/ops/kernel.h"

// What every kernel built on oneDNN shares. Only kernels include this; the compiler uses reorder.h.
namespace lockstep::kernels {

// The CPU engine holds nothing but the library's own tables, so the process has one.
const dnnl::engine& dnnl_engine();
dnnl::stream& dnnl_stream();

// While it lives, the calling thread's OpenMP regions have one thread: oneDNN reads that number
// when a primitive is made and again when it runs.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int saved_;
};

// Nothing for dtypes that the library does not compute with.
std::optional<dnnl::memory::data_type> dnnl_type(DType dtype);
// Without them the library computes in float32 and converts: slower than float32 itself.
bool has_bf16_instructions();
bool is_row_major(const dnnl::memory::desc& desc);
dnnl::memory::dims dnnl_dims(const Shape& shape);
dnnl::memory::desc plain_desc(const dnnl::memory::dims& dims, dnnl::memory::data_type type);
dnnl::memory::desc any_desc(const dnnl::memory::dims& dims, dnnl::memory::data_type type);
// The blocks and the order of axes of `pattern`, with other sizes.
dnnl::memory::desc desc_like(const dnnl::memory::desc& pattern, const dnnl::memory::dims& dims,
                             dnnl::memory::data_type type);

// 8 or 16 where memory is dense [N, C / block, spatial..., block], else 0.
std::int64_t channel_block(const dnnl::memory::desc& desc);

class DnnlLayout final : public BlockedLayout {
 public:
  explicit DnnlLayout(const dnnl::memory::desc& desc) : desc_(desc) {}
  const dnnl::memory::desc& desc() const { return desc_; }
  std::size_t bytes() const override { return desc_.get_size(); }
  bool equals(const BlockedLayout& other) const override;
  bool padded() const override;
  std::string str() const override;

 private:
  dnnl::memory::desc desc_;
};

// A blocked layout keeps its descriptor's own axes (a grouped weight has one more than its shape).
dnnl::memory::desc desc_of(const TensorInfo& info, const Layout& layout);
// Plain when the descriptor is dense and row major.
Layout layout_of(const dnnl::memory::desc& desc);

// Throws what a failed library call means to us: OutOfMemory, Unsupported, or InternalError.
[[noreturn]] void rethrow(const dnnl::error& error, const std::string& what);
// For use while preparing: what the library refuses is left to the next candidate.
std::unique_ptr<PreparedKernel> decline(const dnnl::error& error, const std::string& what,
                                        std::string& declined);

// Where a primitive's argument lives: an input or output by number, or an offset in the scratch.
struct DnnlOperand {
  enum class Where : std::uint8_t { input, output, scratch };
  Where where = Where::scratch;
  std::size_t index = 0;
  dnnl::memory::desc desc;
};

struct DnnlArgument {
  int name;  // DNNL_ARG_SRC, ...
  DnnlOperand operand;
};

// Primitives run one after another, on memory objects that no two threads share at a time.
class DnnlKernel final : public PreparedKernel {
 public:
  void run(const KernelBuffers& buffers) const override;

 private:
  friend class DnnlBuilder;
  struct Step {
    dnnl::primitive primitive;
    std::vector<DnnlArgument> arguments;
  };
  // Memory objects of one run. Setting their addresses is not thread-safe, so each run takes a set
  // that is idle, or makes one.
  struct Binding {
    std::vector<std::vector<dnnl_exec_arg_t>> steps;
    std::vector<dnnl::memory> memories;
    std::vector<std::byte*> addresses;
  };

  std::unique_ptr<Binding> take() const;
  std::unique_ptr<Binding> make_binding() const;
  void bind(Binding& binding, const KernelBuffers& buffers) const;

  std::vector<Step> steps_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Binding>> idle_;
};

// Puts a kernel together. Where the request wants plain layouts (eager calls) and a primitive wants
// others, inputs and outputs are converted on the way, in scratch.
class DnnlBuilder {
 public:
  explicit DnnlBuilder(const KernelRequest& request);

  // The operand as the primitive wants it, or makes it.
  DnnlOperand input(std::size_t index, const dnnl::memory::desc& wanted);
  DnnlOperand output(std::size_t index, const dnnl::memory::desc& made);
  DnnlOperand scratch(const dnnl::memory::desc& desc);
  // Adds the primitive and, where it needs one, its scratchpad (attribute: scratchpad mode user).
  template <class P>
  void add(const typename P::primitive_desc& desc, std::vector<DnnlArgument> arguments) {
    const OneThread one;
    add_step(P(desc), desc.scratchpad_desc(), std::move(arguments));
  }
  // Converts between two operands of this kernel.
  void reorder(const DnnlOperand& from, const DnnlOperand& to);

  std::unique_ptr<PreparedKernel> finish(std::string name);

 private:
  void add_step(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad,
                std::vector<DnnlArgument> arguments);

  const KernelRequest& request_;
  std::unique_ptr<DnnlKernel> kernel_;
  std::vector<std::pair<DnnlOperand, DnnlOperand>> last_;  // conversions after everything else
};

// The attribute every primitive here is made with.
dnnl::primitive_attr user_scratchpad();

}  // namespace lockstep::kernels
