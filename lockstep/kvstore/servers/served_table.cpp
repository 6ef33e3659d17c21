// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/served_table.h"

#include <algorithm>
#include <atomic>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/servers/each_piece.h"
#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/servers/table_numbers.h"
#include "lockstep/kvstore/tree_sum.h"

namespace lockstep::kvstore {
namespace {

constexpr std::int64_t kMostShards = 1 << 20;

}  // namespace

std::size_t ServedTable::bytes(const wire::MakeTable& request) {
  double floats = 0.0;  // cannot overflow
  for (const wire::Parameter& parameter : request.parameters)
    floats += static_cast<double>(parameter.count) + 16.0;
  const int slots = request.rule.make()->slots();
  double all = floats * sizeof(float) * (3.0 + 2.0 * slots);
  for (const wire::RowsOf& its : request.tables)
    all += static_cast<double>(its.rows) * static_cast<double>(its.width) * sizeof(float) *
           (1.0 + slots);
  return all < 1e18 ? static_cast<std::size_t>(all) : std::size_t{1} << 60;
}

ServedTable::ServedTable(const wire::MakeTable& request)
    : name_(request.table),
      made_(request),
      state_(std::make_shared<FlatState>(wire::layout_of(request), request.rule.make())),
      codec_(make_codec(parse_compression(request.compression))),
      squares_(layout().pieces.size()),
      norms_(layout().pieces.size()),
      epoch_(request.epoch) {
  if (request.shards < 1 || request.shards > kMostShards)
    throw InvalidArgument("{} shards, expected 1 to {}", request.shards, kMostShards);
  if (!state_->is_local() || codec_) sums_.emplace(layout().floats);
}

bool ServedTable::is(const wire::MakeTable& request) const { return is_same(request, made_); }

void ServedTable::begin_epoch(const wire::MakeTable& request, Answers& answers) {
  if (request.epoch == epoch_) return;
  check_generation(request);
  if (request.shards < 1 || request.shards > kMostShards)
    throw InvalidArgument("{} shards, expected 1 to {}", request.shards, kMostShards);
  is_undecided_ = is_open_ && is_whole();
  if (!is_undecided_) {
    drop(answers);
    round_ = 0;
  }
  made_ = request;
  epoch_ = request.epoch;
  is_aligned_ = false;
  lost_.clear();
}

void ServedTable::check_generation(const wire::MakeTable& request) const {
  wire::check_generation(request.epoch, epoch_);
}

void ServedTable::check_epoch(std::uint64_t epoch) const {
  if (epoch != epoch_)
    throw InvalidArgument("a request of another membership: its epoch is {}, the table's {}", epoch,
                          epoch_);
}

// The first request of a round says how the one before ended.
void ServedTable::open(const wire::Step& step, Answers& answers) {
  check_epoch(step.epoch);
  decide(step.number, answers);
  if (is_open_ && step.round == round_) return;
  if (step.round <= round_)
    throw InvalidArgument("round {} of step {} is over", step.round, step.number);
  end_round(step.committed, answers);
  round_ = step.round;
  number_ = step.number;
  rate_ = step.rate;
  is_open_ = true;
  is_measured_ = false;
  scale_.reset();
  updated_ = 0;
  state_->begin(step.number, step.rate, made_.shards);
}

void ServedTable::end_round(std::uint64_t committed, Answers& answers) {
  if (!is_open_) return;
  const bool counts = committed == round_;
  if (counts && updated_ != layout().pieces.size())
    throw InvalidArgument("step {} was committed, and {} of {} pieces are updated", number_,
                          updated_, layout().pieces.size());
  if (counts && !layout().tables.empty() && !rows_.is_updated)
    throw InvalidArgument("step {} was committed, and the rows of tables are not updated", number_);
  const auto fail = [&](const Chunk& chunk) {
    for (const comm::MessageEvent& event : chunk.waiting)
      answers.fail(event, fmt::format("table '{}': step {} was dropped", name_, number_));
  };
  for (const auto& [offset, chunk] : chunks_) fail(chunk);
  fail(rows_);
  chunks_.clear();
  rows_ = Chunk();
  is_open_ = is_undecided_ = false;
  if (!counts) return;
  state_->commit();
  steps_ = number_ + 1;
  can_revert_ = true;
}

void ServedTable::drop(Answers& answers) { end_round(0, answers); }

bool ServedTable::is_whole() const {
  return updated_ == layout().pieces.size() && (layout().tables.empty() || rows_.is_updated);
}

// A round counts that was the last one of workers who have done so many steps.
void ServedTable::decide(std::int64_t steps, Answers& answers) {
  if (!is_undecided_) return;
  end_round(number_ + 1 == steps ? round_ : 0, answers);
  round_ = 0;
}

// Workers that lost one of theirs may have missed that a step was committed, and do it again.
void ServedTable::align(std::int64_t steps) {
  if (is_aligned_) return;
  if (steps_ && *steps_ == steps + 1 && can_revert_) {
    state_->revert();
    steps_ = steps;
    can_revert_ = false;
  }
  if (steps_ && *steps_ != steps)
    throw InvalidArgument("the table has seen {} steps, and the workers {}", *steps_, steps);
  is_aligned_ = true;
}

void ServedTable::align(const comm::MessageEvent& event, const wire::AlignTable& request,
                        Answers& answers) {
  check_epoch(request.epoch);
  if (!has_weights_)
    throw InvalidArgument("table '{}' has no weights, and the workers have done {} steps", name_,
                          request.steps);
  decide(request.steps, answers);
  align(request.steps);
  answers.reply(event, {}, 0);
}

void ServedTable::check_open(const wire::Step& step) const {
  check_epoch(step.epoch);
  if (!is_open_ || is_undecided_ || step.round != round_)
    throw InvalidArgument("round {} of step {} is not open", step.round, step.number);
}

// Whole pieces, or nothing.
std::span<const FlatPiece> ServedTable::pieces_of(std::size_t offset, std::size_t count) const {
  const auto fits = [&](std::span<const FlatPiece> pieces) {
    return !pieces.empty() && pieces.front().offset == offset &&
           pieces.back().offset + pieces.back().size() == offset + count;
  };
  if (count > layout().floats || offset > layout().floats - count)
    throw InvalidArgument("floats {} to {}, the table has {} here", offset, offset + count,
                          layout().floats);
  const auto pieces = layout().pieces_in(offset, count);
  if (!fits(pieces))
    throw InvalidArgument("floats {} to {} are no whole pieces", offset, offset + count);
  return pieces;
}

// The chunk, or where it belongs.
ServedTable::Chunks::iterator ServedTable::find_chunk(const wire::Give& request) {
  const auto pieces = pieces_of(request.offset, request.count);
  const auto next = chunks_.lower_bound(request.offset);
  if (next != chunks_.end() && next->first == request.offset &&
      next->second.count() == request.count)
    return next;
  const bool meets_next = next != chunks_.end() && next->first < request.offset + request.count;
  const bool meets_last = next != chunks_.begin() &&
                          std::prev(next)->first + std::prev(next)->second.count() > request.offset;
  if (meets_next || meets_last)
    throw InvalidArgument("worker {} gives floats {} to {}, others have cut them otherwise",
                          request.step.worker, request.offset, request.offset + request.count);
  const auto place = chunks_.emplace_hint(next, request.offset, Chunk(request.count));
  place->second.pieces = pieces.size();
  return place;
}

void ServedTable::check_given(const comm::MessageEvent& event, const wire::Give& request) const {
  if (request.nodes.empty() || (codec_ && request.nodes.size() != 1))
    throw InvalidArgument("{} sums of worker {}", request.nodes.size(), request.step.worker);
  check_parts(event.payload, request.nodes.size() + 1);
  pieces_of(request.offset, request.count);
  if (codec_) {
    const std::size_t expected = codec_->payload_bytes(request.count);
    if (event.payload.size(1) != expected)
      throw Corrupt("message: {} bytes of code, expected {}", event.payload.size(1), expected);
    return;
  }
  for (std::size_t n = 0; n < request.nodes.size(); ++n)
    check_floats(event.payload, n + 1, request.count);
}

void ServedTable::give(const comm::MessageEvent& event, const wire::Give& request, ThreadTeam& team,
                       Answers& answers) {
  check_epoch(request.step.epoch);
  check_given(event, request);
  open(request.step, answers);
  auto& [offset, chunk] = *find_chunk(request);
  if (chunk.is_summed) return answer(offset, chunk, event, answers);
  if (!chunk.has(request.step.worker))
    chunk.add(request.step.worker, request.nodes, made_.shards,
              codec_ ? Chunk::Order::any : Chunk::Order::tree, event.payload);
  chunk.waiting.push_back(without_payload(event));
  lost_.erase(request.step.worker);
  if (!chunk.is_complete(made_.shards)) return give_up_chunk(chunk, answers);
  complete(offset, chunk, team, answers);
}

void ServedTable::lose(std::uint32_t worker, Answers& answers) {
  lost_.insert(worker);
  for (auto& [offset, chunk] : chunks_)
    if (!chunk.is_summed) give_up_chunk(chunk, answers);
  if (!rows_.is_summed) give_up_chunk(rows_, answers);
}

// Where somebody is lost who has not given it.
void ServedTable::give_up_chunk(Chunk& chunk, Answers& answers) const {
  for (const std::uint32_t worker : lost_) {
    if (chunk.has(worker)) continue;
    for (const comm::MessageEvent& event : std::exchange(chunk.waiting, {}))
      answers.fail(
          event, fmt::format("table '{}': worker {} was lost in step {}", name_, worker, number_));
  }
}

// Now that all workers are here, what one of them has written is here, too.
void ServedTable::complete(std::size_t offset, Chunk& chunk, ThreadTeam& team, Answers& answers) {
  const std::vector<comm::MessageEvent> waiting = std::exchange(chunk.waiting, {});
  try {
    align(number_);
  } catch (const Error& error) {
    for (const comm::MessageEvent& event : waiting)
      answers.fail(event, fmt::format("table '{}': {}", name_, error.what()));
    return;
  }
  add_up(offset, chunk, team);
  for (const comm::MessageEvent& event : waiting) answer(offset, chunk, event, answers);
}

// Sums, and what can be done with them before other sums are known.
void ServedTable::add_up(std::size_t offset, Chunk& chunk, ThreadTeam& team) {
  if (codec_) decode(offset, chunk);
  const optim::RuleDriver& driver = state_->driver();
  const std::span<const FlatPiece> pieces = layout().pieces_in(offset, chunk.count());
  std::atomic<bool> finite = true;
  std::atomic<std::size_t> next = 0;
  can_revert_ = false;
  team.run([&](int) {
    std::vector<float> own(sums_ ? 0 : optim::kPieceElements);
    std::optional<ChunkSum> sum;
    if (!codec_) sum.emplace(chunk, made_.shards);
    for (std::size_t i = next++; i < pieces.size(); i = next++) {
      const FlatPiece& piece = pieces[i];
      float* gradient = sums_ ? sums_->data() + piece.offset : own.data();
      if (sum) sum->run(piece.offset - offset, {gradient, piece.size()});
      if (!all_finite({gradient, piece.size()})) finite = false;
      if (!finite) continue;
      const auto number = static_cast<std::size_t>(&piece - layout().pieces.data());
      if (driver.is_local())
        state_->update(piece.offset, piece.size(), gradient);
      else if (driver.clips())
        squares_[number] = driver.squares(number, gradient);
      else
        norms_[number] = driver.measure(state_->context(), number, gradient);
    }
  });
  chunk.finite = finite;
  chunk.is_summed = true;
  chunk.let_go();
  if (!driver.is_local() || !chunk.finite) return;
  chunk.is_updated = true;
  updated_ += chunk.pieces;
}

// What the workers' codes say, in the order of their shards.
void ServedTable::decode(std::size_t offset, const Chunk& chunk) {
  const std::span<float> sum(sums_->data() + offset, chunk.count());
  std::fill(sum.begin(), sum.end(), 0.0F);
  std::vector<std::byte> code(codec_->payload_bytes(sum.size()));
  for (const Chunk::Node& node : chunk.nodes()) {
    node.payload.copy_to(node.part, code);
    codec_->decode_add(code, sum);
  }
  const std::vector<std::size_t>& unused = layout().unused;
  for (auto place = std::lower_bound(unused.begin(), unused.end(), offset);
       place != unused.end() && *place < offset + sum.size(); ++place)
    sum[*place - offset] = 0.0F;
}

wire::Given ServedTable::outcome(std::size_t offset, const Chunk& chunk) const {
  wire::Given given{.finite = chunk.finite};
  const optim::RuleDriver& driver = state_->driver();
  if (!chunk.finite || driver.is_local()) return given;
  for (const FlatPiece& piece : layout().pieces_in(offset, chunk.count())) {
    const auto number = static_cast<std::size_t>(&piece - layout().pieces.data());
    if (driver.clips())
      given.squares.push_back(squares_[number]);
    else
      given.norms.push_back({norms_[number].weight, norms_[number].direction});
  }
  return given;
}

void ServedTable::answer(std::size_t offset, const Chunk& chunk, const comm::MessageEvent& event,
                         Answers& answers) const {
  comm::Payload payload(wire::encode(outcome(offset, chunk)));
  if (chunk.is_updated && state_->is_local()) add_weights(offset, chunk.count(), payload);
  answers.reply(event, std::move(payload), static_cast<int>(offset / optim::kPieceElements));
}

void ServedTable::add_weights(std::size_t offset, std::size_t count, comm::Payload& payload) const {
  add_floats(payload, state_->next_weights().subspan(offset, count), state_);
}

// All workers compute it of the same numbers.
void ServedTable::use_scale(double scale) {
  if (scale_ && *scale_ != scale)
    throw InvalidArgument("workers scale the gradients of step {} by {} and {}", number_, *scale_,
                          scale);
  scale_ = scale;
}

void ServedTable::measure(const comm::MessageEvent& event, const wire::Measure& request,
                          ThreadTeam& team, Answers& answers) {
  check_open(request.step);
  const optim::RuleDriver& driver = state_->driver();
  if (!driver.measures() || !driver.clips())
    throw InvalidArgument("a rule that does not measure in a phase of its own");
  std::size_t summed = 0;
  for (const auto& [offset, chunk] : chunks_)
    summed += chunk.is_summed && chunk.finite ? chunk.pieces : 0;
  if (summed != layout().pieces.size())
    throw InvalidArgument("{} of {} pieces have finite sums", summed, layout().pieces.size());
  use_scale(request.scale);
  if (!is_measured_) {
    optim::UpdateContext context = state_->context();
    context.gradient_scale = request.scale;
    each_piece(team, layout().pieces, [&](const FlatPiece& piece) {
      const auto number = static_cast<std::size_t>(&piece - layout().pieces.data());
      norms_[number] = driver.measure(context, number, sums_->data() + piece.offset);
    });
    is_measured_ = true;
  }
  wire::Measured measured;
  for (const optim::PieceNorms& norms : norms_)
    measured.norms.push_back({norms.weight, norms.direction});
  answers.reply(event, comm::Payload(wire::encode(measured)), 0);
}

void ServedTable::finish(const comm::MessageEvent& event, const wire::Finish& request,
                         ThreadTeam& team, Answers& answers) {
  check_open(request.step);
  const optim::RuleDriver& driver = state_->driver();
  const auto place = chunks_.find(request.offset);
  if (place == chunks_.end() || place->second.count() != request.count ||
      !place->second.is_summed || !place->second.finite || driver.is_local())
    throw InvalidArgument("floats {} to {} are not ready to be finished", request.offset,
                          request.offset + request.count);
  if (driver.measures() && driver.clips() && !is_measured_)
    throw InvalidArgument("step {} is not measured", number_);
  if (request.totals.size() != (driver.measures() ? layout().parameters.size() : 0))
    throw InvalidArgument("norms of {} parameters, the table has {} here", request.totals.size(),
                          layout().parameters.size());
  use_scale(request.scale);
  Chunk& chunk = place->second;
  if (!chunk.is_updated) {
    std::vector<optim::PieceNorms> totals;
    for (const wire::Norms& norms : request.totals)
      totals.push_back({norms.weight, norms.direction});
    optim::UpdateContext context = state_->context();
    context.gradient_scale = request.scale;
    each_piece(
        team, layout().pieces_in(request.offset, request.count), [&](const FlatPiece& piece) {
          driver.finish(context, totals, static_cast<std::size_t>(&piece - layout().pieces.data()),
                        sums_->data() + piece.offset);
        });
    chunk.is_updated = true;
    updated_ += chunk.pieces;
  }
  comm::Payload payload(std::string_view{});
  add_weights(request.offset, request.count, payload);
  answers.reply(event, std::move(payload), 0);
}

void ServedTable::settle(const comm::MessageEvent& event, const wire::Settle& request,
                         Answers& answers) {
  check_epoch(request.step.epoch);
  decide(request.step.number, answers);
  if (is_open_ && round_ <= request.step.round) end_round(request.step.committed, answers);
  round_ = std::max(round_, request.step.round);
  answers.reply(event, {}, 0);
}

std::span<float> ServedTable::numbers(const wire::Access& request) const {
  check_epoch(request.epoch);
  return numbers_of(*state_, request);
}

void ServedTable::read(const comm::MessageEvent& event, const wire::Access& request,
                       Answers& answers) {
  comm::Payload payload(std::string_view{});
  add_floats(payload, numbers(request), state_);
  answers.reply(event, std::move(payload), 0);
}

void ServedTable::write(const comm::MessageEvent& event, const wire::Access& request,
                        Answers& answers) {
  const std::span<float> to = numbers(request);
  decide(-1, answers);
  const bool has_sums = std::any_of(chunks_.begin(), chunks_.end(),
                                    [](const auto& one) { return one.second.is_summed; });
  if (has_sums || rows_.is_summed) throw InvalidArgument("step {} is under way", number_);
  copy_floats(event.payload, 1, to);
  for (std::size_t k = 0; request.clears_slots && k < state_->slots(); ++k) clear_slot(*state_, k);
  steps_.reset();
  can_revert_ = false;
  has_weights_ = has_weights_ || request.slot < 0;
  answers.reply(event, {}, 0);
}

}  // namespace lockstep::kvstore
