// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep::kvstore {

// How gradients become parameters. local: within one process; allreduce: every worker has all
// values, and sums are made between them.
enum class StoreType { local, allreduce };

// Our names, and MXNet's: "local", "device" | "allreduce", "dist_sync", "dist_device_sync",
// "horovod". Throws InvalidArgument, which lists them, and Unsupported for those that are to come.
StoreType parse_store_type(std::string_view name);
std::string_view to_string(StoreType type);

}  // namespace lockstep::kvstore
