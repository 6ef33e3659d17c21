// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct OpDef;

// Which dtypes a kernel takes, as a set.
class DTypeSet {
 public:
  constexpr DTypeSet(std::initializer_list<DType> dtypes) {
    for (DType d : dtypes) bits_ |= bit(d);
  }
  constexpr bool has(DType dtype) const { return (bits_ & bit(dtype)) != 0; }
  constexpr DTypeSet operator|(DTypeSet other) const {
    other.bits_ |= bits_;
    return other;
  }

 private:
  static constexpr unsigned bit(DType d) { return 1u << static_cast<unsigned>(d); }
  unsigned bits_ = 0;
};

inline constexpr DTypeSet kFloatTypes{DType::float32, DType::float64, DType::float16,
                                      DType::bfloat16};
inline constexpr DTypeSet kIntTypes{DType::int8, DType::uint8, DType::int16, DType::int32,
                                    DType::int64};
inline constexpr DTypeSet kNumberTypes = kFloatTypes | kIntTypes;
inline constexpr DTypeSet kAllTypes = kNumberTypes | DTypeSet{DType::boolean};

// One operand of a running kernel: first element, shape, strides in elements.
struct TensorView {
  std::byte* data = nullptr;
  Shape shape;
  Strides strides;
  DType dtype = DType::float32;

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
  std::int64_t numel() const { return shape.numel(); }
};

// What a direct kernel is called with. Outputs are dense and row major; so are inputs, unless the
// kernel says that it takes strided ones.
struct KernelCall {
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  const Attrs& attrs;
};

using DirectKernel = void (*)(const KernelCall& call);

// How a value's bytes are arranged. Plain is dense and row major; a blocked layout is one that a
// kernel library chose, known only to the kernels of that library.
class BlockedLayout {
 public:
  virtual ~BlockedLayout() = default;
  virtual std::size_t bytes() const = 0;
  virtual bool equals(const BlockedLayout& other) const = 0;
  // True when the bytes hold more elements than the shape, all of them zero.
  virtual bool padded() const = 0;
  virtual std::string str() const = 0;
};

class Layout {
 public:
  Layout() = default;
  explicit Layout(std::shared_ptr<const BlockedLayout> blocked) : blocked_(std::move(blocked)) {}

  bool is_plain() const { return blocked_ == nullptr; }
  const BlockedLayout* blocked() const { return blocked_.get(); }
  std::size_t bytes(const TensorInfo& info) const {
    return is_plain() ? info.bytes() : blocked_->bytes();
  }
  bool padded() const { return !is_plain() && blocked_->padded(); }
  bool operator==(const Layout& other) const {
    if (is_plain() || other.is_plain()) return is_plain() == other.is_plain();
    return blocked_->equals(*other.blocked_);
  }
  // "plain", "aBcd16b"
  std::string str() const { return is_plain() ? "plain" : blocked_->str(); }

 private:
  std::shared_ptr<const BlockedLayout> blocked_;
};

// What a prepared kernel is asked for. In eager calls every layout is plain and stays so; the
// compiler sets `choose_layouts`, and then the kernel may want other input layouts than the
// producers offer and may leave its outputs in a layout of its own.
struct KernelRequest {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const TensorInfo> inputs;
  std::span<const TensorInfo> outputs;
  std::span<const Layout> offered;
  bool choose_layouts = false;
  // Outputs that nobody reads (a workspace when there is no backward pass).
  std::span<const bool> output_unused = {};
  // Winograd's convolutions are faster where they are chosen, and a little less exact.
  bool allow_winograd = true;

  bool unused(std::size_t output) const {
    return output < output_unused.size() && output_unused[output];
  }
};

struct KernelBuffers {
  std::span<std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::byte* scratch = nullptr;
};

// A kernel prepared for one set of shapes, dtypes, attributes and layouts. Running it changes
// nothing in it, so several threads may run the same one.
class PreparedKernel {
 public:
  virtual ~PreparedKernel() = default;
  virtual void run(const KernelBuffers& buffers) const = 0;

  std::string name;
  std::size_t scratch_bytes = 0;
  std::vector<Layout> input_layouts;   // as many as inputs
  std::vector<Layout> output_layouts;  // as many as outputs
};

// Returns nullptr and says why in `declined` when the kernel does not take the request.
using PrepareKernel = std::unique_ptr<PreparedKernel> (*)(const KernelRequest& request,
                                                          std::string& declined);

// One way to compute an op. An op lists its candidates in order of preference, the reference last.
struct KernelCandidate {
  std::string_view name;
  DTypeSet dtypes = kFloatTypes;  // of the first input (of the first output where there is none)
  DirectKernel direct = nullptr;  // exactly one of direct and prepare is set
  PrepareKernel prepare = nullptr;
  bool strided_inputs = false;  // takes inputs that are not dense
};

}  // namespace lockstep
