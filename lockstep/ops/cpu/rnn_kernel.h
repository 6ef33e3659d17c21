// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/ops/cpu/packed_product.h"
#include "lockstep/ops/kernel.h"
#include "lockstep/ops/rnn_attrs.h"

// A float32 recurrent layer: the input's part of the gates is a matrix product over many steps at
// once, the state's part one product a step, and the gates are one pass over the row. Steps are
// taken in chunks, so that a chunk's gates are still in the second-level cache when they are used
// again: by the steps themselves, and, backward, by the products that make the gradients of the
// weights, which need no order between steps. Sequences that have ended have no part in products.
namespace lockstep::kernels {

std::unique_ptr<PreparedKernel> prepare_rnn_forward(const KernelRequest& request,
                                                    std::string& declined);
std::unique_ptr<PreparedKernel> prepare_rnn_backward(const KernelRequest& request,
                                                     std::string& declined);

inline float* floats(std::byte* bytes) { return reinterpret_cast<float*>(bytes); }

// How far each sequence goes.
class Sequences {
 public:
  Sequences(const std::byte* lengths, DType dtype, const RnnSizes& n);
  bool goes_on(std::int64_t sample, std::int64_t time) const {
    return time < lengths_[static_cast<std::size_t>(sample)];
  }

 private:
  std::vector<std::int64_t> lengths_;
};

// The rows that a product reads and where it puts their results.
struct ProductRows {
  std::vector<const float*> from;
  std::vector<float*> to;

  void clear() {
    from.clear();
    to.clear();
  }
  void add(const float* source, float* target) {
    from.push_back(source);
    to.push_back(target);
  }
};

// Where in the scratch each buffer begins, on a line of the cache.
class ScratchPlan {
 public:
  std::int64_t add(std::int64_t floats) {
    const std::int64_t first = floats_;
    floats_ += (floats + kLine - 1) / kLine * kLine;
    return first;
  }
  std::size_t bytes() const { return sizeof(float) * static_cast<std::size_t>(floats_); }

 private:
  static constexpr std::int64_t kLine = 16;
  std::int64_t floats_ = 0;
};

// What both passes share. `first` is the number of the input x.
class RnnKernel : public PreparedKernel {
 public:
  RnnKernel(const KernelRequest& request, const RnnAttrs& attrs, std::size_t first);

 protected:
  std::int64_t chunk_steps() const;
  std::int64_t chunk_rows() const { return chunk_steps() * n.batch; }
  Sequences sequences(const KernelBuffers& buffers, std::size_t first) const;

  // Where the state before step s is: h0, or y at the step before.
  const float* state_before(std::int64_t s, const float* h0, const float* y) const {
    return s == 0 ? h0 : y + n.time(s - 1) * n.batch * n.hidden;
  }

  RnnSizes n;
  RnnInputs at;
  DType lengths_dtype;
};

}  // namespace lockstep::kernels
