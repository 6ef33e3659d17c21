// SPDX-License-Identifier: Apache-2.0
#include "bench/peer.h"

#include <fmt/core.h>

#include "lockstep/base/error.h"
#include "lockstep/base/print_error.h"

namespace lockstep::bench {
namespace {

std::vector<std::string> command_of(const TrainCase& what, const PeerKind& kind) {
  std::vector<std::string> command{kPython,   peer_script("train_peer.py"), "--model", what.model,
                                   "--batch", std::to_string(what.batch)};
  command.insert(command.end(), kind.arguments.begin(), kind.arguments.end());
  return command;
}

}  // namespace

std::vector<PeerKind> in_each_format(const std::string& model, const PeerKind& kind) {
  std::vector<PeerKind> kinds{{kind.label + ", contiguous", kind.arguments}};
  if (!reads_images(model)) return kinds;
  kinds.push_back({kind.label + ", channels-last", kind.arguments});
  kinds.back().arguments.emplace_back("--channels-last");
  return kinds;
}

std::vector<Side> start_peers(const std::string& bench, const TrainCase& what,
                              const std::vector<PeerKind>& kinds) {
  std::vector<Side> peers;
  for (const PeerKind& kind : kinds) try {
      peers.push_back(Side::start(kind.label, command_of(what, kind)));
    } catch (const Error& error) {
      print_error("{}: {}, {}: not measured: {}\n", bench, what.model, kind.label, error.what());
    }
  return peers;
}

}  // namespace lockstep::bench
