// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/pushed_table.h"

#include <algorithm>
#include <atomic>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/servers/each_piece.h"
#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/servers/rows_of_tables.h"
#include "lockstep/kvstore/servers/served_table.h"
#include "lockstep/kvstore/servers/table_numbers.h"
#include "lockstep/kvstore/tree_sum.h"

namespace lockstep::kvstore {

std::size_t PushedTable::bytes(const wire::MakeTable& request) {
  std::size_t bytes = ServedTable::bytes(request);
  for (const wire::RowsOf& its : request.tables) bytes += its.rows * sizeof(std::uint64_t);
  return bytes;
}

void AppliedTickets::add(std::int64_t ticket, std::int64_t first) {
  if (all_before_ < 0) all_before_ = first;
  some_.insert(ticket);
  while (some_.erase(all_before_) > 0) ++all_before_;
}

void AppliedTickets::save(wire::PushedImage& image) const {
  image.applied_before = all_before_;
  image.applied.assign(some_.begin(), some_.end());
}

AppliedTickets::AppliedTickets(const wire::PushedImage& image)
    : all_before_(image.applied_before), some_(image.applied.begin(), image.applied.end()) {}

PushedTable::PushedTable(const wire::MakeTable& request)
    : made_(request),
      bytes_(bytes(request)),
      epoch_(request.epoch),
      state_(std::make_unique<FlatState>(wire::layout_of(request), request.rule.make())) {
  for (const RowTable& table : layout().tables) changed_.emplace_back(table.rows);
}

bool PushedTable::is(const wire::MakeTable& request) const { return is_same(request, made_); }

void PushedTable::begin_epoch(std::uint64_t epoch) {
  wire::check_generation(epoch, epoch_);
  epoch_ = epoch;
  workers_.clear();
}

void PushedTable::check_push(const wire::PushGradient& request) const {
  if (request.epoch != epoch_)
    throw InvalidArgument("a request of another membership: its epoch is {}, the table's {}",
                          request.epoch, epoch_);
  if (request.seen > version_)
    throw InvalidArgument("worker {} has seen version {} of the weights, there are {}",
                          request.worker, request.seen, version_);
}

// Pushes are counted as steps are: what the rule makes of their number does not depend on who comes
// first.
optim::UpdateContext PushedTable::begin(const wire::PushGradient& request) {
  state_->begin(before_.value_or(request.before) + static_cast<std::int64_t>(version_),
                request.rate, 1);
  optim::UpdateContext context = state_->context();
  context.gradient_scale = request.scale * weight_of(request);
  return context;
}

// A gradient of weights that are older than usual is worth less: a worker that was stopped for long
// must not throw back what the others have learnt meanwhile, nor stay in the rule's momentum.
double PushedTable::weight_of(const wire::PushGradient& request) const {
  const std::uint64_t staleness = version_ - request.seen;
  if (staleness <= request.fresh) return 1.0;
  return static_cast<double>(1 + request.fresh) / static_cast<double>(1 + staleness);
}

// Pieces of the gradient, by any thread.
template <class Work>
void PushedTable::with_gradients(const comm::Payload& payload, ThreadTeam& team,
                                 const Work& work) const {
  each_piece(team, layout().pieces, [&](const FlatPiece& piece) {
    std::vector<float> scratch;
    work(static_cast<std::size_t>(&piece - layout().pieces.data()), piece,
         floats_at(payload, 1, piece.offset, piece.size(), scratch));
  });
}

// Rows of tables, where there are any, are a part more.
void PushedTable::check_gradient(const wire::PushGradient& request, const comm::Payload& payload,
                                 ThreadTeam& team) const {
  check_parts(payload, layout().tables.empty() ? 2 : 3);
  check_floats(payload, 1, layout().floats);
  std::atomic<bool> finite = true;
  with_gradients(payload, team, [&](std::size_t, const FlatPiece& piece, const float* gradient) {
    if (!all_finite({gradient, piece.size()})) finite = false;
  });
  if (!layout().tables.empty())
    for (const RowSums& sums : rows_in(payload.text(2), layout().tables))
      if (!all_finite(sums.rows)) finite = false;
  if (!finite)
    throw InvalidArgument("the gradient of ticket {} of worker {} is not finite", request.ticket,
                          request.worker);
}

void PushedTable::push(const comm::MessageEvent& event, const wire::PushGradient& request,
                       ThreadTeam& team, Answers& answers) {
  check_push(request);
  const bool measures = state_->driver().measures(), is_applied = applied_.has(request.ticket);
  if (is_applied && !measures) return answer(event, request, answers);
  check_gradient(request, event.payload, team);
  if (!measures) {
    apply(request, event.payload, {}, team);
    return answer(event, request, answers);
  }
  if (!is_applied) keep(request, event.payload);
  const optim::UpdateContext context = begin(request);
  wire::PushedGradient pushed{.version = version_};
  pushed.norms.resize(layout().pieces.size());
  with_gradients(event.payload, team,
                 [&](std::size_t number, const FlatPiece&, const float* gradient) {
                   const auto norms = state_->driver().measure(context, number, gradient);
                   pushed.norms[number] = {norms.weight, norms.direction};
                 });
  answers.reply(event, comm::Payload(wire::encode(pushed)), 0);
}

void PushedTable::keep(const wire::PushGradient& request, const comm::Payload& gradient) {
  Worker& worker = workers_[request.worker];
  worker.kept = gradient;
  worker.kept_ticket = request.ticket;
}

// Others may have pushed since it was measured: what measuring leaves in the slots is made anew.
void PushedTable::apply(const wire::PushGradient& request, const comm::Payload& gradient,
                        std::span<const optim::PieceNorms> totals, ThreadTeam& team) {
  const optim::UpdateContext context = begin(request);
  const optim::RuleDriver& driver = state_->driver();
  with_gradients(gradient, team, [&](std::size_t number, const FlatPiece&, const float* values) {
    if (!totals.empty()) driver.measure(context, number, values);
    driver.finish(context, totals, number, values);
  });
  if (!layout().tables.empty()) apply_rows(gradient, context.gradient_scale, team);
  state_->commit();
  if (!before_) before_ = request.before;
  applied_.add(request.ticket, *before_);
  workers_[request.worker].staleness = version_ - request.seen;
  ++version_;
}

// A rule's norms of a table are those of its rows of the ticket, all of which are here.
void PushedTable::apply_rows(const comm::Payload& gradient, double scale, ThreadTeam& team) {
  std::vector<RowSums> sums = rows_in(gradient.text(2), layout().tables);
  for (std::size_t t = 0; t < sums.size(); ++t) {
    for (const std::int64_t id : sums[t].ids)
      changed_[t][static_cast<std::size_t>(id)] = version_ + 1;
    state_->tables().set_gradient(t, std::move(sums[t]));
  }
  state_->update_tables(team, scale);
}

void PushedTable::finish(const comm::MessageEvent& event, const wire::FinishGradient& request,
                         ThreadTeam& team, Answers& answers) {
  check_push(request.push);
  Worker& worker = workers_[request.push.worker];
  if (applied_.has(request.push.ticket)) return answer(event, request.push, answers);
  if (worker.kept_ticket != request.push.ticket)
    throw InvalidArgument("ticket {} of worker {} has no gradient here", request.push.ticket,
                          request.push.worker);
  if (request.totals.size() != layout().parameters.size())
    throw InvalidArgument("norms of {} parameters, the table has {} here", request.totals.size(),
                          layout().parameters.size());
  std::vector<optim::PieceNorms> totals;
  for (const wire::Norms& norms : request.totals) totals.push_back({norms.weight, norms.direction});
  apply(request.push, worker.kept, totals, team);
  worker.kept = {};
  worker.kept_ticket = -1;
  answer(event, request.push, answers);
}

// What the worker has not seen yet.
RowSums PushedTable::rows_since(std::uint64_t version, std::size_t table) const {
  const std::size_t width = layout().tables[table].width;
  const std::span<const float> weights = state_->tables().weights(table);
  RowSums rows;
  for (std::size_t id = 0; id < changed_[table].size(); ++id) {
    if (changed_[table][id] <= version) continue;
    rows.ids.push_back(static_cast<std::int64_t>(id));
    const auto row = weights.subspan(id * width, width);
    rows.rows.insert(rows.rows.end(), row.begin(), row.end());
  }
  return rows;
}

// A copy: the next push may be applied before it is sent.
void PushedTable::answer(const comm::MessageEvent& event, const wire::PushGradient& request,
                         Answers& answers) {
  const wire::PushedGradient pushed{.version = version_,
                                    .staleness = workers_[request.worker].staleness};
  comm::Payload payload(wire::encode(pushed));
  add_copy_for(event, answers, payload, state_->weights());
  std::string rows;
  for (std::size_t t = 0; t < layout().tables.size(); ++t)
    append_bytes(rows_since(request.seen, t), rows);
  if (!layout().tables.empty()) payload.add(std::move(rows));
  answers.reply(event, std::move(payload), 0);
}

void PushedTable::worker_left(std::uint32_t worker) {
  const auto place = workers_.find(worker);
  if (place == workers_.end()) return;
  place->second.kept = {};
  place->second.kept_ticket = -1;
}

std::span<float> PushedTable::numbers(const wire::Access& request) const {
  if (request.epoch != epoch_)
    throw InvalidArgument("a request of another membership: its epoch is {}, the table's {}",
                          request.epoch, epoch_);
  return numbers_of(*state_, request);
}

// Answered by PushedGradient, which tells the version, and the floats.
void PushedTable::read(const comm::MessageEvent& event, const wire::Access& request,
                       Answers& answers) {
  comm::Payload payload(wire::encode(wire::PushedGradient{.version = version_}));
  add_copy_for(event, answers, payload, numbers(request));
  answers.reply(event, std::move(payload), 0);
}

void PushedTable::write(const comm::MessageEvent& event, const wire::Access& request,
                        Answers& answers) {
  const std::span<float> to = numbers(request);
  check_parts(event.payload, 2);
  check_floats(event.payload, 1, to.size());
  copy_floats(event.payload, 1, to);
  for (std::size_t k = 0; request.clears_slots && k < state_->slots(); ++k) clear_slot(*state_, k);
  answers.reply(event, {}, 0);
}

std::vector<std::span<float>> PushedTable::all_numbers() const {
  std::vector<std::span<float>> all{state_->weights()};
  for (std::size_t k = 0; layout().floats > 0 && k < state_->slots(); ++k)
    all.push_back(state_->slot(k));
  for (std::size_t t = 0; t < layout().tables.size(); ++t) {
    all.push_back(state_->tables().weights(t));
    for (std::size_t k = 0; k < state_->slots(); ++k) all.push_back(state_->tables().slot(k, t));
  }
  return all;
}

wire::PushedImage PushedTable::save(comm::Payload& floats) const {
  wire::PushedImage image{.made = made_, .epoch = epoch_, .version = version_};
  if (before_) image.before.push_back(*before_);
  applied_.save(image);
  for (const auto& [worker, one] : workers_) image.workers.push_back({worker, one.staleness});
  for (const std::vector<std::uint64_t>& versions : changed_) image.changed.push_back({versions});
  for (const std::span<float> numbers : all_numbers()) add_copy(floats, numbers);
  return image;
}

PushedTable::PushedTable(const wire::PushedImage& image, FloatParts& floats)
    : PushedTable(image.made) {
  epoch_ = image.epoch;
  version_ = image.version;
  if (!image.before.empty()) before_ = image.before[0];
  applied_ = AppliedTickets(image);
  for (const wire::PusherImage& one : image.workers) workers_[one.worker].staleness = one.staleness;
  for (std::size_t t = 0; t < changed_.size(); ++t) {
    if (t >= image.changed.size() || image.changed[t].numbers.size() != changed_[t].size())
      throw Corrupt("table '{}': the image of another one", made_.table);
    changed_[t] = image.changed[t].numbers;
  }
  for (const std::span<float> numbers : all_numbers()) floats.take(numbers);
}

// Gradients that are kept until they are finished.
void PushedTable::add_waiting(std::vector<comm::MessageEvent>& events) const {
  for (const auto& [worker, one] : workers_) {
    if (one.kept_ticket < 0) continue;
    comm::MessageEvent& event = events.emplace_back();
    event.topic = static_cast<std::uint32_t>(wire::Topic::push_gradient);
    event.payload = one.kept;
  }
}

}  // namespace lockstep::kvstore
