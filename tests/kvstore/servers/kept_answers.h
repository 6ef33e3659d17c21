// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/kvstore/servers/answers.h"

namespace lockstep::testing {

// Answers as they were given, by the request's number.
struct KeptAnswers final : kvstore::Answers {
  void reply(const comm::MessageEvent& request, comm::Payload payload, int) override {
    replies.emplace_back(request.request, std::move(payload));
  }
  void fail(const comm::MessageEvent& request, const std::string& why) override {
    failures.emplace_back(request.request, why);
  }
  std::vector<std::pair<std::uint64_t, comm::Payload>> replies;
  std::vector<std::pair<std::uint64_t, std::string>> failures;
};

}  // namespace lockstep::testing
