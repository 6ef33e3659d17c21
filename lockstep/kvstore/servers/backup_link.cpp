// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/backup_link.h"

namespace lockstep::kvstore {

void HeldAnswer::go(Answers& answers) const {
  if (failure)
    answers.fail(request, *failure);
  else
    answers.reply(request, payload, priority);
}

BackupLink::BackupLink(int server, const comm::MessageClientOptions& options, Answers& answers)
    : server_(server),
      answers_(answers),
      client_(options),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

BackupLink::~BackupLink() {
  client_.abort("the link to the backup is closed");
  thread_.request_stop();
}

void BackupLink::put(Item item) {
  const std::lock_guard lock(mutex_);
  items_.push_back(std::move(item));
  changed_.notify_all();
}

void BackupLink::forward(std::uint32_t topic, const comm::Payload& payload,
                         std::chrono::milliseconds timeout) {
  comm::RequestOptions options;
  options.what = "backup";
  options.topic = topic;
  options.timeout = timeout;
  options.generation = comm::kAnyGeneration;
  try {
    put({client_.request(payload, options), {}});
  } catch (const Error&) {
    is_broken_ = true;
  }
}

void BackupLink::hold(std::vector<HeldAnswer> answers) {
  if (!answers.empty()) put({{}, std::move(answers)});
}

std::vector<HeldAnswer> BackupLink::take_held() {
  const std::lock_guard lock(mutex_);
  std::vector<HeldAnswer> held;
  for (Item& item : std::exchange(items_, {}))
    for (HeldAnswer& answer : item.answers) held.push_back(std::move(answer));
  return held;
}

void BackupLink::run(const std::stop_token& stop) {
  while (!stop.stop_requested() && !is_broken_) {
    std::optional<comm::PendingReply> reply;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return !items_.empty(); })) return;
      reply = items_.front().reply;
    }
    try {
      if (reply) reply->wait();
    } catch (const Error&) {
      is_broken_ = true;
      return;
    }
    std::vector<HeldAnswer> answers;
    {
      const std::lock_guard lock(mutex_);
      if (items_.empty()) return;
      answers = std::move(items_.front().answers);
      items_.pop_front();
    }
    for (const HeldAnswer& answer : answers) answer.go(answers_);
    if (reply) ++done_;
  }
}

}  // namespace lockstep::kvstore
