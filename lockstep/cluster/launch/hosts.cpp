// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/hosts.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host_name.h"

namespace lockstep::cluster {
namespace {

constexpr std::string_view kBlanks = " \t\r\f\v";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

int parse_slots(std::string_view text, std::string_view whole) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), slots);
  if (error != std::errc() || end != text.end() || slots < 1 || slots > kMostSlots)
    throw InvalidArgument("hosts: '{}': got '{}' workers, expected a number from 1 to {}", whole,
                          text, kMostSlots);
  return slots;
}

// What ssh would take for an option, or a shell for more than a name, is no host.
void check_name(const std::string& name, std::string_view whole) {
  const bool odd = std::any_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) == 0 &&
           std::string_view("@._-:%").find(static_cast<char>(c)) == std::string_view::npos;
  });
  if (name.empty() || name.front() == '-' || odd)
    throw InvalidArgument("hosts: '{}': '{}' is no host's name", whole, name);
}

void add_host(std::vector<HostSlots>& hosts, HostSlots host, std::string_view whole) {
  check_name(host.name, whole);
  for (const HostSlots& other : hosts)
    if (other.name == host.name)
      throw InvalidArgument("hosts: {} is named twice; give it more workers instead: {}:2",
                            host.name, host.name);
  hosts.push_back(std::move(host));
}

// Another line of a host adds to its slots.
void add_line(std::vector<HostSlots>& hosts, HostSlots host, std::string_view line) {
  check_name(host.name, line);
  for (HostSlots& other : hosts) {
    if (other.name != host.name) continue;
    other.slots += host.slots;
    if (other.slots > kMostSlots)
      throw InvalidArgument("hosts: '{}': {} has {} workers by now, expected at most {}", line,
                            host.name, other.slots, kMostSlots);
    return;
  }
  hosts.push_back(std::move(host));
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// [address]:2, [address], address, name:2, name; 0 slots: it does not say.
HostSlots parse_host(std::string_view text) {
  if (is_ipv6_address(text)) return {std::string(text), 0};
  const std::size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  if (bracket == std::string_view::npos)
    throw InvalidArgument("hosts: '{}': a bracket is not closed", text);
  const std::size_t colon = text.find(':', bracket);
  const std::string_view name =
      bracket > 0 ? text.substr(1, bracket - 1) : text.substr(0, std::min(colon, text.size()));
  if (bracket > 0 && bracket + 1 != std::min(colon, text.size()))
    throw InvalidArgument("hosts: '{}': expected [address] or [address]:N", text);
  return {std::string(name),
          colon == std::string_view::npos ? 0 : parse_slots(text.substr(colon + 1), text)};
}

// Open MPI lets blanks stand around the equals sign.
std::string without_blanks_at_equals(const std::string& line) {
  std::string text;
  for (const char c : line) {
    const bool blank = kBlanks.find(c) != std::string_view::npos;
    if (blank && !text.empty() && text.back() == '=') continue;
    if (c == '=') text.resize(std::min(text.size(), text.find_last_not_of(kBlanks) + 1));
    text += c;
  }
  return text;
}

// NAME=VALUE behind a host's name.
struct HostSetting {
  std::string_view name, value;
  bool is_any_of(std::initializer_list<std::string_view> names) const {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
};

void take_user(HostSlots& host, std::string_view user, const std::string& line) {
  if (user.empty() || host.name.find('@') != std::string::npos)
    throw InvalidArgument("hosts: '{}': says twice, or not, which user", line);
  host.name = std::string(user) + "@" + host.name;
}

void take_setting(HostSlots& host, std::string_view word, const std::string& line) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const HostSetting setting{word.substr(0, equals), word.substr(std::min(equals + 1, word.size()))};
  if (setting.is_any_of({"user", "username", "user_name", "user-name"}))
    return take_user(host, setting.value, line);
  const bool is_most = setting.is_any_of({"max_slots", "max-slots"});
  if (equals == word.size() || !(is_most || setting.is_any_of({"slots", "cpus", "cpu", "count"})))
    throw InvalidArgument("hosts: '{}': got '{}', expected host [slots=N]", line, word);
  const int number = parse_slots(setting.value, line);
  if (is_most) return;  // how many there could be is no matter
  if (host.slots > 0) throw InvalidArgument("hosts: '{}': says twice how many workers", line);
  host.slots = number;
}

HostSlots parse_line(const std::string& line) {
  std::istringstream words(without_blanks_at_equals(line));
  std::string word;
  words >> word;
  HostSlots host = parse_host(word);
  while (words >> word) take_setting(host, word, line);
  host.slots = std::max(host.slots, 1);
  return host;
}

}  // namespace

std::vector<HostSlots> parse_hosts(std::string_view list) {
  std::vector<HostSlots> hosts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    HostSlots host = parse_host(trimmed(list.substr(begin, end - begin)));
    host.slots = std::max(host.slots, 1);
    add_host(hosts, std::move(host), list);
    begin = end + 1;
  }
  return hosts;
}

std::vector<HostSlots> read_hosts(const std::string& path) {
  std::string text = read_file(path);
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  std::istringstream lines(text);
  std::vector<HostSlots> hosts;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    try {
      add_line(hosts, parse_line(line), line);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument("{}:{}: {}", path, number, error.what());
    }
  }
  if (hosts.empty()) throw InvalidArgument("{}: names no host", path);
  return hosts;
}

std::vector<HostSlots> take_slots(std::vector<HostSlots> hosts, int workers) {
  int all = 0;
  for (HostSlots& host : hosts) {
    const int before = all;
    all += host.slots;
    host.slots = std::clamp(workers - before, 0, host.slots);
  }
  if (workers > all) throw InvalidArgument("hosts: {} workers, the hosts take {}", workers, all);
  std::erase_if(hosts, [](const HostSlots& host) { return host.slots == 0; });
  return hosts;
}

bool is_ipv6_address(std::string_view text) {
  in6_addr address;
  const std::string bare(text.substr(0, text.find('%')));
  return ::inet_pton(AF_INET6, bare.c_str(), &address) == 1;
}

bool is_this_machine(const std::string& host) {
  const std::string own = own_host_name();
  return host == "localhost" || host == own || host == own.substr(0, own.find('.'));
}

}  // namespace lockstep::cluster
