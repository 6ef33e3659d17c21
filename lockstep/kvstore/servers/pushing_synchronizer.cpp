// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/pushing_synchronizer.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/servers/rows_of_tables.h"
#include "lockstep/kvstore/servers/table_access.h"
#include "lockstep/kvstore/tree_sum.h"

namespace lockstep::kvstore {

using wire::Topic;

PushingSynchronizer::PushingSynchronizer(ServerConnections& servers, Group& job, PushTarget& target,
                                         FlatState& state, std::int64_t shards)
    : servers_(servers),
      job_(job),
      target_(target),
      state_(state),
      shards_(shards),
      ranges_(split_layout(state.layout(), servers.servers(), !state.driver().measures())),
      versions_(ranges_.size()),
      memory_(std::make_shared<FlatBuffer>(layout().floats)),
      norms_(state.driver().measures() ? layout().pieces.size() : 0) {
  job_.share("");  // nobody uses an older one any more
  const std::string epoch = first_does(job_, [&] {
    const std::uint64_t number = new_epoch(target_.generation);
    make_tables(servers_, ranges_, Topic::make_pushed,
                {.table = target_.table,
                 .epoch = number,
                 .shards = 1,
                 .rule = wire::Rule::of(state_.rule()),
                 .compression = "none",
                 .goes_on = target_.goes_on});
    return std::to_string(number);
  });
  target_.epoch = std::stoull(epoch);
}

// Between two pushes of a worker there is, on average, one of each other.
std::uint64_t PushingSynchronizer::others() const {
  return static_cast<std::uint64_t>(job_.workers() - 1);
}

void PushingSynchronizer::begin(std::int64_t step, double rate) {
  ticket_ = step;
  rate_ = target_.damps_stale ? rate / static_cast<double>(1 + others()) : rate;
  state_.begin(step, rate_, shards_);
}

// One process has the sum over all shards of its ticket, which lies where it is sent from.
void PushingSynchronizer::give(std::size_t offset, std::span<const Node> nodes) {
  check(nodes.size() == 1, "a ticket is computed by one worker");
  const std::span<const float> sum = nodes[0].sum;
  if (sum.data() != memory_->data() + offset)
    std::copy(sum.begin(), sum.end(), memory_->data() + offset);
}

void PushingSynchronizer::give_rows(std::vector<std::vector<RowNode>> tables) {
  for (std::size_t t = 0; t < tables.size(); ++t) {
    check(tables[t].size() == 1, "a ticket is computed by one worker");
    state_.tables().set_gradient(t, std::move(tables[t][0].sum));
  }
}

// A gradient that is not finite is nothing to push: nothing has changed.
Vote PushingSynchronizer::commit(const Vote& own, std::span<float>, ThreadTeam& team) {
  Vote vote = own;
  vote.finite = vote.finite && state_.tables().is_finite();
  for (const FlatPiece& piece : layout().pieces)
    vote.finite = vote.finite && all_finite({memory_->data() + piece.offset, piece.size()});
  if (!vote.finite) return vote;
  scale_ = scale(team);
  staleness_ = 0;
  new_rows_.assign(layout().tables.size(), {});
  push();
  if (state_.driver().measures()) finish();
  for (std::size_t t = 0; t < new_rows_.size(); ++t)
    state_.tables().set_next(t, std::move(new_rows_[t]));
  state_.commit();
  ++target_.seen.pushes;
  target_.seen.total_stale += staleness_;
  target_.seen.most_stale = std::max(target_.seen.most_stale, staleness_);
  return vote;
}

// This worker has the whole gradient, so that its norm is known here.
double PushingSynchronizer::scale(ThreadTeam& team) {
  const optim::RuleDriver& driver = state_.driver();
  if (!driver.clips()) return state_.context().gradient_scale;
  std::vector<double> squares(layout().pieces.size());
  for (std::size_t i = 0; i < squares.size(); ++i)
    squares[i] = driver.squares(i, memory_->data() + layout().pieces[i].offset);
  for (const std::vector<double>& its : state_.squares_of_tables(team))
    squares.insert(squares.end(), its.begin(), its.end());
  return driver.clip(state_.context(), squares).gradient_scale;
}

wire::PushGradient PushingSynchronizer::message_for(std::size_t server) const {
  return {.table = target_.table,
          .epoch = target_.epoch,
          .worker = target_.worker,
          .ticket = ticket_,
          .before = target_.before,
          .seen = versions_[server],
          .rate = rate_,
          .scale = scale_,
          .fresh = target_.damps_stale ? others() : ~std::uint64_t{0}};
}

void PushingSynchronizer::push() {
  const std::string what =
      fmt::format("kvstore: pushing ticket {} to table '{}'", ticket_, target_.table);
  std::vector<const RowSums*> rows;
  for (std::size_t t = 0; t < layout().tables.size(); ++t)
    rows.push_back(&state_.tables().gradient(t));
  std::vector<std::pair<std::size_t, ServerReply>> replies;
  for (std::size_t server = 0; server < ranges_.size(); ++server) {
    if (!is_used(server)) continue;
    const TableRange& its = ranges_[server];
    comm::Payload floats;
    add_floats(floats, {memory_->data() + its.offset, its.layout.floats}, memory_);
    if (!its.rows.empty()) floats.add(bytes_for(its, rows));
    replies.emplace_back(server, servers_.request(static_cast<int>(server), Topic::push_gradient,
                                                  message_for(server), what, std::move(floats)));
  }
  for (auto& [server, reply] : replies) {
    const comm::Payload payload = reply.wait().payload;
    if (!state_.driver().measures()) {
      take_weights(server, payload);
      continue;
    }
    const auto pushed = message_in<wire::PushedGradient>(payload);
    const TableRange& its = ranges_[server];
    if (pushed.norms.size() != its.layout.pieces.size())
      throw Corrupt("{}: norms of {} pieces, expected {}", what, pushed.norms.size(),
                    its.layout.pieces.size());
    for (std::size_t i = 0; i < pushed.norms.size(); ++i)
      norms_[its.first_piece + i] = {pushed.norms[i].weight, pushed.norms[i].direction};
  }
}

void PushingSynchronizer::finish() {
  const std::string what =
      fmt::format("kvstore: finishing ticket {} of table '{}'", ticket_, target_.table);
  const std::vector<optim::PieceNorms> totals = state_.driver().totals(norms_);
  std::vector<std::pair<std::size_t, ServerReply>> replies;
  for (std::size_t server = 0; server < ranges_.size(); ++server) {
    if (!is_used(server)) continue;
    const TableRange& its = ranges_[server];
    wire::FinishGradient request{.push = message_for(server)};
    for (std::size_t p = 0; p < its.layout.parameters.size(); ++p) {
      const optim::PieceNorms& norms = totals[its.first_parameter + p];
      request.totals.push_back({norms.weight, norms.direction});
    }
    replies.emplace_back(
        server, servers_.request(static_cast<int>(server), Topic::finish_gradient, request, what));
  }
  for (auto& [server, reply] : replies) take_weights(server, reply.wait().payload);
}

void PushingSynchronizer::take_weights(std::size_t server, const comm::Payload& reply) {
  const auto pushed = message_in<wire::PushedGradient>(reply);
  const TableRange& its = ranges_[server];
  check_floats(reply, 1, its.layout.floats);
  copy_floats(reply, 1, state_.next_weights().subspan(its.offset, its.layout.floats));
  if (!its.rows.empty()) {
    check_parts(reply, 3);
    append_from(its, rows_in(reply.text(2), its.layout.tables), new_rows_);
  }
  versions_[server] = pushed.version;
  staleness_ = std::max(staleness_, pushed.staleness);
}

wire::Access PushingSynchronizer::access(std::int32_t slot) const {
  return {.table = target_.table, .epoch = target_.epoch, .slot = slot};
}

// Where everybody has met there is one version, whoever reads.
void PushingSynchronizer::pull() {
  const auto look = [&](int server, const comm::Payload& answer) {
    versions_[static_cast<std::size_t>(server)] = message_in<wire::PushedGradient>(answer).version;
  };
  read_tables(servers_, ranges_, access(-1), state_.weights(), look);
  for (std::size_t t = 0; t < layout().tables.size(); ++t)
    read_rows(servers_, ranges_, access(-1), t, state_.tables().weights(t), look);
  note_applied();
}

void PushingSynchronizer::note_applied() {
  target_.least_applied = ~std::uint64_t{0};
  target_.most_applied = 0;
  for (std::size_t server = 0; server < versions_.size(); ++server) {
    if (!is_used(server)) continue;
    target_.least_applied = std::min(target_.least_applied, versions_[server]);
    target_.most_applied = std::max(target_.most_applied, versions_[server]);
  }
}

std::span<const float> PushingSynchronizer::table_slot(std::size_t number, std::size_t table) {
  const RowTable& its = layout().tables[table];
  slot_.resize(its.rows * its.width);
  read_rows(servers_, ranges_, access(static_cast<std::int32_t>(number)), table, slot_);
  return slot_;
}

void PushingSynchronizer::set_table_slot(std::size_t number, std::size_t table,
                                         std::span<const float> values) {
  if (job_.is_first())
    write_rows(servers_, ranges_, access(static_cast<std::int32_t>(number)), table, values);
}

std::span<const float> PushingSynchronizer::slot(std::size_t number) {
  slot_.resize(layout().floats);
  read_tables(servers_, ranges_, access(static_cast<std::int32_t>(number)), slot_);
  return slot_;
}

void PushingSynchronizer::set_slot(std::size_t number, std::span<const float> values) {
  write(static_cast<std::int32_t>(number), values);
}

void PushingSynchronizer::weights_changed() {
  write(-1, state_.weights());
  for (std::size_t t = 0; job_.is_first() && t < layout().tables.size(); ++t)
    write_rows(servers_, ranges_, access(-1), t, state_.tables().weights(t));
}

// All workers have the same numbers; the servers need them once, before tickets are dealt.
void PushingSynchronizer::write(std::int32_t slot, std::span<const float> values) {
  if (job_.is_first()) write_tables(servers_, ranges_, access(slot), values);
}

}  // namespace lockstep::kvstore
