// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/served_synchronizer.h"

#include <algorithm>

#include "lockstep/kvstore/node_sum.h"
#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/servers/rows_of_tables.h"
#include "lockstep/kvstore/servers/table_access.h"

namespace lockstep::kvstore {
namespace {

using wire::Topic;

// 1 MiB: some floats are on their way while others are added.
constexpr std::size_t kPartPieces = 16;
constexpr auto kLastWords = std::chrono::seconds(2);

wire::Norms norms_of(const optim::PieceNorms& norms) { return {norms.weight, norms.direction}; }

}  // namespace

ServedSynchronizer::ServedSynchronizer(ServerConnections& servers, Group& group,
                                       const TableOf& table, const Compression& compression,
                                       FlatState& state, std::int64_t shards)
    : servers_(servers),
      group_(group),
      compression_(compression),
      codec_(make_codec(compression)),
      state_(state),
      shards_(shards),
      own_range_(group.range(shards)),
      ranges_(split_layout(state.layout(), servers.servers(), state.is_local())) {
  if (codec_ && codec_->keeps_residual()) residual_.resize(layout().floats);
  if (!codec_ && subtrees_in(shards, own_range_).size() == 1)
    memory_ = std::make_shared<FlatBuffer>(layout().floats);
  squares_.resize(layout().pieces.size());
  norms_.resize(layout().pieces.size());
  step_.table = table.name;
  step_.worker = static_cast<std::uint32_t>(group_.rank());
  group_.share("");  // whoever had a synchronizer before has settled its last step
  const std::string epoch = first_does(group_, [&] {
    const std::uint64_t number = new_epoch(table.generation);
    make_tables(servers_, ranges_, Topic::make_table,
                {.table = table.name,
                 .epoch = number,
                 .shards = shards_,
                 .rule = wire::Rule::of(state_.rule()),
                 .compression = to_string(compression_)});
    return std::to_string(number);
  });
  step_.epoch = std::stoull(epoch);
}

// The last step counts for the servers, too, even if there is no other. Where the vote has failed,
// another worker may know more.
ServedSynchronizer::~ServedSynchronizer() {
  try {
    if (!is_voting_) settle(kLastWords);
  } catch (const std::exception&) {
    // They find out from whoever comes next.
  }
}

std::span<float> ServedSynchronizer::memory() {
  return memory_ ? std::span(memory_->data(), layout().floats) : std::span<float>();
}

std::string ServedSynchronizer::what() const {
  return fmt::format("kvstore: step {} of table '{}'", step_.number, step_.table);
}

void ServedSynchronizer::begin(std::int64_t step, double rate) {
  drop_failed_step();
  ++step_.round;
  is_begun_ = true;
  step_.number = step;
  step_.rate = rate;
  is_settled_ = false;
  finite_ = true;
  parts_.clear();
  sent_now_ = 0;
  next_residual_ = residual_;
  state_.begin(step, rate, shards_);
}

// What it gave may be read until the servers have said that they do not need it.
void ServedSynchronizer::drop_failed_step() {
  if (pending_.empty() && pending_rows_.empty()) return;
  std::vector<ServerReply> failed;
  for (Pending& one : std::exchange(pending_, {})) failed.push_back(std::move(one.reply));
  for (auto& [server, reply] : std::exchange(pending_rows_, {})) failed.push_back(std::move(reply));
  settle();
  for (ServerReply& reply : failed) try {
      reply.wait();
    } catch (const comm::CommError&) {
    }
  sent_.clear();
}

std::vector<ServedSynchronizer::Part> ServedSynchronizer::parts_in(std::size_t offset,
                                                                   std::size_t count) const {
  std::vector<Part> parts;
  const auto pieces = layout().pieces_in(offset, count);
  for (const FlatPiece& piece : pieces) {
    const auto number = static_cast<std::size_t>(&piece - layout().pieces.data());
    int server = parts.empty() ? 0 : parts.back().server;
    while (number >= range(server).first_piece + range(server).layout.pieces.size()) ++server;
    if (parts.empty() || parts.back().server != server || parts.back().pieces == kPartPieces)
      parts.push_back({.server = server, .first_piece = number, .offset = piece.offset});
    Part& part = parts.back();
    ++part.pieces;
    part.count = piece.offset + piece.size() - part.offset;
  }
  return parts;
}

void ServedSynchronizer::give(std::size_t offset, std::span<const Node> nodes) {
  for (const Part& part : parts_in(offset, nodes[0].sum.size())) {
    send(part, offset, nodes);
    parts_.push_back(part);
  }
  take_done();
}

// Parameters whose gradients come last are needed first by the next step.
void ServedSynchronizer::send(const Part& part, std::size_t offset, std::span<const Node> nodes) {
  wire::Give request{
      .step = step_, .offset = part.offset - range(part.server).offset, .count = part.count};
  if (codec_)
    request.nodes.push_back({own_range_.lo, own_range_.hi});
  else
    for (const Node& node : nodes) request.nodes.push_back({node.shards.lo, node.shards.hi});
  comm::Payload floats = codec_ ? codes_of(part, offset, nodes) : floats_of(part, offset, nodes);
  pending_.push_back(
      {part, servers_.request(part.server, Topic::give, request, what(), std::move(floats),
                              static_cast<int>(part.first_piece))});
}

// Where they lie, if that is memory of its own.
comm::Payload ServedSynchronizer::floats_of(const Part& part, std::size_t offset,
                                            std::span<const Node> nodes) {
  comm::Payload payload;
  for (const Node& node : nodes) {
    const std::span<const float> sum = node.sum.subspan(part.offset - offset, part.count);
    if (memory_ && sum.data() == memory_->data() + part.offset) {
      add_floats(payload, sum, memory_);
      continue;
    }
    const std::shared_ptr<std::vector<float>> copy = take_buffer();
    copy->assign(sum.begin(), sum.end());
    add_floats(payload, *copy, copy);
  }
  return payload;
}

comm::Payload ServedSynchronizer::codes_of(const Part& part, std::size_t offset,
                                           std::span<const Node> nodes) {
  std::vector<Node> of_part;
  for (const Node& node : nodes)
    of_part.push_back({node.shards, node.sum.subspan(part.offset - offset, part.count)});
  const std::shared_ptr<std::vector<float>> sum = take_buffer();
  sum->resize(part.count);
  add_nodes(of_part, *sum);
  std::span<float> kept;
  if (codec_->keeps_residual()) kept = std::span(next_residual_).subspan(part.offset, part.count);
  std::vector<std::byte> code(codec_->payload_bytes(part.count));
  codec_->encode(*sum, kept, code);
  const std::vector<std::size_t>& unused = layout().unused;
  for (auto place = std::lower_bound(unused.begin(), unused.end(), part.offset);
       !kept.empty() && place != unused.end() && *place < part.offset + part.count; ++place)
    kept[*place - part.offset] = 0.0F;
  return comm::Payload().add(std::move(code));
}

// Those of earlier steps are not needed any more.
std::shared_ptr<std::vector<float>> ServedSynchronizer::take_buffer() {
  if (sent_now_ == sent_.size()) sent_.push_back(std::make_shared<std::vector<float>>());
  return sent_[sent_now_++];
}

void ServedSynchronizer::take_done() {
  for (std::size_t i = 0; i < pending_.size();)
    pending_[i].reply.is_done() ? take(i) : static_cast<void>(++i);
}

void ServedSynchronizer::take(std::size_t number) {
  Pending one = std::move(pending_[number]);
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(number));
  const comm::Payload reply = one.reply.wait().payload;
  const auto given = message_in<wire::Given>(reply);
  finite_ = finite_ && given.finite;
  if (!given.finite) return;
  if (state_.is_local()) return take_weights(one.part, reply);
  const bool clips = state_.driver().clips();
  if ((clips ? given.squares.size() : given.norms.size()) != one.part.pieces)
    throw Corrupt("{}: an answer about {} pieces, expected {}", what(),
                  clips ? given.squares.size() : given.norms.size(), one.part.pieces);
  for (std::size_t i = 0; i < one.part.pieces; ++i) {
    const std::size_t piece = one.part.first_piece + i;
    if (clips)
      squares_[piece] = given.squares[i];
    else
      norms_[piece] = {given.norms[i].weight, given.norms[i].direction};
  }
}

void ServedSynchronizer::take_weights(const Part& part, const comm::Payload& reply) {
  copy_floats(reply, 1, state_.next_weights().subspan(part.offset, part.count));
}

// One message for each server that has some of the tables, whatever rows there are: what others
// give has to be answered.
void ServedSynchronizer::give_rows(std::vector<std::vector<RowNode>> tables) {
  const std::size_t nodes = tables.empty() ? 0 : tables[0].size();
  for (int server = 0; server < servers_.servers(); ++server) {
    if (range(server).rows.empty()) continue;
    wire::GiveRows request{.step = step_};
    comm::Payload rows;
    for (std::size_t n = 0; n < nodes; ++n) {
      std::vector<const RowSums*> sums;
      for (const std::vector<RowNode>& table : tables) sums.push_back(&table[n].sum);
      request.nodes.push_back({tables[0][n].shards.lo, tables[0][n].shards.hi});
      rows.add(bytes_for(range(server), sums));
    }
    pending_rows_.emplace_back(
        server, servers_.request(server, Topic::give_rows, request, what(), std::move(rows)));
  }
}

// All workers have all rows that a step changes, before the next one.
void ServedSynchronizer::take_rows() {
  new_rows_.assign(layout().tables.size(), {});
  row_squares_.assign(layout().tables.size(), {});
  for (auto& [server, reply] : std::exchange(pending_rows_, {})) {
    const comm::Payload payload = reply.wait().payload;
    const auto given = message_in<wire::GivenRows>(payload);
    finite_ = finite_ && given.finite;
    if (!given.finite) continue;
    if (!state_.driver().clips()) {
      take_new_rows(server, payload);
      continue;
    }
    const std::vector<TableRange::Rows>& its = range(server).rows;
    if (given.squares.size() != its.size())
      throw Corrupt("{}: squares of {} tables, expected {}", what(), given.squares.size(),
                    its.size());
    for (std::size_t i = 0; i < its.size(); ++i)
      row_squares_[its[i].table] = given.squares[i].by_piece;
  }
}

void ServedSynchronizer::take_new_rows(int server, const comm::Payload& reply) {
  check_parts(reply, 2);
  append_from(range(server), rows_in(reply.text(1), range(server).layout.tables), new_rows_);
}

void ServedSynchronizer::finish_rows(double scale) {
  std::vector<std::pair<int, ServerReply>> replies;
  for (int server = 0; server < servers_.servers(); ++server)
    if (!range(server).rows.empty())
      replies.emplace_back(server, servers_.request(server, Topic::finish_rows,
                                                    wire::FinishRows{step_, scale}, what()));
  for (auto& [server, reply] : replies) take_new_rows(server, reply.wait().payload);
}

Vote ServedSynchronizer::commit(const Vote& own, std::span<float> rows, ThreadTeam&) {
  // In the order of giving, on every worker: nobody waits for what another one, who waits for this
  // one, has to send again.
  while (!pending_.empty()) take(0);
  take_rows();
  if (finite_ && !state_.is_local()) finish_step();
  Vote mine = own;
  mine.finite = own.finite && finite_;
  for (std::size_t t = 0; finite_ && t < new_rows_.size(); ++t)
    state_.tables().set_next(t, std::move(new_rows_[t]));
  is_voting_ = true;
  const Vote vote = group_.gather(mine, shards_, rows);
  is_voting_ = false;
  if (!vote.counts()) return vote;
  state_.commit();
  step_.committed = step_.round;
  residual_.swap(next_residual_);
  return vote;
}

// Every worker computes the same totals of the same numbers.
void ServedSynchronizer::finish_step() {
  optim::UpdateContext context = state_.context();
  if (state_.driver().clips()) {
    std::vector<double> squares = squares_;  // tables come after all else, as in one process
    for (const std::vector<double>& its : row_squares_)
      squares.insert(squares.end(), its.begin(), its.end());
    context = state_.driver().clip(context, squares);
    finish_rows(context.gradient_scale);
    if (state_.driver().measures()) measure(context.gradient_scale);
  }
  finish(context, parts_);
}

void ServedSynchronizer::measure(double scale) {
  std::vector<std::pair<int, ServerReply>> replies;
  for (int server = 0; server < servers_.servers(); ++server)
    if (is_used(server))
      replies.emplace_back(
          server, servers_.request(server, Topic::measure, wire::Measure{step_, scale}, what()));
  for (auto& [server, reply] : replies) {
    const auto measured = message_in<wire::Measured>(reply.wait().payload);
    const TableRange& its = range(server);
    if (measured.norms.size() != its.layout.pieces.size())
      throw Corrupt("{}: norms of {} pieces, expected {}", what(), measured.norms.size(),
                    its.layout.pieces.size());
    for (std::size_t i = 0; i < measured.norms.size(); ++i)
      norms_[its.first_piece + i] = {measured.norms[i].weight, measured.norms[i].direction};
  }
}

void ServedSynchronizer::finish(const optim::UpdateContext& context,
                                const std::vector<Part>& parts) {
  std::vector<optim::PieceNorms> totals;
  if (state_.driver().measures()) totals = state_.driver().totals(norms_);
  std::vector<Pending> replies;
  for (const Part& part : parts) {
    const TableRange& its = range(part.server);
    wire::Finish request{.step = step_,
                         .offset = part.offset - its.offset,
                         .count = part.count,
                         .scale = context.gradient_scale};
    for (std::size_t p = 0; !totals.empty() && p < its.layout.parameters.size(); ++p)
      request.totals.push_back(norms_of(totals[its.first_parameter + p]));
    replies.push_back({part, servers_.request(part.server, Topic::finish, request, what(), {},
                                              static_cast<int>(part.first_piece))});
  }
  for (Pending& one : replies) take_weights(one.part, one.reply.wait().payload);
}

void ServedSynchronizer::settle(std::chrono::milliseconds timeout) {
  if (is_settled_) return;
  std::vector<ServerReply> replies;
  for (int server = 0; server < servers_.servers(); ++server)
    if (is_used(server))
      replies.push_back(
          servers_.request(server, Topic::settle, wire::Settle{step_}, what(), {}, 0, timeout));
  for (ServerReply& reply : replies) reply.wait();
  is_settled_ = true;
}

std::span<const float> ServedSynchronizer::slot(std::size_t number) {
  slot_.resize(layout().floats);
  read(static_cast<std::int32_t>(number), slot_);
  return slot_;
}

void ServedSynchronizer::set_slot(std::size_t number, std::span<const float> values) {
  write(static_cast<std::int32_t>(number), values);
}

std::span<const float> ServedSynchronizer::table_slot(std::size_t number, std::size_t table) {
  const RowTable& its = layout().tables[table];
  slot_.resize(its.rows * its.width);
  settle();
  read_rows(servers_, ranges_, access(static_cast<std::int32_t>(number)), table, slot_);
  return slot_;
}

void ServedSynchronizer::set_table_slot(std::size_t number, std::size_t table,
                                        std::span<const float> values) {
  settle();
  if (group_.is_first())
    write_rows(servers_, ranges_, access(static_cast<std::int32_t>(number)), table, values);
}

// What a server cannot come to, no other membership can have from it.
void ServedSynchronizer::align(std::int64_t steps) {
  is_begun_ = true;
  if (!group_.is_first()) return;
  std::vector<ServerReply> replies;
  for (int server = 0; server < servers_.servers(); ++server)
    if (is_used(server))
      replies.push_back(servers_.request(server, Topic::align_table,
                                         wire::AlignTable{step_.table, step_.epoch, steps},
                                         fmt::format("kvstore: aligning table '{}'", step_.table)));
  try {
    for (ServerReply& reply : replies) reply.wait();
  } catch (const comm::RequestFailed& error) {
    throw Corrupt("{}", error.what());
  }
}

// Before the first step they are those of a new run, which knows nothing of an older one's slots.
void ServedSynchronizer::weights_changed() {
  write(-1, state_.weights(), is_begun_ ? OldSlots::kept : OldSlots::cleared);
  for (std::size_t t = 0; group_.is_first() && t < layout().tables.size(); ++t) {
    wire::Access request = access(-1);
    request.clears_slots = !is_begun_;
    write_rows(servers_, ranges_, request, t, state_.tables().weights(t));
  }
}

wire::Access ServedSynchronizer::access(std::int32_t slot) const {
  return {.table = step_.table, .epoch = step_.epoch, .slot = slot};
}

void ServedSynchronizer::read(std::int32_t slot, std::span<float> to) {
  settle();
  read_tables(servers_, ranges_, access(slot), to);
}

// All workers have the same numbers; the servers need them once, before the first one's gradients.
void ServedSynchronizer::write(std::int32_t slot, std::span<const float> from, OldSlots old) {
  settle();
  if (!group_.is_first()) return;
  wire::Access request = access(slot);
  request.clears_slots = old == OldSlots::cleared;
  write_tables(servers_, ranges_, request, from);
}

std::size_t ServedSynchronizer::buffers() const {
  const std::size_t own = memory_ || codec_ ? 0 : subtrees_in(shards_, own_range_).size();
  return own + (residual_.empty() ? 0 : 2);
}

}  // namespace lockstep::kvstore
