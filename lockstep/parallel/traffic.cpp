// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/traffic.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace lockstep::parallel {
namespace {

using comm::Algorithm;
using Kind = Collective::Kind;

// The members of one host.
struct Local {
  int host = 0;
  double ranks = 0.0, nodes = 0.0;
};

std::vector<Local> by_host(const Collective& collective, const ClusterModel& cluster) {
  std::map<int, Local> hosts;
  for (std::size_t i = 0; i < collective.ranks.size(); ++i) {
    Local& own = hosts[cluster.host_of(collective.ranks[i])];
    own.host = cluster.host_of(collective.ranks[i]);
    own.ranks += 1.0;
    own.nodes += collective.nodes.empty() ? 1.0 : collective.nodes[i];
  }
  std::vector<Local> list;
  for (const auto& [host, own] : hosts) list.push_back(own);
  return list;
}

struct Sizes {
  double ranks = 0.0, nodes = 0.0, most_nodes = 1.0, most_local = 1.0;
};
Sizes sizes_of(const Collective& collective, const std::vector<Local>& hosts) {
  Sizes sizes;
  for (const Local& own : hosts) {
    sizes.ranks += own.ranks;
    sizes.nodes += own.nodes;
    sizes.most_local = std::max(sizes.most_local, own.ranks);
  }
  for (const int nodes : collective.nodes)
    sizes.most_nodes = std::max(sizes.most_nodes, static_cast<double>(nodes));
  return sizes;
}

// Messages that one rank sends to others, and the hops one after the other.
void add_latency(Traffic& traffic, const ClusterModel& cluster, bool is_far, double hops,
                 double messages) {
  const LinkModel& link = is_far ? cluster.network : cluster.inside;
  traffic.latency_s += hops * link.latency_s + messages * link.message_s;
}

void add_adding(Traffic& traffic, const ClusterModel& cluster, double bytes) {
  if (cluster.add_bytes_per_s > 0.0) traffic.core_s += bytes / cluster.add_bytes_per_s;
}

// Every rank sends its nodes' part of a slice to the slice's owner, and the owner the sum to
// everybody; of a scatter the first half alone, of a gather the second.
Traffic tree(const Collective& collective, const ClusterModel& cluster) {
  const std::vector<Local> hosts = by_host(collective, cluster);
  const Sizes sizes = sizes_of(collective, hosts);
  const double brings = collective.kind == Kind::gather ? 0.0 : 1.0;
  const double gives = collective.kind == Kind::scatter ? 0.0 : 1.0;
  const double slice = collective.bytes / sizes.ranks;
  Traffic traffic;
  const bool is_far = hosts.size() > 1;
  for (const Local& own : hosts) {
    const double others = sizes.ranks - own.ranks;
    if (is_far)
      traffic.hosts.push_back(
          {own.host, slice * others * (brings * own.nodes + gives * own.ranks),
           slice * own.ranks * (brings * (sizes.nodes - own.nodes) + gives * others)});
  }
  const double local = sizes.most_local - 1.0;
  traffic.inside_s = cluster.inside.seconds(slice * local * (brings * sizes.most_nodes + gives));
  const double far = sizes.ranks - 1.0 - local;
  traffic.core_s += cluster.send_s_per_byte * 2.0 * slice * far * (brings + gives);
  add_latency(traffic, cluster, is_far, brings + gives, (brings + gives) * (sizes.ranks - 1.0));
  add_adding(traffic, cluster, brings * slice * (sizes.nodes - 1.0));
  return traffic;
}

// 2 (n - 1) steps, of a slice each.
Traffic ring(const Collective& collective, const ClusterModel& cluster, double rings) {
  const double ranks = static_cast<double>(collective.ranks.size());
  const double each = 2.0 * (ranks - 1.0) / ranks * collective.bytes;
  Traffic traffic;
  std::map<int, double> out;
  bool is_inside = false;
  for (std::size_t i = 0; i < collective.ranks.size(); ++i) {
    const int here = cluster.host_of(collective.ranks[i]);
    const int next = cluster.host_of(collective.ranks[(i + 1) % collective.ranks.size()]);
    is_inside = is_inside || here == next;
    if (here != next) out[here] += each;
  }
  for (const auto& [host, bytes] : out) traffic.hosts.push_back({host, bytes, bytes});
  if (is_inside) traffic.inside_s = cluster.inside.seconds(each / rings);
  traffic.core_s += out.empty() ? 0.0 : 2.0 * cluster.send_s_per_byte * each;
  add_latency(traffic, cluster, !out.empty(), 2.0 * (ranks - 1.0), 2.0 * (ranks - 1.0));
  add_adding(traffic, cluster, each / 2.0);
  return traffic;
}

// Inside a host to all; between hosts a tree by lanes; inside again.
Traffic hierarchical(const Collective& collective, const ClusterModel& cluster) {
  const std::vector<Local> hosts = by_host(collective, cluster);
  const Sizes sizes = sizes_of(collective, hosts);
  if (hosts.size() == 1 || sizes.most_local == 1.0) return tree(collective, cluster);
  const double count = static_cast<double>(hosts.size()), local = sizes.most_local;
  Traffic traffic;
  for (const Local& own : hosts) {
    const double bytes = 2.0 * collective.bytes * (count - 1.0) / count;
    traffic.hosts.push_back({own.host, bytes, bytes});
  }
  const double inside = collective.bytes * (local - 1.0) / local;
  traffic.inside_s = cluster.inside.seconds(3.0 * inside);
  traffic.core_s = 4.0 * cluster.send_s_per_byte * collective.bytes / local * (count - 1.0) / count;
  add_latency(traffic, cluster, false, 3.0, 3.0 * (local - 1.0));
  add_latency(traffic, cluster, true, 2.0, 2.0 * (count - 1.0));
  add_adding(traffic, cluster, inside + collective.bytes / local * (count - 1.0) / count);
  return traffic;
}

Traffic central(const Collective& collective, const ClusterModel& cluster) {
  const std::vector<Local> hosts = by_host(collective, cluster);
  const Sizes sizes = sizes_of(collective, hosts);
  const int root = cluster.host_of(collective.ranks[0]);
  Traffic traffic;
  for (const Local& own : hosts) {
    if (hosts.size() == 1) break;
    if (own.host != root)
      traffic.hosts.push_back(
          {own.host, collective.bytes * own.nodes, collective.bytes * own.ranks});
  }
  double in = 0.0, out = 0.0;
  for (const Traffic::Host& other : traffic.hosts) {
    in += other.out;
    out += other.in;
  }
  if (hosts.size() > 1) traffic.hosts.push_back({root, out, in});
  traffic.inside_s = cluster.inside.seconds(2.0 * collective.bytes * (sizes.most_local - 1.0));
  traffic.core_s = cluster.send_s_per_byte * (in + out);
  add_latency(traffic, cluster, hosts.size() > 1, 2.0, sizes.ranks - 1.0);
  add_adding(traffic, cluster, collective.bytes * (sizes.nodes - 1.0));
  return traffic;
}

// Everybody's few bytes to everybody.
Traffic talk(const Collective& collective, const ClusterModel& cluster) {
  const std::vector<Local> hosts = by_host(collective, cluster);
  const double ranks = static_cast<double>(collective.ranks.size());
  Traffic traffic;
  for (const Local& own : hosts) {
    if (hosts.size() == 1) break;
    const double bytes = collective.bytes * own.ranks * (ranks - own.ranks);
    traffic.hosts.push_back({own.host, bytes, bytes});
  }
  add_latency(traffic, cluster, hosts.size() > 1, 1.0, ranks - 1.0);
  return traffic;
}

Traffic traffic_of_one(const Collective& collective, const ClusterModel& cluster) {
  if (collective.kind == Kind::talk) return talk(collective, cluster);
  if (collective.kind != Kind::sum) return tree(collective, cluster);
  switch (collective.algorithm) {
    case Algorithm::ring: return ring(collective, cluster, 1.0);
    case Algorithm::multi_ring: return ring(collective, cluster, 2.0);
    case Algorithm::hierarchical: return hierarchical(collective, cluster);
    case Algorithm::central: return central(collective, cluster);
    default: return tree(collective, cluster);
  }
}

}  // namespace

Traffic traffic_of(const Collective& collective, const ClusterModel& cluster) {
  if (collective.ranks.size() < 2) return {};
  Traffic traffic = traffic_of_one(collective, cluster);
  traffic.latency_s *= collective.calls;
  return traffic;
}

}  // namespace lockstep::parallel
