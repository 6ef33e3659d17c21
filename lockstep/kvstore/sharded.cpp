// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/sharded.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/share_rows.h"
#include "lockstep/kvstore/tree_sum.h"

// What a worker computes for a piece is what every worker computes for it without sharding: the
// same sum, the same rule. Norms over several pieces are sums of the pieces' own, in the layout's
// order, wherever these were computed. So the bits are the same for any number of owners.
namespace lockstep::kvstore {
namespace {

// Any thread may take any of them.
template <class Work>
void for_each(ThreadTeam& team, std::size_t count, const Work& work) {
  std::atomic<std::size_t> next = 0;
  team.run([&](int) {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  });
}

}  // namespace

ShardedSynchronizer::ShardedSynchronizer(comm::Communicator& communicator, Group& group,
                                         const AllReduceOptions& options, FlatState& state,
                                         std::int64_t shards)
    : communicator_(communicator),
      group_(group),
      state_(state),
      shards_(shards),
      sum_(communicator, group, options, state.layout(), shards),
      owners_(state.layout(), group.workers()),
      keeps_all_sums_(options.shard_state == ShardState::slots) {
  state_.own(owners_.pieces_of(group.rank()));
  if (state_.shares_weights()) {
    std::vector<int> all(static_cast<std::size_t>(communicator.size()));
    std::iota(all.begin(), all.end(), 0);
    gathering_ = communicator.split(all, sum_.call_options());
  }
  make_sums();
}

// Sums that are made where the worker's own node is need no memory at all: no part of them is less.
void ShardedSynchronizer::make_sums() {
  if (!state_.shares_weights()) memory_ = sum_.common_memory();
  keeps_all_sums_ = keeps_all_sums_ || !memory_.empty();
  if (memory_.empty()) sums_.emplace(keeps_all_sums_ ? layout().floats : owned().floats());
}

void ShardedSynchronizer::begin(std::int64_t step, double rate) {
  finite_ = true;
  slots_.clear();
  sum_.begin();
  state_.begin(step, rate, shards_);
}

void ShardedSynchronizer::give(std::size_t offset, std::span<const Node> nodes) {
  const std::size_t count = nodes[0].sum.size();
  const std::vector<comm::ElementRanges> parts = owners_.parts_in(offset, count);
  add_up(offset, nodes, parts);
  const std::size_t end = owned().first_from(offset + count);
  for (std::size_t i = owned().first_from(offset); i < end; ++i) {
    finite_ = finite_ && all_finite({gradient(i), owned().piece(i).size()});
    if (finite_ && state_.is_local()) owned().finish(state_.context(), {}, i, gradient(i));
  }
  if (state_.is_local() && !state_.shares_weights()) gather_weights(offset, count, parts);
}

void ShardedSynchronizer::add_up(std::size_t offset, std::span<const Node> nodes,
                                 std::span<const comm::ElementRanges> parts) {
  const std::size_t count = nodes[0].sum.size();
  if (keeps_all_sums_) {
    float* all = memory_.empty() ? sums_->data() : memory_.data();
    return sum_.run(nodes, offset, {all + offset, count});
  }
  const std::size_t begin = owned().first_from(offset), end = owned().first_from(offset + count);
  const std::span<float> own(sums_->data() + owned().place(begin),
                             owned().place(end) - owned().place(begin));
  if (sum_.can_scatter()) return sum_.scatter(nodes, parts, own);
  bucket_.resize(std::max(bucket_.size(), count));
  sum_.run(nodes, offset, std::span(bucket_).first(count));
  for (std::size_t i = begin; i < end; ++i)
    std::copy_n(bucket_.data() + (owned().piece(i).offset - offset), owned().piece(i).size(),
                sums_->data() + owned().place(i));
}

const float* ShardedSynchronizer::gradient(std::size_t i) const {
  if (!memory_.empty()) return memory_.data() + owned().piece(i).offset;
  return sums_->data() + (keeps_all_sums_ ? owned().piece(i).offset : owned().place(i));
}

void ShardedSynchronizer::gather_weights(std::size_t offset, std::size_t count,
                                         std::span<const comm::ElementRanges> parts) {
  communicator_.all_gather_parts(
      std::as_writable_bytes(state_.next_weights().subspan(offset, count)), parts,
      sum_.call_options());
}

void ShardedSynchronizer::give_rows(std::vector<std::vector<RowNode>> tables) {
  share_rows(group_, shards_, tables, state_);
}

// Rules that need all gradients first have them now. What is not finite goes through all the same,
// and counts for nothing: who has it alone knows of it before the vote.
Vote ShardedSynchronizer::commit(const Vote& own, std::span<float> rows, ThreadTeam& team) {
  Vote mine = own;
  mine.finite = own.finite && finite_ && state_.tables().is_finite();
  if (!state_.is_local())
    update_together(team);
  else if (mine.finite)
    state_.update_tables(team, state_.context().gradient_scale);
  const Vote vote = group_.gather(mine, shards_, rows);
  if (!vote.counts()) return vote;
  state_.commit();
  sum_.commit();
  return vote;
}

// A number of each piece: each worker computes those of its own, and has them all.
template <class Value, class Work>
std::vector<Value> ShardedSynchronizer::of_all_pieces(ThreadTeam& team, const Work& work) {
  std::vector<Value> own(owned().size());
  for_each(team, own.size(), [&](std::size_t i) { own[i] = work(i); });
  std::string bytes(own.size() * sizeof(Value), '\0');
  if (!own.empty()) std::memcpy(bytes.data(), own.data(), bytes.size());
  const std::vector<std::string> shared = group_.share(bytes);
  std::vector<Value> all(layout().pieces.size());
  for (std::size_t rank = 0; rank < shared.size(); ++rank) {
    const std::vector<std::size_t> numbers = owners_.pieces_of(static_cast<int>(rank));
    check(shared[rank].size() == numbers.size() * sizeof(Value), "numbers of other pieces");
    for (std::size_t i = 0; i < numbers.size(); ++i)
      std::memcpy(&all[numbers[i]], shared[rank].data() + i * sizeof(Value), sizeof(Value));
  }
  return all;
}

void ShardedSynchronizer::update_together(ThreadTeam& team) {
  optim::UpdateContext context = state_.context();
  const optim::RuleDriver& driver = state_.driver();
  if (driver.clips()) {
    std::vector<double> squares =
        of_all_pieces<double>(team, [&](std::size_t i) { return owned().squares(i, gradient(i)); });
    for (const std::vector<double>& of_table : state_.squares_of_tables(team))
      squares.insert(squares.end(), of_table.begin(), of_table.end());
    context = driver.clip(context, squares);
  }
  std::vector<optim::PieceNorms> totals;
  if (driver.measures())
    totals = driver.totals(of_all_pieces<optim::PieceNorms>(
        team, [&](std::size_t i) { return owned().measure(context, i, gradient(i)); }));
  for_each(team, owned().size(),
           [&](std::size_t i) { owned().finish(context, totals, i, gradient(i)); });
  state_.update_tables(team, context.gradient_scale);
  if (!state_.shares_weights())
    gather_weights(0, layout().floats, owners_.parts_in(0, layout().floats));
}

comm::WorkPtr ShardedSynchronizer::start_gathering(std::size_t offset, std::span<float> weights) {
  owned().put_weights(offset, weights);
  return gathering_->start([weights, parts = owners_.parts_in(offset, weights.size()),
                            options = sum_.call_options()](comm::Communicator& own) {
    own.all_gather_parts(std::as_writable_bytes(weights), parts, options);
  });
}

std::span<const float> ShardedSynchronizer::sums() const {
  if (!memory_.empty()) return memory_;
  return keeps_all_sums_ ? std::span<const float>(sums_->data(), layout().floats)
                         : std::span<const float>();
}

// Rank 0 alone has room for all of them, and only until the next step.
void ShardedSynchronizer::collect_slots() {
  slots_.assign(group_.is_first() ? owned().slots() : 0, std::vector<float>(layout().floats));
  for (std::size_t k = 0; k < owned().slots(); ++k) {
    if (!group_.is_first()) {
      if (owned().size() > 0)
        communicator_.send(std::as_bytes(owned().slot(k)), 0, sum_.call_options());
      continue;
    }
    for (int rank = 0; rank < group_.workers(); ++rank) {
      std::vector<std::size_t> numbers = owners_.pieces_of(rank);
      if (numbers.empty()) continue;
      std::size_t floats = 0;
      for (const std::size_t number : numbers) floats += layout().pieces[number].size();
      std::vector<float> its(rank == 0 ? 0 : floats);
      if (rank > 0)
        communicator_.receive(std::as_writable_bytes(std::span(its)), rank, sum_.call_options());
      const float* from = rank == 0 ? owned().slot(k).data() : its.data();
      for (const std::size_t number : numbers) {
        const FlatPiece& piece = layout().pieces[number];
        std::copy_n(from, piece.size(), slots_[k].data() + piece.offset);
        from += piece.size();
      }
    }
  }
}

// Those before it were asked for, and are not needed any more.
std::span<const float> ShardedSynchronizer::slot(std::size_t number) {
  check(number < slots_.size(), "slots that are shared were not collected here");
  for (std::size_t k = 0; k < number; ++k) slots_[k] = {};
  return slots_[number];
}

void ShardedSynchronizer::set_slot(std::size_t number, std::span<const float> values) {
  owned().set_slot(number, values);
}

std::size_t ShardedSynchronizer::buffers() const {
  return (sums_ && keeps_all_sums_ ? 1 : 0) + (sum_.keeps_residual() ? 2 : 0);
}

std::size_t ShardedSynchronizer::bytes() const {
  return (keeps_all_sums_ ? 0 : owned().floats() + bucket_.size()) * sizeof(float);
}

}  // namespace lockstep::kvstore
