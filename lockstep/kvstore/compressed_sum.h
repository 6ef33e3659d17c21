// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/kvstore/compression.h"

namespace lockstep::kvstore {

// The sum over ranks of what each one's payload says, decoded and added in the order of ranks: the
// same bits on every rank. What a rank's payload does not say it adds to what it sends next time.
class CompressedSum {
 public:
  CompressedSum(comm::Communicator& communicator, const Compression& compression,
                const comm::CallOptions& options);

  bool keeps_residual() const { return codec_->keeps_residual(); }
  // A round of sums of so many floats in all; what is left of one that was not committed counts
  // for nothing.
  void begin(std::size_t floats);
  // `offset` is the values' place among all that are summed: residuals are kept by it.
  void run(std::size_t offset, std::span<float> values);
  void commit() noexcept { residual_.swap(next_); }
  // Of this rank, of the first so many floats; empty when the codec keeps none.
  std::span<float> residual(std::size_t floats);
  // What the round under way will leave.
  std::span<float> next_residual() { return next_; }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(communicator_.size()); }
  bool is_gathered(std::size_t count) const;
  void add_all(std::size_t bytes, std::span<float> sums) const;
  void run_gathered(std::span<float> values);
  void run_scattered(std::span<float> values);

  comm::Communicator& communicator_;
  comm::CallOptions options_;
  std::unique_ptr<Codec> codec_;
  std::vector<float> residual_, next_;
  std::vector<std::byte> sent_, received_;
};

}  // namespace lockstep::kvstore
