// SPDX-License-Identifier: Apache-2.0
// A worker that asks its servers for what they cannot give, says what it is told, and finds after
// each of these that they serve on. The other workers and the servers do nothing wrong.
#include <fmt/core.h>
#include <sys/socket.h>

#include "lockstep/kvstore/kvstore.h"
#include "lockstep/kvstore/servers/connections.h"
#include "lockstep/kvstore/servers/key_messages.h"
#include "lockstep/train/join_job.h"

using namespace lockstep;
using namespace lockstep::kvstore;
using wire::Topic;

namespace {

constexpr std::uint64_t kStore = 12345;
constexpr auto kTimeout = std::chrono::seconds(30), kShort = std::chrono::seconds(1);
constexpr std::int64_t kLarge = 1001;  // squared: more than one server has it

// Bytes that may be any message, or none.
struct Bytes {
  std::string bytes = {};
  void visit(auto&& fields) {
    for (char& byte : bytes) fields(byte);
  }
};

wire::Clock clock_of(const std::string& key, std::uint64_t count = 0) {
  return {kStore, key, 0, count, wire::kNoBound};
}

comm::Payload floats_of(std::size_t count, float value) {
  const auto floats = std::make_shared<std::vector<float>>(count, value);
  return comm::Payload().add(std::as_bytes(std::span(*floats)), floats);
}

class BadWorker {
 public:
  BadWorker(const ServedJob& job, KVStore& store) : job_(job), store_(store), servers_(job, 0) {
    for (int server = 0; server < job.servers; ++server) {
      ask(server, Topic::join_store, wire::JoinStore{kStore, 0});
      ask(server, Topic::init_key, wire::InitKey{kStore, "k", 2, 3}, floats_of(6, 1));
    }
  }

  void ask_badly() {
    call_badly();
    for (int server = 0; server < job_.servers; ++server) send_wrong_values(server);
    send_broken_messages();
    connect_badly();
    as_stranger("noise", std::string(100'000, '\x7f'));
    as_stranger("http", "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    as_stranger("nothing", "");
  }

 private:
  template <class Message>
  void ask(int server, Topic topic, const Message& message, const comm::Payload& floats = {}) {
    servers_.ask(server, topic, message, "request of key k", floats);
  }

  // All servers have a part of this value: all must be there.
  void check_alive() {
    const double next = ++pushes_;
    const Tensor value = store_.pushpull("large", Tensor::full({kLarge, kLarge}, next));
    for (const float one : value.to_vector<float>())
      if (one != static_cast<float>(next)) throw InternalError("a good push was not applied");
  }

  template <class Call>
  void refused(const std::string& what, const Call& call) {
    std::string told = "it was not refused";
    try {
      call();
    } catch (const Error& error) {
      told = error.what();
    }
    fmt::print("{}: {}\n", what, told);
    check_alive();
  }

  // Through the interface that every program has.
  void call_badly() {
    const Tensor other = Tensor::zeros({3});
    refused("pull of an unknown key", [&] { store_.pull("nobody's"); });
    refused("push of an unknown key", [&] { store_.push("nobody's", other); });
    refused("push of another shape", [&] { store_.push("large", other); });
    refused("push of another type", [&] {
      store_.push("large", Tensor::zeros({kLarge, kLarge}, DType::int64));
    });
    refused("push of a row that is not there", [&] {
      store_.row_sparse_push("large", {{kLarge}, Tensor::zeros({1, kLarge})});
    });
    refused("pull of a row that is not there", [&] { store_.row_sparse_pull("large", {-1}); });
  }

  // Past it: what a server itself must notice.
  void send_wrong_values(int server) {
    const auto bad = [&](const std::string& what, Topic topic, const auto& message,
                         const comm::Payload& floats = {}) {
      refused(fmt::format("{} {}", what, server), [&] { ask(server, topic, message, floats); });
    };
    bad("unknown key at", Topic::pull, wire::Pull{clock_of("j")});
    bad("unknown store at", Topic::pull, wire::Pull{{99, "k", 0, 0, 0}});
    bad("unknown worker at", Topic::join_store, wire::JoinStore{kStore, 9});
    bad("worker that has not joined at", Topic::pull, wire::Pull{{kStore, "k", 1, 0, 0}});
    bad("other value at", Topic::init_key, wire::InitKey{kStore, "k", 2, 3}, floats_of(6, 2));
    bad("other shape at", Topic::init_key, wire::InitKey{kStore, "k", 3, 2}, floats_of(6, 1));
    bad("too few floats at", Topic::push, wire::Push{clock_of("k", 1), false, 0, "none"},
        floats_of(5, 1));
    bad("no floats at", Topic::push, wire::Push{clock_of("k", 1), false, 0, "none"});
    bad("push out of turn at", Topic::push, wire::Push{clock_of("k", 7), false, 0, "none"},
        floats_of(6, 1));
    bad("unknown code at", Topic::push, wire::Push{clock_of("k", 1), false, 0, "3bit"},
        floats_of(6, 1));
    bad("unknown row at", Topic::push_rows, wire::PushRows{clock_of("k", 1), false, 0, {2}},
        floats_of(3, 1));
    bad("more than the job has room for at", Topic::init_key,
        wire::InitKey{kStore, "huge", 1ULL << 40, 1ULL << 9}, floats_of(1, 1));
    bad("table that nobody made at", Topic::give, wire::Give{});
  }

  void send_broken_messages() {
    const std::string good = wire::encode(wire::Pull{clock_of("k")});
    const auto bad = [&](const std::string& what, Topic topic, const std::string& bytes) {
      refused(what, [&] { ask(0, topic, Bytes{bytes}); });
    };
    bad("unknown kind", static_cast<Topic>(99), good);
    bad("no message", Topic::pull, "");
    bad("truncated message", Topic::pull, good.substr(0, good.size() - 1));
    bad("message with more behind it", Topic::pull, good + "!");
    bad("text that is no message", Topic::push, "GET / HTTP/1.1\r\n\r\n");
    std::string lying = good;
    lying.replace(sizeof(std::uint64_t), 4, "\xff\xff\xff\xff");  // the key's length
    bad("message that lies about a length", Topic::pull, lying);
  }

  void connect_badly() {
    refused("a server more than there are", [&] {
      ServedJob job = job_;
      ++job.servers;
      job.timeout = kShort;
      const ServerConnections connections(job, 0);
    });
    refused("another secret", [&] {
      ServedJob job = job_;
      job.secret = "guessed";
      job.timeout = kShort;
      const ServerConnections connections(job, 0);
    });
    refused("a server of a number that is not there", [&] { serve(job_, {.number = 7}); });
  }

  // Who does not even shake hands; its connection stays open while others are served.
  void as_stranger(const std::string& what, const std::string& bytes) {
    const comm::Deadline deadline = comm::Clock::now() + kTimeout;
    std::vector<comm::Socket> open;
    for (int server = 0; server < job_.servers; ++server) {
      const std::string place = job_.registry.get(fmt::format("server/{}", server), deadline);
      open.push_back(comm::connect_to(comm::parse_endpoint(place), "", deadline));
      ::send(open.back().fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    check_alive();
    fmt::print("{} from strangers: they serve on\n", what);
  }

  const ServedJob& job_;
  KVStore& store_;
  ServerConnections servers_;
  int pushes_ = 0;
};

// Fewer keys than servers: some of them have none.
void use_one_key(const train::OwnJob& own) {
  const auto store = kvstore::create("ps_sync", own.parts());
  store->init(1, Tensor::zeros({2}));
  const std::vector<float> sum = store->pushpull(1, Tensor::full({2}, 3.0)).to_vector<float>();
  if (store->rank() == 0) fmt::print("one key: {}\n", sum[0]);
  store->barrier();
}

}  // namespace

int main() try {
  const train::OwnJob own = train::join_job();
  use_one_key(own);
  const auto store = kvstore::create("ps_async", own.parts());
  store->init("large", Tensor::zeros({kLarge, kLarge}));
  if (store->rank() == 0) BadWorker(*own.servers, *store).ask_badly();
  store->barrier();
  if (store->rank() == 0) fmt::print("the end\n");
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "bad_requests: {}\n", error.what());
  return 1;
}
