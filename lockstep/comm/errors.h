// SPDX-License-Identifier: Apache-2.0
#pragma once

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

// Somebody called abort: here, or on another rank.
class Aborted final : public CommError {
 public:
  using CommError::CommError;
  const char* kind() const noexcept override { return "Aborted"; }
};

}  // namespace lockstep::comm
