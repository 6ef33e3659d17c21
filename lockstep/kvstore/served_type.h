// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep::kvstore {

// Of a store's name, the store with servers that it means: "ps_sync", "ps_async" or "ps_ssp".
// MXNet's "dist_async" is one; "dist_sync", "dist_device_sync" and "dist" are where the job has
// servers. Empty: any other name (store_type.h).
std::string_view find_served_type(std::string_view name, bool has_servers);

}  // namespace lockstep::kvstore
