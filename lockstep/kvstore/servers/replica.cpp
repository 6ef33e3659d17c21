// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/replica.h"

namespace lockstep::kvstore {

Replica::Replica(int range, Role role, const ServedJob& job, const ServerOptions& options,
                 Answers& answers)
    : range_(range),
      role_(role),
      timeout_(job.timeout),
      answers_(answers),
      kept_(answers),
      state_(job.workers, options.most_bytes, options.threads, kept_) {}

// The backup works while the primary does.
void Replica::handle(const comm::MessageEvent& event) {
  const wire::Topic topic = wire::to_subject(event.topic).topic;
  if (link_ && !wire::only_reads(topic))
    link_->forward(wire::to_number({.topic = topic, .is_forwarded = true, .range = range_}),
                   event.payload, timeout_);
  state_.handle(event);
  send(kept_.take());
}

void Replica::send(std::vector<HeldAnswer> answers) {
  if (link_ && link_->holds_answers) return link_->hold(std::move(answers));
  for (const HeldAnswer& answer : answers) answer.go(answers_);
}

void Replica::follow(const comm::MessageEvent& event) {
  if (wire::to_subject(event.topic).topic == wire::Topic::load_image)
    state_.load(event.payload);
  else
    state_.handle(event);
  kept_.take();
}

void Replica::worker_left(std::uint32_t worker, bool was_last) {
  state_.worker_left(worker);
  if (was_last) state_.all_left();
  send_kept();
}

void Replica::worker_lost(std::uint32_t worker, bool job_survives) {
  state_.worker_lost(worker, job_survives);
  send_kept();
}

void Replica::send_kept() {
  std::vector<HeldAnswer> answers = kept_.take();
  if (role_ == Role::primary) send(std::move(answers));
}

void Replica::look_at_clock() {
  if (role_ == Role::primary)
    for (const comm::MessageEvent& event : state_.due()) handle(event);
}

void Replica::fill(int server, const comm::MessageClientOptions& options) {
  link_ = std::make_unique<BackupLink>(server, options, answers_);
  link_->forward(
      wire::to_number({.topic = wire::Topic::load_image, .is_forwarded = true, .range = range_}),
      state_.save(), timeout_);
  for (const comm::MessageEvent& event : state_.waiting())
    link_->forward(
        wire::to_number(
            {.topic = wire::to_subject(event.topic).topic, .is_forwarded = true, .range = range_}),
        event.payload, timeout_);
}

void Replica::release_link() {
  for (const HeldAnswer& answer : link_->take_held()) answer.go(answers_);
  link_.reset();
}

}  // namespace lockstep::kvstore
