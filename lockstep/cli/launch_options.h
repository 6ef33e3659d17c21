// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "lockstep/cluster/launch/launch.h"

namespace lockstep::cli {

// How the members of a job are connected: of `lockstep launch` and `lockstep train`.
struct ConnectOptions {
  std::string transport, interface;
  comm::PortRange ports;
  bool secure = false;

  // Empty: what fits.
  std::string transport_name() const { return secure ? "zmq" : transport; }
};

// What a launcher does for its processes beside starting them: of `lockstep launch` and `lockstep
// train --workers`.
struct CareOptions {
  std::string log_folder;
  std::string binding = "none";

  void apply(cluster::LaunchOptions& options) const;
};

void add_care_options(CLI::App& command, CareOptions& options, const char* group);

// Where the state of the membership is kept, so that the job goes on without its launcher.
void add_store_option(CLI::App& command, std::string& store, const char* group);

void add_connect_options(CLI::App& command, ConnectOptions& options, const char* group);

// Where a job's processes run and how they are reached: of `lockstep launch` and `lockstep doctor`.
struct HostOptions {
  std::string hosts, hosts_file, spares, folder, ssh = "ssh", remote_program, coordinator;
  std::vector<std::string> variables;  // NAME, NAME=VALUE
  int workers = 0;
  double timeout = 60;  // seconds

  std::chrono::milliseconds patience() const;
  // Empty: this machine. Throws WrongUsage; NotFound for a file that is not there.
  std::vector<cluster::HostSlots> slots() const;
  std::vector<cluster::HostSlots> spare_slots() const;
  // NAME=VALUE, each name once. Throws WrongUsage for one that is not set.
  std::vector<std::string> settings() const;
  // Hosts, workers, what they have, how they are reached, and the timeout. Throws WrongUsage.
  cluster::LaunchOptions launch() const;
};

inline constexpr const char* kWhere = "Where";
inline constexpr const char* kHow = "How";

// Under these two headings. The timeout's default is the one that it has; `workers` is said to be
// the default of that option.
void add_host_options(CLI::App& command, HostOptions& options, const char* workers = "");

}  // namespace lockstep::cli
