// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/recipes/run_config.h"

namespace lockstep::cli {

// What a run was started with: kept in its folder, which the first worker alone may see.
struct BeginOfRun {
  recipes::RunConfig config;
  std::vector<std::string> classes;
  std::string vocabulary;  // empty: none

  std::string to_text() const {
    return nlohmann::json{
        {"config", to_json(config)}, {"classes", classes}, {"vocabulary", vocabulary}}
        .dump();
  }
  static BeginOfRun from_text(const std::string& text) {
    const auto json = nlohmann::json::parse(text);
    return {recipes::config_from_json(json.at("config"), "worker 0"), json.at("classes"),
            json.at("vocabulary")};
  }
};

}  // namespace lockstep::cli
