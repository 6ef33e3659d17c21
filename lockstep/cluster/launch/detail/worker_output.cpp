// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/worker_output.h"

#include <fmt/core.h>

#include <utility>

namespace lockstep::cluster::detail {
namespace {

constexpr std::size_t kKeptLines = 5;
constexpr std::size_t kLongestLine = 1 << 16;  // what has no end gets one there

}  // namespace

WorkerOutput::WorkerOutput(Role role, int rank, const std::string& host, Print print, RankLog log)
    : print_(std::move(print)),
      log_(std::move(log)),
      is_first_(role == Role::worker && rank == 0),
      prefix_(fmt::format("[{}{}{}{}] ", role == Role::worker ? "" : "server ", rank,
                          host.empty() ? "" : " ", host)) {}

void WorkerOutput::add(int stream, std::string_view bytes) {
  if (is_first_) print_(stream, bytes);
  if (const std::string problem = log_.write(bytes); !problem.empty())
    print_(2, fmt::format("lockstep: {}\n", problem));
  std::string& unfinished = unfinished_[stream == 1 ? 0 : 1];
  unfinished += bytes;
  keep_lines(unfinished);
  if (unfinished.size() < kLongestLine) return;
  unfinished += '\n';
  keep_lines(unfinished);
}

// A line that is not whole yet goes on as the first worker's.
void WorkerOutput::set_first(bool is_first) {
  if (is_first && !is_first_)
    for (int i = 0; i < 2; ++i)
      if (!unfinished_[i].empty()) print_(i + 1, unfinished_[i]);
  is_first_ = is_first;
}

void WorkerOutput::finish() {
  for (std::string& unfinished : unfinished_) {
    if (!unfinished.empty()) unfinished += '\n';
    keep_lines(unfinished);
  }
}

void WorkerOutput::keep_lines(std::string& unfinished) {
  for (std::size_t end; (end = unfinished.find('\n')) != std::string::npos;) {
    lines_.push_back(unfinished.substr(0, end));
    unfinished.erase(0, end + 1);
    if (!is_first_) print_(2, fmt::format("{}{}\n", prefix_, lines_.back()));
    if (lines_.size() > kKeptLines) lines_.pop_front();
  }
}

std::string WorkerOutput::last_lines() const {
  std::string text;
  for (const std::string& line : lines_) text += prefix_ + line + "\n";
  return text;
}

}  // namespace lockstep::cluster::detail
