// SPDX-License-Identifier: Apache-2.0
#include "bench/messages_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "bench/responder.h"
#include "lockstep/base/process.h"
#include "lockstep/comm/messages/message_client.h"

namespace lockstep::bench {
namespace {

using comm::Payload;

constexpr int kRounds = 3;
constexpr const char* kSharedMemory = "shared_memory";
constexpr std::size_t kPiece = 1 << 20;
constexpr std::size_t kShared = std::size_t{256} << 20;

// A server in a process of its own, and a client here.
class Path {
 public:
  Path(std::string name, std::size_t shared_memory)
      : name_(std::move(name)),
        server_({program_path().string(), "bench", "messages-side", "--shared-memory",
                 std::to_string(shared_memory)}),
        client_(connect(shared_memory)) {}

  const std::string& name() const { return name_; }
  comm::PendingReply request(MessageTopic topic, Payload payload) {
    return client_->request(std::move(payload), {.topic = static_cast<std::uint32_t>(topic)});
  }
  comm::Reply ask(MessageTopic topic, Payload payload) {
    return request(topic, std::move(payload)).wait();
  }

 private:
  std::unique_ptr<comm::MessageClient> connect(std::size_t shared_memory) {
    const Json ready = server_.answer();
    comm::MessageClientOptions options;
    options.server = {"127.0.0.1", ready["port"].get<std::uint16_t>()};
    options.secret = ready["secret"].get<std::string>();
    options.shared_memory = shared_memory;
    return std::make_unique<comm::MessageClient>(options);
  }

  std::string name_;
  Responder server_;
  std::unique_ptr<comm::MessageClient> client_;
};

// What is measured of one size.
class Trial {
 public:
  Trial(Path& path, std::span<const std::byte> values, std::span<std::byte> own)
      : path_(path), values_(values), own_(own) {}

  void verify() const {
    const std::string word = path_.ask(MessageTopic::check, to_push()).payload.text();
    const Payload pulled = pull();
    if (word != kRight || pulled.size() != values_.size() || !are_message_values(pulled))
      throw InternalError(fmt::format("bench messages: {} bytes over {}: they arrived otherwise",
                                      values_.size(), path_.name()));
  }
  void ask() const { path_.ask(MessageTopic::push, Payload("?")); }
  void push() const { path_.ask(MessageTopic::push, to_push()); }
  Payload pull() const { return path_.ask(MessageTopic::pull, to_pull(0, values_.size())).payload; }
  // Into memory of this side's own; pull() leaves them where they came.
  void pull_out() const { pull().copy_to(0, own_); }
  // All under way at once.
  void push_pieces() const {
    std::vector<comm::PendingReply> replies;
    for (std::size_t at = 0; at < values_.size(); at += kPiece)
      replies.push_back(
          path_.request(MessageTopic::push, Payload().add(values_.subspan(at, kPiece), nullptr)));
    for (comm::PendingReply& reply : replies) reply.wait();
  }
  void pull_pieces() const {
    std::vector<comm::PendingReply> replies;
    for (std::size_t at = 0; at < own_.size(); at += kPiece)
      replies.push_back(path_.request(MessageTopic::pull, to_pull(at, kPiece)));
    for (std::size_t i = 0; i < replies.size(); ++i)
      replies[i].wait().payload.copy_to(0, own_.subspan(i * kPiece, kPiece));
  }
  bool has_pieces() const { return values_.size() > kPiece && values_.size() % kPiece == 0; }
  void verify_pieces() const {
    std::fill(own_.begin(), own_.end(), std::byte{0});
    pull_pieces();
    if (!std::equal(own_.begin(), own_.end(), values_.begin()))
      throw InternalError(fmt::format("bench messages: {} bytes over {}: pieces arrived otherwise",
                                      values_.size(), path_.name()));
  }

 private:
  static Payload to_pull(std::size_t offset, std::size_t bytes) {
    return Payload(fmt::format("{} {}", offset, bytes));
  }
  Payload to_push() const { return Payload().add(values_, nullptr); }

  Path& path_;
  std::span<const std::byte> values_;
  std::span<std::byte> own_;
};

using Micros = std::vector<double>;
using Key = std::pair<std::string, std::string>;  // path and what

void time_calls(Micros& micros, std::size_t calls, const std::function<void()>& call) {
  for (std::size_t i = 0; i < calls / 10 + 1; ++i) call();
  for (std::size_t i = 0; i < calls; ++i) {
    const auto begin = comm::Clock::now();
    call();
    const std::chrono::duration<double, std::micro> spent = comm::Clock::now() - begin;
    micros.push_back(spent.count());
  }
}

std::size_t calls_for(std::size_t bytes, bool quick) {
  const std::size_t most = quick ? 100 : 500, least = quick ? 4 : 12;
  return std::clamp<std::size_t>((quick ? 16u : 128u) * 1024 * 1024 / bytes, least, most);
}

double quantile(Micros& micros, std::size_t percent) {
  std::sort(micros.begin(), micros.end());
  return micros[micros.size() * percent / 100];
}

// How many times the bytes cross from one process to the other.
int crossings(const std::string& what) { return what.starts_with("push_pull") ? 2 : 1; }

class MessagesBench {
 public:
  explicit MessagesBench(const MessagesBenchOptions& options) : options_(options) {
    for (const std::string& name : options.paths.empty() ? message_paths() : options.paths)
      paths_.push_back(std::make_unique<Path>(name, name == kSharedMemory ? kShared : 0));
  }

  void run() {
    if (!options_.json)
      fmt::print("{:<18} {:<13} {:>9} {:>10} {:>10} {:>7} {:>7} {:>6}   (GB/s)\n", "what", "path",
                 "bytes", "p50 us", "p99 us", "rate", "memcpy", "ratio");
    measure_round_trips();
    if (options_.kilobytes.empty())
      for (std::size_t bytes = 1 << 10; bytes <= kLongestPush; bytes *= bytes < 1 << 20 ? 4 : 2)
        measure(bytes);
    for (const int size : options_.kilobytes) measure(static_cast<std::size_t>(size) << 10);
  }

 private:
  void measure_round_trips() const {
    for (const auto& path : paths_) {
      const Trial trial(*path, {}, {});
      Micros micros;
      time_calls(micros, calls_for(1, options_.quick), [&] { trial.ask(); });
      print({path->name(), "round_trip"}, 0, micros, 0);
    }
  }

  // The paths take turns, so that what the machine does meanwhile meets them all.
  void measure(std::size_t bytes) {
    const std::span values = std::span<const std::byte>(values_).first(bytes);
    const std::span own = std::span(own_).first(bytes);
    const std::size_t calls = calls_for(bytes, options_.quick);
    std::map<Key, Micros> times;
    Micros copies;
    for (int round = 0; round < kRounds; ++round) {
      for (const auto& path : paths_)
        measure(Trial(*path, values, own), path->name(), calls, times);
      time_calls(copies, calls, [&] {
        std::memcpy(own.data(), values.data(), bytes);
        asm volatile("" : : "r"(own.data()) : "memory");  // the copy is wanted
      });
    }
    for (auto& [key, micros] : times) print(key, bytes, micros, quantile(copies, 50));
  }

  static void measure(const Trial& trial, const std::string& path, std::size_t calls,
                      std::map<Key, Micros>& times) {
    trial.verify();
    time_calls(times[{path, "push"}], calls, [&] { trial.push(); });
    time_calls(times[{path, "pull"}], calls, [&] { trial.pull_out(); });
    time_calls(times[{path, "push_pull"}], calls, [&] {
      trial.push();
      trial.pull_out();
    });
    time_calls(times[{path, "push_pull_in_place"}], calls, [&] {
      trial.push();
      trial.pull();
    });
    if (!trial.has_pieces()) return;
    trial.verify_pieces();
    time_calls(times[{path, "push_pull_pieces"}], calls, [&] {
      trial.push_pieces();
      trial.pull_pieces();
    });
  }

  void print(const Key& key, std::size_t bytes, Micros& micros, double copy) const {
    const double moved = static_cast<double>(bytes) * crossings(key.second) / 1e3;
    const double p50 = quantile(micros, 50), p99 = quantile(micros, 99);
    Json row{{"bench", "messages"}, {"what", key.second}, {"path", key.first}, {"bytes", bytes},
             {"us_p50", p50},       {"us_p99", p99},      {"verified", true}};
    std::string line = fmt::format("{:<18} {:<13} {:>9} {:>10.1f} {:>10.1f}", key.second, key.first,
                                   bytes, p50, p99);
    if (bytes > 0) {
      row["gbs"] = moved / p50;
      line += fmt::format(" {:>7.2f}", moved / p50);
    }
    if (bytes > 0 && options_.peer) {
      const double memcpy_gbs = static_cast<double>(bytes) / copy / 1e3;
      row["memcpy_gbs"] = memcpy_gbs;
      row["memcpy_ratio"] = moved / p50 / memcpy_gbs;
      line += fmt::format(" {:>7.2f} {:>6.2f}", memcpy_gbs, moved / p50 / memcpy_gbs);
    }
    fmt::print("{}\n", options_.json ? row.dump() : line);
    std::fflush(stdout);
  }

  MessagesBenchOptions options_;
  std::vector<std::unique_ptr<Path>> paths_;
  std::vector<std::byte> values_ = message_values(kLongestPush);
  std::vector<std::byte> own_ = std::vector<std::byte>(kLongestPush);
};

}  // namespace

std::vector<std::string> message_paths() { return {kSharedMemory, "tcp"}; }

void run_messages(const MessagesBenchOptions& options) { MessagesBench(options).run(); }

}  // namespace lockstep::bench
