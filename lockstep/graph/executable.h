// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/graph/graph.h"
#include "lockstep/graph/trace.h"
#include "lockstep/tensor/tensor_list.h"

namespace lockstep {

struct Program;
namespace detail {
class Arena;
}  // namespace detail

// Output number `output` becomes the next run's value of state input `input`.
struct Carry {
  std::size_t input;
  std::size_t output;
};

// Output number `output` is delivered: handed to the run's receiver as soon as it is made and
// nothing reads state input `like` any more, in the layout of that state, and not returned.
struct Delivery {
  std::size_t output;
  std::size_t like;
};

struct CompileOptions {
  bool simplify = true;
  bool fuse = true;
  bool recompute = true;       // less memory for a little more work
  bool choose_layouts = true;  // false: every value stays plain
  bool prologue = true;        // what depends on states alone is kept from run to run
  bool winograd = true;        // 3x3 convolutions by Winograd's algorithm where it is faster
  // bfloat16: float32 matrix products and convolutions are computed in it; everything else, states
  // included, stays float32.
  DType compute = DType::float32;
  // Inputs that are kept from run to run (parameters, optimiser state) and set by set_state.
  std::vector<std::size_t> states = {};
  std::vector<Carry> carries = {};
  std::vector<Delivery> deliveries = {};
  // A run in two parts (run_first_part): the first makes these outputs, of those that are returned,
  // and reads nothing of the inputs here, which need not be there before it is over.
  std::vector<std::size_t> early_outputs = {};
  std::vector<std::size_t> late_inputs = {};
  // What the other returned outputs need comes next (run_second_part), and what deliveries alone
  // need comes last; the deliveries have the order that they always have.
  bool deliveries_last = false;
  // Of who compiles anew for each combination of shapes: as many stay, and the one that was not
  // used for the longest time goes.
  std::size_t plans = 32;
};

// Where a run met a NaN or an infinity.
struct NonFinite {
  enum class Kind { state, input, step };
  Kind kind = Kind::step;
  std::size_t index = 0;  // of the state among all inputs, of the input among those of a run
  std::string what = {};  // the step, as str() prints it up to its kernel
};

// A compiled graph: the same work again and again. One thread at a time; clone() gives another
// thread its own arena over the same plan and the same states, and is refused when runs change
// them. What depends on states alone (weights in a second layout) is computed once for all clones
// and runs, in refresh().
//
// Inputs, outputs and constants are on one device, and so are arena and states; the steps go
// through that device's queue. On the host's devices they are done when a call returns.
class Executable {
 public:
  // Throws what kernel choice throws.
  static Executable compile(const Graph& graph, const CompileOptions& options = {});
  // The same for other shapes, over the states of `like`, in its arena, and with one copy of what
  // both hold: equal constants, and what is derived alike. One of the two runs at a time; threads
  // may compile like one executable at once, and while it runs. The states are as many, of the same
  // infos; the layouts are those of `like`.
  static Executable compile(const Graph& graph, const CompileOptions& options,
                            const Executable& like);
  Executable clone() const;
  // A clone in the arena of `like`; one of the two runs at a time.
  Executable clone(const Executable& like) const;
  ~Executable();
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;

  // Inputs that are not states, in order; returns the outputs that are not carried.
  std::vector<Tensor> run(TensorList inputs);
  // Writes into dense tensors the caller has; with dense inputs, nothing is allocated.
  void run_into(TensorList inputs, TensorList outputs);
  // Gets delivery number `index` of the options: bytes on the host that are valid during the call.
  // It may write to the memory of the state that the delivery is like.
  using Receiver = std::function<void(std::size_t index, std::span<const std::byte> bytes)>;
  void run_into(TensorList inputs, TensorList outputs, const Receiver& receiver);
  // The same in parts: begin, then go_on until it returns false. Each part ends with a delivery, so
  // that clones can take turns. The tensors live that long.
  void begin(TensorList inputs, TensorList outputs);
  // After begin: what CompileOptions::early_outputs need. go_on does the rest.
  void run_first_part();
  // And then what CompileOptions::deliveries_last puts before all deliveries; nothing without it.
  void run_second_part();
  bool go_on(const Receiver& receiver);

  // Runs once and finds the first step that makes a NaN, or the input or state that has one; else
  // the first with an infinity. Nothing when all is finite.
  std::optional<NonFinite> find_non_finite(TensorList inputs);

  struct StepTime {
    std::string step;  // as str() prints it
    double seconds;    // the fastest of the runs
  };
  // Runs several times and tells where the time goes. States change as in any run.
  std::vector<StepTime> profile(TensorList inputs, int runs = 10);

  // `input` counts all inputs of the graph. Throws InvalidArgument when it is not a state.
  void set_state(std::size_t input, const Tensor& value);
  Tensor state(std::size_t input) const;
  // The state's own bytes on the host, in the layout that the kernels like and pack() and unpack()
  // convert. Who writes there calls refresh() before the next run of this executable or a clone.
  std::span<std::byte> state_memory(std::size_t input) const;
  // From now on the state is in the caller's memory, for this executable and its clones: as many
  // bytes, as state_memory() has them. It outlives them, or is replaced.
  void set_state_memory(std::size_t input, std::span<std::byte> memory);
  void pack(std::size_t input, const Tensor& value, std::span<std::byte> bytes) const;
  Tensor unpack(std::size_t input, std::span<const std::byte> bytes) const;
  // Number `part` of refresh_parts() independent parts: threads may share the work.
  void refresh(std::size_t part);
  std::size_t refresh_parts() const;
  // After all parts.
  void set_fresh();
  // Whether no state has changed since.
  bool is_fresh() const;
  void refresh();

  const Infos& output_infos() const;
  // Numbers of the deliveries, in the order in which a run makes them.
  std::vector<std::size_t> delivery_order() const;
  std::size_t arena_bytes() const;
  std::size_t state_bytes() const;
  // One line a step: op, what was fused, kernel, layouts, place in the arena.
  std::string str() const;

 private:
  struct Impl;
  explicit Executable(std::unique_ptr<Impl> impl);
  static Executable compile(const Graph& graph, const CompileOptions& options, const Impl* like);
  Executable clone(std::shared_ptr<detail::Arena> arena, bool shares_arena) const;
  void start(std::span<const Tensor> inputs, std::span<const Tensor> outputs, bool are_new);
  void make_fresh();
  void derive();
  void bind(std::span<const Tensor> inputs, std::span<const Tensor> outputs, bool are_new,
            std::vector<Tensor>& dense);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
