// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/place.h"

#include "lockstep/cluster/detail/environment.h"

namespace lockstep::cluster {
namespace {

using detail::needed_variable;
using detail::number_variable;
using detail::variable;

constexpr int kMostWorkers = 1 << 20;

comm::Endpoint coordinator_place() {
  const std::string text = needed_variable("LOCKSTEP_COORDINATOR", "LOCKSTEP_RANK");
  try {
    return comm::parse_endpoint(text);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("LOCKSTEP_COORDINATOR: {}", error.what());
  }
}

std::optional<Place> lockstep_place() {
  const auto rank = variable("LOCKSTEP_RANK");
  if (!rank) return std::nullopt;
  Place place;
  place.size = number_variable(
      "LOCKSTEP_WORKERS", needed_variable("LOCKSTEP_WORKERS", "LOCKSTEP_RANK"), 1, kMostWorkers);
  place.rank = number_variable("LOCKSTEP_RANK", *rank, 0, place.size - 1);
  place.coordinator = coordinator_place();
  place.secret = needed_variable("LOCKSTEP_SECRET", "LOCKSTEP_RANK");
  place.host = variable("LOCKSTEP_HOST").value_or("");
  place.interface = variable("LOCKSTEP_INTERFACE").value_or("");
  place.transport = variable("LOCKSTEP_TRANSPORT").value_or("");
  return place;
}

}  // namespace

std::optional<Place> find_place() { return lockstep_place(); }

}  // namespace lockstep::cluster
