// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/etcd_store.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <thread>

#include "lockstep/base/base64.h"
#include "lockstep/base/error.h"
#include "lockstep/cluster/membership/detail/http_post.h"

namespace lockstep::cluster {
namespace detail {
namespace {

using nlohmann::json;

constexpr auto kPause = std::chrono::milliseconds(50);
// For one server's answer: where it hangs, the others have time to give theirs.
constexpr auto kLongestTry = std::chrono::milliseconds(2000);
// The codes of gRPC by which a server says that another one, or a later time, is better: cancelled,
// deadline exceeded, resource exhausted, aborted, unavailable.
constexpr std::array<std::int64_t, 5> kPassing = {1, 4, 8, 10, 14};
constexpr int kTooManyRequests = 429;

// 64-bit numbers are texts in etcd's JSON, and a 0 is left out.
std::int64_t number_in(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return 0;
  return found->is_string() ? std::stoll(found->get<std::string>()) : found->get<std::int64_t>();
}

// What is no answer of etcd's counts as none.
template <class Read>
auto read_answer(const std::string& address, const Read& read) {
  try {
    return read();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw IoError("store: {} does not answer as etcd does: {}", address, error.what());
  }
}

StoreEntry entry_of(const json& kept) {
  return {from_base64(kept.at("key").get<std::string>()),
          from_base64(kept.value("value", std::string())), number_in(kept, "mod_revision")};
}

std::vector<StoreEntry> entries_of(const std::string& body) {
  std::vector<StoreEntry> entries;
  const json answer = json::parse(body);
  for (const json& kept : answer.value("kvs", json::array())) entries.push_back(entry_of(kept));
  return entries;
}

// What is behind all names that begin with this.
std::string after(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix;
}

// An answer that is none of these is an error that no other server would change.
bool is_passing(const HttpReply& reply) {
  if (reply.status == 200) return false;
  const json said = json::parse(reply.body, nullptr, false);
  if (!said.is_object()) return reply.status >= 500;
  const std::int64_t code = number_in(said, "code");
  return std::count(kPassing.begin(), kPassing.end(), code) > 0 ||
         reply.status == kTooManyRequests || reply.status >= 502;
}

std::string reason_of(const HttpReply& reply) {
  const json said = json::parse(reply.body, nullptr, false);
  if (said.is_object() && said.contains("error") && said["error"].is_string()) return said["error"];
  return fmt::format("HTTP status {}; is this etcd 3.4 or later?", reply.status);
}

// The body, or why there is none.
struct Try {
  bool is_done = false;
  std::string text = {};
};

Try try_once(const comm::Endpoint& server, const std::string& path, const std::string& body,
             comm::Deadline deadline) {
  try {
    HttpReply reply = http_post(server, path, body, deadline);
    if (reply.status == 200 && json::parse(reply.body, nullptr, false).is_object())
      return {true, std::move(reply.body)};
    const std::string why = to_string(server) + ": " + reason_of(reply);
    if (is_passing(reply) || reply.status == 200) return {false, why};
    throw InvalidArgument("store: {}", why);
  } catch (const IoError& error) {
    return {false, error.what()};
  }
}

}  // namespace

EtcdStore::Answer EtcdStore::ask(const std::string& path, const std::string& body,
                                 comm::Deadline deadline) {
  std::vector<std::string> last(servers_.size());
  for (std::size_t tries = 0;; ++tries) {
    const std::size_t number = (good_ + (tries == 0 ? 0 : 1)) % servers_.size();
    good_ = number;
    const auto until = std::min(deadline, comm::Clock::now() + kLongestTry);
    Try one = try_once(servers_[number], path, body, until);
    if (one.is_done) return {std::move(one.text), tries == 0};
    last[number] = one.text;
    if (comm::Clock::now() + kPause >= deadline) break;
    if (tries % servers_.size() == servers_.size() - 1) std::this_thread::sleep_for(kPause);
  }
  std::string text;
  for (const std::string& why : last) text += why.empty() ? "" : "; " + why;
  throw IoError("store: {} does not answer{}", address_, text);
}

std::optional<StoreEntry> EtcdStore::get(const std::string& name, comm::Deadline deadline) {
  const Answer answer = ask("/v3/kv/range", json{{"key", to_base64(name)}}.dump(), deadline);
  auto found = read_answer(address_, [&] { return entries_of(answer.body); });
  if (found.empty()) return {};
  return std::move(found[0]);
}

std::vector<StoreEntry> EtcdStore::list(const std::string& prefix, comm::Deadline deadline) {
  const json range{{"key", to_base64(prefix)}, {"range_end", to_base64(after(prefix))}};
  const Answer answer = ask("/v3/kv/range", range.dump(), deadline);
  return read_answer(address_, [&] { return entries_of(answer.body); });
}

// A try that nobody answered may have been obeyed, and then this one's conditions do not hold.
std::optional<std::int64_t> EtcdStore::commit(const StoreChange& change, comm::Deadline deadline) {
  json compare = json::array(), success = json::array();
  for (const auto& one : change.conditions)
    compare.push_back({{"key", to_base64(one.name)},
                       {"target", "MOD"},
                       {"result", "EQUAL"},
                       {"mod_revision", std::to_string(one.version)}});
  for (const auto& one : change.puts)
    success.push_back({{"request_put",
                        {{"key", to_base64(one.name)},
                         {"value", to_base64(one.value)},
                         {"lease", std::to_string(one.lease)}}}});
  const Answer answer =
      ask("/v3/kv/txn", json{{"compare", compare}, {"success", success}}.dump(), deadline);
  const auto revision = read_answer(address_, [&]() -> std::optional<std::int64_t> {
    const json said = json::parse(answer.body);
    if (!said.value("succeeded", false)) return {};
    return number_in(said.value("header", json::object()), "revision");
  });
  if (revision) return revision;
  return answer.is_first_try ? std::nullopt : version_if_done(change, deadline);
}

std::optional<std::int64_t> EtcdStore::version_if_done(const StoreChange& change,
                                                       comm::Deadline deadline) {
  std::optional<std::int64_t> version;
  for (const StoreChange::Put& put : change.puts) {
    const auto there = get(put.name, deadline);
    if (!there || there->value != put.value || (version && *version != there->version)) return {};
    version = there->version;
  }
  return version;
}

StoreLease EtcdStore::grant(std::chrono::milliseconds length, comm::Deadline deadline) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(length).count();
  const Answer answer =
      ask("/v3/lease/grant", json{{"TTL", std::to_string(seconds)}}.dump(), deadline);
  return read_answer(address_, [&]() -> StoreLease {
    const json said = json::parse(answer.body);
    if (number_in(said, "ID") == 0) throw IoError("store: {} grants no leases", address_);
    return {number_in(said, "ID"), std::chrono::seconds(number_in(said, "TTL"))};
  });
}

bool EtcdStore::keep_alive(const StoreLease& lease, comm::Deadline deadline) {
  const Answer answer =
      ask("/v3/lease/keepalive", json{{"ID", std::to_string(lease.id)}}.dump(), deadline);
  return read_answer(address_, [&] {
    const json said = json::parse(answer.body);
    return said.contains("result") && number_in(said.at("result"), "TTL") > 0;
  });
}

void EtcdStore::revoke(const StoreLease& lease, comm::Deadline deadline) try {
  ask("/v3/lease/revoke", json{{"ID", std::to_string(lease.id)}}.dump(), deadline);
} catch (const InvalidArgument&) {
  // It has ended by itself.
}

}  // namespace detail

std::shared_ptr<Store> open_store(const std::string& address) {
  constexpr std::string_view kScheme = "etcd://";
  constexpr std::uint16_t kPort = 2379;
  const auto fail = [&](const std::string& why) {
    throw InvalidArgument("store: '{}': {}, expected etcd://HOST:PORT,HOST:PORT,...", address, why);
  };
  if (!address.starts_with(kScheme)) fail("its kind is not known");
  std::vector<comm::Endpoint> servers;
  for (std::size_t begin = kScheme.size(); begin <= address.size();) {
    const std::size_t end = std::min(address.find(',', begin), address.size());
    const std::string word = address.substr(begin, end - begin);
    if (word.empty() || word.find('/') != std::string::npos) fail("'" + word + "' is no server");
    try {
      servers.push_back(word.find(':') == std::string::npos ? comm::Endpoint{word, kPort}
                                                            : comm::parse_endpoint(word));
    } catch (const InvalidArgument& error) {
      fail(error.what());
    }
    begin = end + 1;
  }
  return std::make_shared<detail::EtcdStore>(address, std::move(servers));
}

}  // namespace lockstep::cluster
