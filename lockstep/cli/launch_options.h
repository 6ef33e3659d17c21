// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>
#include <vector>

namespace lockstep::cli {

// How the members of a job are connected: of `lockstep launch` and `lockstep train`.
struct ConnectOptions {
  std::string transport, interface;
  bool secure = false;

  // Empty: what fits.
  std::string transport_name() const { return secure ? "zmq" : transport; }
};

// Of --ssh: a program and its options. Throws WrongUsage when there are none.
std::vector<std::string> ssh_words(const std::string& text);

// Of an option in seconds.
CLI::Validator more_than_zero();
std::chrono::milliseconds milliseconds_of(double seconds);

void add_connect_options(CLI::App& command, ConnectOptions& options, const char* group);

}  // namespace lockstep::cli
