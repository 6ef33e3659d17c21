// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/table_access.h"

#include <algorithm>
#include <cstring>

#include "lockstep/base/hmac.h"
#include "lockstep/kvstore/servers/floats.h"

namespace lockstep::kvstore {
namespace {

constexpr std::size_t kAccessFloats = std::size_t{4} << 20;

// Of each message: which server, and which of its own floats.
template <class Work>
void for_each_message(const std::vector<TableRange>& ranges, wire::Access& request,
                      const Work& work) {
  for (std::size_t server = 0; server < ranges.size(); ++server) {
    const std::size_t floats = ranges[server].layout.floats;
    for (std::size_t begin = 0; begin < floats; begin += kAccessFloats) {
      request.offset = begin;
      request.count = std::min(kAccessFloats, floats - begin);
      work(static_cast<int>(server), ranges[server].offset + begin, request.count);
    }
  }
}

}  // namespace

void make_tables(ServerConnections& servers, const std::vector<TableRange>& ranges,
                 wire::Topic topic, wire::MakeTable request) {
  std::vector<ServerReply> replies;
  for (std::size_t server = 0; server < ranges.size(); ++server) {
    const FlatLayout& layout = ranges[server].layout;
    if (layout.floats == 0) continue;
    request.parameters.clear();
    for (const FlatParameter& parameter : layout.parameters)
      request.parameters.push_back(
          {parameter.count, parameter.rate_multiplier, parameter.decay_multiplier});
    request.unused.assign(layout.unused.begin(), layout.unused.end());
    replies.push_back(
        servers.request(static_cast<int>(server), topic, request, "kvstore: making the table"));
  }
  for (ServerReply& reply : replies) reply.wait();
}

void read_tables(ServerConnections& servers, const std::vector<TableRange>& ranges,
                 wire::Access request, std::span<float> to, const LookAtAnswer& look) {
  const std::string what = fmt::format("kvstore: reading table '{}'", request.table);
  for_each_message(ranges, request, [&](int server, std::size_t offset, std::size_t count) {
    const comm::Payload answer = servers.ask(server, wire::Topic::read_table, request, what);
    copy_floats(answer, 1, to.subspan(offset, count));
    if (look) look(server, answer);
  });
}

void write_tables(ServerConnections& servers, const std::vector<TableRange>& ranges,
                  wire::Access request, std::span<const float> from) {
  const std::string what = fmt::format("kvstore: writing table '{}'", request.table);
  for_each_message(ranges, request, [&](int server, std::size_t offset, std::size_t count) {
    const auto part = from.subspan(offset, count);
    auto copy = std::make_shared<std::vector<float>>(part.begin(), part.end());
    comm::Payload floats;
    add_floats(floats, *copy, copy);
    servers.ask(server, wire::Topic::write_table, request, what, floats);
  });
}

std::uint64_t new_epoch() {
  std::uint64_t number = 0;
  std::memcpy(&number, random_bytes(sizeof number).data(), sizeof number);
  return number;
}

}  // namespace lockstep::kvstore
