// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/client_shared.h"

#include <algorithm>

namespace lockstep::comm::detail {

void ClientShared::await(std::unique_lock<std::mutex>& lock, Deadline until,
                         const std::function<bool()>& is_done) {
  ++waiting;
  while (!is_done() && Clock::now() < until)
    if (can_move())
      mover->move_until(lock, until, is_done);
    else
      changed.wait_until(lock, until, [&] { return is_done() || can_move(); });
  --waiting;
}

std::exception_ptr ClientShared::timeout_of(const PendingRequest& one) const {
  const std::chrono::duration<double> waited = Clock::now() - one.begin;
  std::string text =
      fmt::format("{}: {} did not answer within {:.1f} s", one.options.what, at, waited.count());
  if (!is_connected) text += "; no connection: " + trouble;
  return std::make_exception_ptr(Timeout(text, -1, host, one.options.what));
}

std::exception_ptr ClientShared::lost_error(const std::string& what) const {
  return std::make_exception_ptr(
      PeerLost(fmt::format("{}: {} was lost: {}", what, at, trouble), -1, host, what));
}

std::exception_ptr ClientShared::aborted_error(const std::string& what) const {
  return std::make_exception_ptr(
      Aborted(fmt::format("{}: {}: aborted: {}", what, at, *aborted), -1, host, what));
}

}  // namespace lockstep::comm::detail
