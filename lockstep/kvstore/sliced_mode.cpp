// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/sliced_mode.h"

#include <map>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/part_group.h"

namespace lockstep::kvstore {
namespace {

// Norms are added parameter after parameter as one worker has them, whose layout begins with the
// last. What is not split is with every worker, and counts once.
class SliceGroup final : public PartGroup {
 public:
  SliceGroup(SliceLinks& links, std::chrono::milliseconds timeout)
      : PartGroup(links.same_slices(), links.tensor(), timeout) {}

  void set_layout(const FlatLayout& layout) { layout_ = &layout; }

  std::vector<double> all_squares(std::span<const double> own) override {
    std::vector<Square> mine;
    std::size_t in_parameter = 0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::size_t parameter = layout_->pieces[i].parameter;
      in_parameter = i > 0 && layout_->pieces[i - 1].parameter == parameter ? in_parameter + 1 : 0;
      mine.push_back({layout_->parameters[parameter].number, in_parameter, own[i]});
    }
    std::map<std::size_t, std::map<std::size_t, double>, std::greater<>> in_order;
    for (const auto& part : of_all_parts(std::span<const Square>(mine)))
      for (const Square& one : part) in_order[one.number][one.piece] = one.value;
    std::vector<double> all;
    for (const auto& [number, pieces] : in_order)
      for (const auto& [piece, value] : pieces) all.push_back(value);
    return all;
  }

  std::vector<optim::PieceNorms> all_norms(std::span<const optim::PieceNorms> own) override {
    std::vector<Norms> mine;
    for (std::size_t p = 0; p < own.size(); ++p)
      if (const auto whole = layout_->parameters[p].whole)
        mine.push_back({layout_->parameters[p].number, *whole, own[p].weight, own[p].direction});
    std::map<std::size_t, Norms, std::greater<>> in_order;
    for (const auto& part : of_all_parts(std::span<const Norms>(mine)))
      for (const Norms& one : part) in_order[one.number] = one;
    std::map<std::size_t, optim::PieceNorms> wholes;
    for (const auto& [number, one] : in_order) {
      wholes[one.whole].weight += one.weight;
      wholes[one.whole].direction += one.direction;
    }
    std::vector<optim::PieceNorms> all(own.begin(), own.end());
    for (std::size_t p = 0; p < all.size(); ++p)
      if (const auto whole = layout_->parameters[p].whole) all[p] = wholes.at(*whole);
    return all;
  }

 private:
  struct Square {
    std::uint64_t number, piece;
    double value;
  };
  struct Norms {
    std::uint64_t number, whole;
    double weight, direction;
  };
  const FlatLayout* layout_ = nullptr;
};

class SlicedModeOf final : public SlicedMode {
 public:
  SlicedModeOf(comm::Communicator& communicator, const Membership& membership, int workers,
               const AllReduceOptions& options)
      : communicator_(communicator),
        links_(communicator, workers, options.timeout),
        group_(group_of(communicator, membership, options.timeout)) {
    if (!is_canonical(options.algorithm) || !options.compression.is_none())
      throw InvalidArgument(
          "slices: gradients are added in the canonical order, uncompressed: expected algorithm "
          "tree and no compression");
    if (options.shard_state != ShardState::none)
      throw Unsupported("slices: a worker has all state of its slices: expected no shard-state");
    auto same = std::make_unique<SliceGroup>(links_, options.timeout);
    same_slices_ = same.get();
    of_slices_ = allreduce_mode(links_.same_slices(), std::move(same), options);
  }

  Group& group() override { return *group_; }
  SliceLinks& links() override { return links_; }
  std::unique_ptr<Synchronizer> synchronize(FlatState& state, std::int64_t shards) override {
    same_slices_->set_layout(state.layout());
    return of_slices_->synchronize(state, shards);
  }
  void abort(const std::string& reason) override { communicator_.abort(reason); }

 private:
  comm::Communicator& communicator_;
  SliceLinks links_;
  std::unique_ptr<Group> group_;
  SliceGroup* same_slices_ = nullptr;  // of_slices_ has it
  std::unique_ptr<Mode> of_slices_;
};

}  // namespace

SliceLinks::SliceLinks(comm::Communicator& job, int workers, std::chrono::milliseconds timeout)
    : workers_(workers) {
  options_.timeout = timeout;
  if (workers < 1 || job.size() % workers != 0)
    throw InvalidArgument(
        "slices: {} workers cannot be replicas of {} workers each: choose a multiple", job.size(),
        workers);
  place_ = job.rank() % workers;
  replica_ = job.rank() / workers;
  replicas_ = job.size() / workers;
  // Every rank makes all groups, in one order, and keeps those that it is in.
  const auto keep = [&](std::unique_ptr<comm::Communicator>& kept, int first, int count, int step) {
    std::vector<int> ranks;
    for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
    if (auto made = job.split(ranks, options_)) kept = std::move(made);
  };
  for (int place = 0; place < workers; ++place) keep(same_slices_, place, replicas_, workers);
  for (int replica = 0; replica < replicas_; ++replica)
    keep(tensor_, replica * workers, workers, 1);
}

comm::Communicator& SliceLinks::of_thread(std::size_t thread) {
  std::vector<int> all(static_cast<std::size_t>(workers_));
  std::iota(all.begin(), all.end(), 0);
  while (of_threads_.size() <= thread) of_threads_.push_back(tensor_->split(all, options_));
  return *of_threads_[thread];
}

std::unique_ptr<SlicedMode> sliced_mode(comm::Communicator& communicator,
                                        const Membership& membership, int workers,
                                        const AllReduceOptions& options) {
  return std::make_unique<SlicedModeOf>(communicator, membership, workers, options);
}

SliceLinks* slice_links_of(Mode& mode) {
  auto* const sliced = dynamic_cast<SlicedMode*>(&mode);
  return sliced == nullptr ? nullptr : &sliced->links();
}

}  // namespace lockstep::kvstore
