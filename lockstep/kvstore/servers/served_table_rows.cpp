// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/kvstore/servers/rows_of_tables.h"
#include "lockstep/kvstore/servers/served_table.h"

namespace lockstep::kvstore {

void ServedTable::check_given_rows(const comm::MessageEvent& event,
                                   const wire::GiveRows& request) const {
  if (layout().tables.empty()) throw InvalidArgument("there are no rows of tables here");
  if (request.nodes.empty()) throw InvalidArgument("no sums of worker {}", request.step.worker);
  check_parts(event.payload, request.nodes.size() + 1);
  for (std::size_t n = 0; n < request.nodes.size(); ++n)
    rows_in(event.payload.text(n + 1), layout().tables);
}

void ServedTable::give_rows(const comm::MessageEvent& event, const wire::GiveRows& request,
                            ThreadTeam& team, Answers& answers) {
  check_epoch(request.step.epoch);
  check_given_rows(event, request);
  open(request.step, answers);
  if (rows_.is_summed) return answer_rows(event, answers);
  if (!rows_.has(request.step.worker))
    rows_.add(request.step.worker, request.nodes, made_.shards, Chunk::Order::tree, event.payload);
  rows_.waiting.push_back(without_payload(event));
  lost_.erase(request.step.worker);
  if (!rows_.is_complete(made_.shards)) return give_up_chunk(rows_, answers);
  const std::vector<comm::MessageEvent> waiting = std::exchange(rows_.waiting, {});
  try {
    align(number_);
  } catch (const Error& error) {
    for (const comm::MessageEvent& one : waiting)
      answers.fail(one, fmt::format("table '{}': {}", name_, error.what()));
    return;
  }
  add_up_rows(team);
  for (const comm::MessageEvent& one : waiting) answer_rows(one, answers);
}

// In the canonical tree's order, table by table.
void ServedTable::add_up_rows(ThreadTeam& team) {
  can_revert_ = false;
  std::vector<std::vector<RowNode>> nodes(layout().tables.size());
  for (const Chunk::Node& node : rows_.nodes()) {
    std::vector<RowSums> sums = rows_in(node.payload.text(node.part), layout().tables);
    for (std::size_t t = 0; t < sums.size(); ++t)
      nodes[t].push_back({node.shards, std::move(sums[t])});
  }
  for (std::size_t t = 0; t < nodes.size(); ++t)
    state_->tables().set_gradient(
        t, sum_row_nodes({0, made_.shards}, std::move(nodes[t]), layout().tables[t].width));
  rows_.finite = state_->tables().is_finite();
  rows_.is_summed = true;
  rows_.let_go();
  if (!rows_.finite) return;
  if (state_->driver().clips())
    rows_squares_ = state_->squares_of_tables(team);
  else
    update_rows(team);
}

void ServedTable::update_rows(ThreadTeam& team) {
  state_->update_tables(team, scale_.value_or(state_->context().gradient_scale));
  rows_.is_updated = true;
}

void ServedTable::answer_rows(const comm::MessageEvent& event, Answers& answers) const {
  wire::GivenRows given{.finite = rows_.finite};
  if (rows_.finite && state_->driver().clips())
    for (const std::vector<double>& squares : rows_squares_) given.squares.push_back({squares});
  comm::Payload payload(wire::encode(given));
  if (rows_.is_updated) {
    std::string bytes;
    for (std::size_t t = 0; t < layout().tables.size(); ++t)
      append_bytes(state_->tables().next_rows(t), bytes);
    payload.add(std::move(bytes));
  }
  answers.reply(event, std::move(payload), 0);
}

void ServedTable::finish_rows(const comm::MessageEvent& event, const wire::FinishRows& request,
                              ThreadTeam& team, Answers& answers) {
  check_open(request.step);
  if (!rows_.is_summed || !rows_.finite || !state_->driver().clips())
    throw InvalidArgument("rows of tables are not ready to be finished");
  use_scale(request.scale);
  if (!rows_.is_updated) update_rows(team);
  answer_rows(event, answers);
}

}  // namespace lockstep::kvstore
