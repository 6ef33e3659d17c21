// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::comm {

// What went wrong between ranks: which one, on which host, in which operation.
class CommError : public Error {
 public:
  CommError(const std::string& what, int rank, std::string host, std::string operation)
      : Error(what), rank_(rank), host_(std::move(host)), operation_(std::move(operation)) {}
  // The rank that is missed or to blame; -1 when there is none in particular.
  int rank() const { return rank_; }
  const std::string& host() const { return host_; }
  const std::string& operation() const { return operation_; }

 private:
  int rank_;
  std::string host_;
  std::string operation_;
};

// One side would not have the other: a wrong secret, another version or configuration.
class Refused final : public Error {
 public:
  using Error::Error;
  const char* kind() const noexcept override { return "Refused"; }
};

// The peer's end of the connection is gone.
class PeerLost final : public CommError {
 public:
  using CommError::CommError;
  const char* kind() const noexcept override { return "PeerLost"; }
};

// The peer did not do its part before the deadline.
class Timeout final : public CommError {
 public:
  using CommError::CommError;
  const char* kind() const noexcept override { return "Timeout"; }
};

// A message of another generation than the server's: its sender missed a change of membership, or
// the server has not heard of it yet.
class StaleGeneration final : public CommError {
 public:
  StaleGeneration(const std::string& what, std::string host, std::string operation,
                  std::uint64_t sent, std::uint64_t current)
      : CommError(what, -1, std::move(host), std::move(operation)),
        sent_(sent),
        current_(current) {}
  const char* kind() const noexcept override { return "StaleGeneration"; }
  std::uint64_t sent() const { return sent_; }
  std::uint64_t current() const { return current_; }  // the server's

 private:
  std::uint64_t sent_, current_;
};

// The server took the request and could not do what it asks; its own words say why.
class RequestFailed final : public CommError {
 public:
  using CommError::CommError;
  const char* kind() const noexcept override { return "RequestFailed"; }
};

// Somebody called abort: here, or on another rank.
class Aborted final : public CommError {
 public:
  using CommError::CommError;
  const char* kind() const noexcept override { return "Aborted"; }
};

}  // namespace lockstep::comm
