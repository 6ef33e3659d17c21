// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "lockstep/cli/command.h"
#include "lockstep/cli/data_cache.h"
#include "lockstep/data/catalogue.h"
#include "lockstep/observe/text.h"
#include "lockstep/recipes/fetch_set.h"

namespace lockstep::cli {
namespace {

int list_data() {
  const data::GetOptions options{.cache_dir = data_cache()};
  for (const data::SetInfo& set : data::list_sets())
    fmt::print("{:<15} {:<9} {:>7} + {:<7} {}\n", set.name,
               data::is_available(set.name, options) ? "here" : "not here",
               observe::format_count(set.train_samples), observe::format_count(set.test_samples),
               set.description);
  return 0;
}

int get_data(const std::vector<std::string>& names) {
  for (const std::string& name : names) data::set_info(name);  // all names first, then the network
  observe::Progress progress(observe::standard_error());
  for (const std::string& name : names)
    fmt::print("{}\n", recipes::fetch_set(name, data_cache(), progress, true));
  return 0;
}

std::vector<std::string> set_names() {
  std::vector<std::string> names;
  for (const data::SetInfo& set : data::list_sets()) names.push_back(set.name);
  return names;
}

void add_list(CLI::App& data, Action& action) {
  data.add_subcommand("list", "The sets there are, with their samples for training and testing")
      ->callback([&action] { action = list_data; });
}

void add_get(CLI::App& data, Action& action) {
  const auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* get = data.add_subcommand("get", "Fetch sets into the cache; prints their folders");
  get->add_option("names", *names, "Which")
      ->type_name("NAME...")
      ->required()
      ->check(CLI::IsMember(set_names()));
  get->callback([&action, names] { action = [names] { return get_data(*names); }; });
}

void add_path(CLI::App& data, Action& action) {
  data.add_subcommand("path", "The cache's folder: LOCKSTEP_DATA, or your cache folder's lockstep")
      ->callback([&action] {
        action = [] {
          fmt::print("{}\n", data_cache());
          return 0;
        };
      });
}

}  // namespace

std::string data_cache() {
  return data::cache_dir(std::getenv("LOCKSTEP_DATA"), std::getenv("XDG_CACHE_HOME"),
                         std::getenv("HOME"));
}

void add_data_command(CLI::App& app, Action& action) {
  CLI::App* data = app.add_subcommand("data", "Data sets: list them, fetch them");
  data->group(kToolGroup)->require_subcommand(1);
  add_list(*data, action);
  add_get(*data, action);
  add_path(*data, action);
}

}  // namespace lockstep::cli
