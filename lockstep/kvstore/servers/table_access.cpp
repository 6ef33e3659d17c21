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

// The same of a table that learns by rows.
template <class Work>
void for_each_message(const std::vector<TableRange>& ranges, wire::Access& request,
                      std::size_t table, const Work& work) {
  for (std::size_t server = 0; server < ranges.size(); ++server) {
    const TableRange& its = ranges[server];
    for (std::size_t i = 0; i < its.rows.size(); ++i) {
      if (its.rows[i].table != table) continue;
      request.rows = static_cast<std::int32_t>(i);
      const std::size_t width = its.layout.tables[i].width;
      const std::size_t floats = its.layout.tables[i].rows * width;
      for (std::size_t begin = 0; begin < floats; begin += kAccessFloats) {
        request.offset = begin;
        request.count = std::min(kAccessFloats, floats - begin);
        work(static_cast<int>(server), its.rows[i].first * width + begin, request.count);
      }
    }
  }
}

void write_floats(ServerConnections& servers, int server, const wire::Access& request,
                  std::span<const float> part) {
  auto copy = std::make_shared<std::vector<float>>(part.begin(), part.end());
  comm::Payload floats;
  add_floats(floats, *copy, copy);
  servers.ask(server, wire::Topic::write_table, request,
              fmt::format("kvstore: writing table '{}'", request.table), floats);
}

}  // namespace

void make_tables(ServerConnections& servers, const std::vector<TableRange>& ranges,
                 wire::Topic topic, wire::MakeTable request) {
  std::vector<ServerReply> replies;
  for (std::size_t server = 0; server < ranges.size(); ++server) {
    const FlatLayout& layout = ranges[server].layout;
    if (ranges[server].is_empty()) continue;
    request.parameters.clear();
    for (const FlatParameter& parameter : layout.parameters)
      request.parameters.push_back(
          {parameter.count, parameter.rate_multiplier, parameter.decay_multiplier});
    request.unused.assign(layout.unused.begin(), layout.unused.end());
    request.tables.clear();
    for (const RowTable& table : layout.tables)
      request.tables.push_back(
          {table.rows, table.width, table.rate_multiplier, table.decay_multiplier});
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
  for_each_message(ranges, request, [&](int server, std::size_t offset, std::size_t count) {
    write_floats(servers, server, request, from.subspan(offset, count));
  });
}

void read_rows(ServerConnections& servers, const std::vector<TableRange>& ranges,
               wire::Access request, std::size_t table, std::span<float> to,
               const LookAtAnswer& look) {
  const std::string what = fmt::format("kvstore: reading table '{}'", request.table);
  for_each_message(ranges, request, table, [&](int server, std::size_t offset, std::size_t count) {
    const comm::Payload answer = servers.ask(server, wire::Topic::read_table, request, what);
    copy_floats(answer, 1, to.subspan(offset, count));
    if (look) look(server, answer);
  });
}

void write_rows(ServerConnections& servers, const std::vector<TableRange>& ranges,
                wire::Access request, std::size_t table, std::span<const float> from) {
  for_each_message(ranges, request, table, [&](int server, std::size_t offset, std::size_t count) {
    write_floats(servers, server, request, from.subspan(offset, count));
  });
}

std::uint64_t new_epoch(std::int64_t generation) {
  std::uint32_t number = 0;
  std::memcpy(&number, random_bytes(sizeof number).data(), sizeof number);
  return static_cast<std::uint64_t>(generation) << 32 | number;
}

}  // namespace lockstep::kvstore
