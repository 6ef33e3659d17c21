// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/group.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/transports/hybrid.h"
#include "lockstep/comm/transports/shm.h"
#include "lockstep/comm/transports/tcp.h"
#include "lockstep/comm/transports/ucx.h"
#include "lockstep/comm/transports/zmq.h"

namespace lockstep::comm {
namespace {

constexpr std::array<std::pair<std::string_view, TransportKind>, 5> kNames{
    {{"auto", TransportKind::automatic},
     {"shm", TransportKind::shm},
     {"tcp", TransportKind::tcp},
     {"ucx", TransportKind::ucx},
     {"zmq", TransportKind::zmq}}};

bool is_one_host(const std::vector<std::string>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [&](auto& host) { return host == hosts[0]; });
}

// The first rank's name for the shared memory is everybody's.
std::unique_ptr<Transport> connect_by_memory(const Bootstrap& bootstrap) {
  if (!is_one_host(bootstrap.hosts))
    throw InvalidArgument(
        "transport: shm connects the processes of one host; this job has hosts "
        "{} and more: use auto",
        bootstrap.hosts[0]);
  ShmOptions options;
  options.group = bootstrap.all_gather(random_shm_name())[0];
  options.rank = bootstrap.rank;
  options.size = bootstrap.size();
  options.host = bootstrap.hosts[0];
  options.timeout = bootstrap.timeout;
  return connect_shm(options);
}

// Whether any two ranks share a host.
bool has_neighbours(std::vector<std::string> hosts) {
  std::sort(hosts.begin(), hosts.end());
  return std::adjacent_find(hosts.begin(), hosts.end()) != hosts.end();
}

std::unique_ptr<Transport> connect_between(const Bootstrap& bootstrap, TransportKind kind) {
  if (kind == TransportKind::ucx) return connect_ucx(bootstrap);
  if (kind == TransportKind::zmq) return connect_zmq(bootstrap);
  return connect_tcp(bootstrap);
}

}  // namespace

TransportKind parse_transport(std::string_view name) {
  std::string known;
  for (const auto& [text, kind] : kNames) {
    if (text == name) return kind;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  throw InvalidArgument("transport: '{}', expected one of {}", name, known);
}

std::string_view to_string(TransportKind kind) {
  return std::find_if(kNames.begin(), kNames.end(), [&](auto& one) { return one.second == kind; })
      ->first;
}

std::unique_ptr<Transport> connect_group(const Bootstrap& bootstrap, TransportKind kind) {
  const bool one_host = is_one_host(bootstrap.hosts);
  if (kind == TransportKind::automatic) kind = one_host ? TransportKind::shm : TransportKind::tcp;
  if (kind == TransportKind::shm) return connect_by_memory(bootstrap);
  auto between = connect_between(bootstrap, kind);
  if (one_host || !has_neighbours(bootstrap.hosts)) return between;
  return connect_hybrid(bootstrap, std::move(between));
}

}  // namespace lockstep::comm
