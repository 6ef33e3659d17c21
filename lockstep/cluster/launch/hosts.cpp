// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/hosts.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cluster/detail/host_name.h"

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

// `more` is how it has two workers: in a list and in a file they are written otherwise.
void add_host(std::vector<HostSlots>& hosts, HostSlots host, std::string_view whole,
              const char* more) {
  check_name(host.name, whole);
  for (const HostSlots& other : hosts)
    if (other.name == host.name)
      throw InvalidArgument("hosts: {} is named twice; give it more workers instead: {}{}",
                            host.name, host.name, more);
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

// How many workers a word of Open MPI's says; 0: it says how many there could be, which is no
// matter.
int slots_of(std::string_view word, std::string_view line) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  if (equals == std::string_view::npos ||
      (name != "slots" && name != "max_slots" && name != "max-slots"))
    throw InvalidArgument("hosts: '{}': got '{}', expected host [slots=N]", line, word);
  const int number = parse_slots(word.substr(equals + 1), line);
  return name == "slots" ? number : 0;
}

HostSlots parse_line(const std::string& line) {
  std::istringstream words(without_blanks_at_equals(line));
  std::string word;
  words >> word;
  HostSlots host = parse_host(word);
  while (words >> word) {
    const int slots = slots_of(word, line);
    if (slots > 0 && host.slots > 0)
      throw InvalidArgument("hosts: '{}': says twice how many workers", line);
    host.slots = std::max(host.slots, slots);
  }
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
    add_host(hosts, std::move(host), list, ":2");
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
      add_host(hosts, parse_line(line), line, " slots=2");
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
  const std::string own = detail::own_host_name();
  return host == "localhost" || host == own || host == own.substr(0, own.find('.'));
}

}  // namespace lockstep::cluster
