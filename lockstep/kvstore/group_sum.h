// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/kvstore/compressed_sum.h"
#include "lockstep/kvstore/group.h"
#include "lockstep/kvstore/row_sums.h"

namespace lockstep::comm {
class InProcessGroup;
}

namespace lockstep::kvstore {

// result = the canonical tree's sum of the values.
void sum_in_tree(const std::vector<std::span<const float>>& values, std::span<float> result);

// What a store needs of the workers; without a communicator there is one.
class GroupSum {
 public:
  explicit GroupSum(comm::Communicator* communicator);
  ~GroupSum();

  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->size(); }
  void barrier() { communicator_->barrier(); }
  void broadcast(std::span<float> data);
  // Throws InvalidArgument unless all workers do the same, Aborted when one of them cannot: its
  // reason is told. Returns each worker's number.
  std::vector<std::size_t> agree(const char* operation, const std::string& what,
                                 std::size_t number = 0);
  // Instead of agree(), by a worker that cannot do what the others do.
  void refuse(const std::string& why) noexcept;
  // What is wrong with a call of this worker is told to the others, which wait for it in theirs.
  template <class Check>
  void checked(const Check& check) {
    try {
      check();
    } catch (const std::exception& error) {
      refuse(error.what());
      throw;
    }
  }
  // Of all workers' values in the canonical tree's order; `counts` says how many each has.
  void sum(const std::vector<std::span<const float>>& own, const std::vector<std::size_t>& counts,
           std::span<float> result);
  // Of the rows that some worker has of a value with `value_rows`: each worker's in order of
  // position, then the workers' in the canonical tree's order, of those that have it.
  RowSums sum_rows(const std::vector<std::int64_t>& ids, std::span<const float> rows,
                   std::size_t width, std::size_t value_rows);
  std::unique_ptr<CompressedSum> compressed(const Compression& compression);

 private:
  std::unique_ptr<comm::InProcessGroup> in_process_;  // of one
  std::unique_ptr<comm::Communicator> alone_;
  comm::Communicator* communicator_;
  std::unique_ptr<Group> group_;
};

}  // namespace lockstep::kvstore
