// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/hosts.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cluster/detail/host_name.h"

namespace lockstep::cluster {
namespace {

constexpr int kMostSlots = 4096;

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

// [address]:2, [address], name:2, name
HostSlots parse_host(std::string_view text) {
  const std::size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  if (bracket == std::string_view::npos)
    throw InvalidArgument("hosts: '{}': a bracket is not closed", text);
  const std::size_t colon = text.find(':', bracket);
  const std::string_view name =
      bracket > 0 ? text.substr(1, bracket - 1) : text.substr(0, std::min(colon, text.size()));
  const int slots = colon == std::string_view::npos ? 1 : parse_slots(text.substr(colon + 1), text);
  return {std::string(name), slots};
}

HostSlots parse_line(const std::string& line) {
  std::istringstream words(line);
  HostSlots host;
  words >> host.name;
  for (std::string word; words >> word;) {
    if (!word.starts_with("slots="))
      throw InvalidArgument("hosts: '{}': got '{}', expected host [slots=N]", line, word);
    host.slots = parse_slots(std::string_view(word).substr(6), line);
  }
  return host;
}

}  // namespace

std::vector<HostSlots> parse_hosts(std::string_view list) {
  std::vector<HostSlots> hosts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    add_host(hosts, parse_host(list.substr(begin, end - begin)), list);
    begin = end + 1;
  }
  return hosts;
}

std::vector<HostSlots> read_hosts(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::vector<HostSlots> hosts;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      add_host(hosts, parse_line(line), line);
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

bool is_this_machine(const std::string& host) {
  const std::string own = detail::own_host_name();
  return host == "localhost" || host == own || host == own.substr(0, own.find('.'));
}

}  // namespace lockstep::cluster
