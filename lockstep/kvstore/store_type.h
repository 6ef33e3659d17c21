// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "lockstep/kvstore/allreduce.h"
#include "lockstep/kvstore/synchronizer.h"

namespace lockstep::kvstore {

// How gradients become parameters, by name.
struct StoreType {
  std::string_view name;
  // Between workers. Null: within one process, which local_mode() is for.
  std::unique_ptr<Mode> (*make)(comm::Communicator& communicator, const Membership& membership,
                                const AllReduceOptions& options);

  bool is_local() const { return make == nullptr; }
};

// Our names, and MXNet's: "local", "device" | "allreduce", "dist_sync", "dist_device_sync",
// "horovod". Throws InvalidArgument, which lists them, and Unsupported for those that are to come.
const StoreType& find_store_type(std::string_view name);

}  // namespace lockstep::kvstore
