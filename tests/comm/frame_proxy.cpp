// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/frame_proxy.h"

#include <algorithm>

#include "lockstep/comm/errors.h"

namespace lockstep::testing {

using namespace std::chrono_literals;
using comm::Clock, comm::Deadline;
using comm::detail::Frame, comm::detail::FrameHeader, comm::detail::WireEvent;

FrameProxy::FrameProxy(std::shared_ptr<comm::MessageHub> hub, const std::string& secret,
                       const comm::Endpoint& server, const Disturbance& disturbance,
                       std::uint64_t seed)
    : disturbance_(disturbance), random_(seed) {
  to_server_.hub = hub;
  to_server_.secret = secret;
  to_server_.server = server;
  comm::MessageServerOptions listens;
  listens.hub = hub;
  listens.secret = secret;
  listening_ = comm::detail::listen_in_memory(listens, waker_);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

FrameProxy::~FrameProxy() {
  thread_.request_stop();
  waker_.wake();
}

void FrameProxy::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    bool has_more = take_from_clients();
    for (auto& [number, link] : links_) has_more = take_from_server(link) || has_more;
    send_all_due(Clock::now());
    for (const auto& [number, link] : links_)
      if (link.is_over) listening_->close(number);
    std::erase_if(links_, [](const auto& one) { return one.second.is_over; });
    listening_->sleep(Clock::now() + (has_more ? 0ms : 1ms), true, false);
  }
}

// True when there may be more.
bool FrameProxy::take_from_clients() {
  const std::optional<WireEvent> event = listening_->next(true);
  if (!event) return false;
  if (event->kind == WireEvent::Kind::opened) open(*event);
  const auto found = links_.find(event->link);
  if (found == links_.end()) return true;
  Link& link = found->second;
  if (event->kind == WireEvent::Kind::frame) take(link, link.up, event->frame);
  if (event->kind == WireEvent::Kind::left) {
    send_due(link.up, Deadline::max(),
             [&](const Frame& frame) { return link.to_server->send(0, frame); });
    link.to_server->say_goodbye();
  }
  link.is_over |= event->kind == WireEvent::Kind::left || event->kind == WireEvent::Kind::lost;
  return true;
}

void FrameProxy::open(const WireEvent& event) {
  comm::MessageClientOptions options = to_server_;
  options.name = event.peer.name;
  options.reconnects = event.reconnects;
  Link& link = links_[event.link];
  try {
    link.to_server = comm::detail::connect_in_memory(options, event.peer.id, waker_, Clock::now());
  } catch (const comm::CommError&) {
    link.is_over = true;
  }
}

bool FrameProxy::take_from_server(Link& link) {
  if (link.is_over) return false;
  const std::optional<WireEvent> event = link.to_server->next(true);
  if (!event) return false;
  if (event->kind == WireEvent::Kind::frame)
    take(link, link.down, event->frame);
  else
    link.is_over = true;
  return true;
}

// Whole messages are passed on.
void FrameProxy::take(Link& link, Lane& lane, Frame frame) {
  const FrameHeader header = frame.header;
  if (header.kind == FrameHeader::Kind::cancel) lane.coming.erase(header.message);
  if (header.parts == 0) return pass(link, lane, {std::move(frame)});
  Lane::Coming& coming = lane.coming[header.message];
  coming.parts += header.begins_part ? 1 : 0;
  coming.frames.push_back(std::move(frame));
  if (coming.parts < header.parts || header.left_in_part > 0) return;
  Frames whole = std::move(coming.frames);
  lane.coming.erase(header.message);
  pass(link, lane, std::move(whole));
}

std::chrono::microseconds FrameProxy::some_time() {
  return std::chrono::microseconds(random_() %
                                   static_cast<std::uint64_t>(disturbance_.longest_delay.count()));
}

void FrameProxy::pass(Link& link, Lane& lane, Frames message) {
  ++counts_.passed;
  if (happens(disturbance_.dropped)) {
    ++counts_.dropped;
    link.is_over = true;
    return;
  }
  Deadline due = std::max(Clock::now(), lane.last);
  if (happens(disturbance_.reordered)) {
    ++counts_.reordered;  // those that come after it pass it
    due += some_time();
  } else {
    if (happens(disturbance_.delayed)) {
      ++counts_.delayed;
      due += some_time();
    }
    lane.last = due;
  }
  if (happens(disturbance_.repeated)) {
    ++counts_.repeated;
    lane.waiting.emplace(due + some_time(), message);
  }
  lane.waiting.emplace(due, std::move(message));
}

template <class Send>
void FrameProxy::send_due(Lane& lane, Deadline now, const Send& send) {
  for (;;) {
    if (lane.sending.empty()) {
      if (lane.waiting.empty() || lane.waiting.begin()->first > now) return;
      lane.sending = std::move(lane.waiting.begin()->second);
      std::reverse(lane.sending.begin(), lane.sending.end());
      lane.waiting.erase(lane.waiting.begin());
    }
    if (!send(lane.sending.back())) return;
    lane.sending.pop_back();
  }
}

void FrameProxy::send_all_due(Deadline now) {
  for (auto& [number, link] : links_) {
    if (link.is_over) continue;
    send_due(link.up, now, [&](const Frame& frame) { return link.to_server->send(0, frame); });
    send_due(link.down, now,
             [&, to = number](const Frame& frame) { return listening_->send(to, frame); });
  }
}

}  // namespace lockstep::testing
