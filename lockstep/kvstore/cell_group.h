// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/kvstore/mesh_mode.h"

namespace lockstep::kvstore {

// The workers that have one cell of the net, who ask those of the other cells before a step counts.
class CellGroup final : public PartialGroup {
 public:
  // Of this worker's cell. They outlive it.
  explicit CellGroup(MeshLinks& links);

  // What the cell has. Every worker of a replica calls it.
  void set_layout(const FlatLayout& layout);

  const Membership& membership() const override { return same_cell_->membership(); }
  int rank() const override { return same_cell_->rank(); }
  std::vector<std::string> share(const std::string& own) override { return same_cell_->share(own); }
  std::string from(int rank, const std::string& own) override {
    return same_cell_->from(rank, own);
  }
  std::vector<float> collect(std::span<const float> own) override {
    return same_cell_->collect(own);
  }
  const comm::Meter* meter() const override { return same_cell_->meter(); }
  // What a cell does not make is zeros in its rows, and what several make is the same: bit by bit,
  // each number is somebody's.
  Vote gather(const Vote& own, std::int64_t parts, std::span<float> rows) override;

  // Gradients of a net that is not in slices are made from the last stage on, and norms added in
  // that order. One in slices has its parameters by descending number, and so are they added: what
  // several cells have, since it is not split, counts once.
  std::vector<double> all_squares(std::span<const double> own) override;
  std::vector<optim::PieceNorms> all_norms(std::span<const optim::PieceNorms> own) override;

 private:
  std::vector<std::string> texts_of_replica(const std::string& own);
  // Each cell's numbers, stage by stage.
  template <class T>
  std::vector<std::vector<T>> of_replica(std::span<const T> own);

  MeshLinks& links_;
  std::unique_ptr<Group> same_cell_;
  const FlatLayout* layout_ = nullptr;
  bool is_sliced_ = false;  // some parameter of the net is
  std::vector<std::byte> sent_, received_;
};

}  // namespace lockstep::kvstore
