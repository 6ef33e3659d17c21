// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/kvstore/servers/connections.h"
#include "lockstep/kvstore/servers/placement.h"

namespace lockstep::kvstore {

// A request for each server that has some of the layout, which makes its table.
void make_tables(ServerConnections& servers, const std::vector<TableRange>& ranges,
                 wire::Topic topic, wire::MakeTable request);

// Each server's floats of a flat buffer, in messages of a moderate length; `request` tells the
// table and the slot, and `look` sees each answer.
using LookAtAnswer = std::function<void(int server, const comm::Payload& answer)>;
void read_tables(ServerConnections& servers, const std::vector<TableRange>& ranges,
                 wire::Access request, std::span<float> to, const LookAtAnswer& look = {});
void write_tables(ServerConnections& servers, const std::vector<TableRange>& ranges,
                  wire::Access request, std::span<const float> from);

// The same of a table that learns by rows, whose weights or slot these are.
void read_rows(ServerConnections& servers, const std::vector<TableRange>& ranges,
               wire::Access request, std::size_t table, std::span<float> to,
               const LookAtAnswer& look = {});
void write_rows(ServerConnections& servers, const std::vector<TableRange>& ranges,
                wire::Access request, std::size_t table, std::span<const float> from);

// An epoch of a table that nobody else has, of workers of this generation.
std::uint64_t new_epoch(std::int64_t generation);

}  // namespace lockstep::kvstore
