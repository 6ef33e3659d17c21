// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/kubernetes.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>

#include "lockstep/cli/command.h"
#include "lockstep/cli/options.h"

namespace lockstep::cli {
namespace {

constexpr const char* kGroup = "A manifest for Kubernetes";
constexpr std::size_t kLongestLabel = 63;  // of a pod's host name: NAME-INDEX
constexpr std::size_t kLongestName = 253;
constexpr std::size_t kLongestValue = 1024;
constexpr std::int64_t kLargestUser = 2147483647;
constexpr std::int64_t kLongestJob = 10LL * 365 * 24 * 3600;
constexpr const char* kQuantity = R"([0-9]+(\.[0-9]+)?([KMGTPE]i?|k|m)?)";

// Before a regular expression sees it, which takes stack for each character.
void check_length(const char* option, std::size_t length, std::size_t longest) {
  if (length > longest)
    throw WrongUsage(
        fmt::format("{}: has {} characters, expected at most {}", option, length, longest));
}

void check_form(const char* option, const std::string& value, const char* form, const char* what) {
  check_length(option, value.size(), kLongestValue);
  if (!std::regex_match(value, std::regex(form)))
    throw WrongUsage(fmt::format("{}: '{}', expected {}", option, value, what));
}

void check_label(const char* option, const std::string& value, std::size_t longest) {
  check_form(option, value, "[a-z]([-a-z0-9]*[a-z0-9])?",
             "small letters, digits and '-', with a letter first");
  check_length(option, value.size(), longest);
}

// A manifest holds text, and not any bytes.
void check_text(const std::string& what, const std::string& value) {
  try {
    nlohmann::json(value).dump();
  } catch (const nlohmann::json::exception&) {
    throw WrongUsage(fmt::format("{}: is not UTF-8, expected text in a manifest", what));
  }
}

void check_claim(const KubernetesJob& job) {
  check_form("--volume-claim", job.volume_claim,
             R"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(:/[^\s:]+)?)",
             "a claim's name and where it is mounted, such as runs or runs:/data");
  const auto [name, path] = mounted_claim(job);
  check_length("--volume-claim: the name", name.size(), kLongestName);
  const std::filesystem::path place = std::filesystem::path(path + "/").lexically_normal();
  if (place == "/dev/shm/" || place == "/")
    throw WrongUsage(fmt::format(
        "--volume-claim: '{}' is the pod's own, expected another folder, such as /data", path));
}

std::string text_of(const std::optional<std::int64_t>& number) {
  return number ? std::to_string(*number) : "";
}

// The manifest sets these by itself.
constexpr std::array kOwnVariables{
    "LOCKSTEP_ROLE",        "LOCKSTEP_WORKERS",   "LOCKSTEP_SERVERS",
    "LOCKSTEP_COORDINATOR", "LOCKSTEP_TRANSPORT", "LOCKSTEP_INTERFACE",
    "LOCKSTEP_TIMEOUT",     "LOCKSTEP_SECRET",    "LOCKSTEP_PORTS"};

void check_variable(const std::string& setting) {
  const std::string name = setting.substr(0, setting.find('='));
  check_form("--env", name, "[-._a-zA-Z][-._a-zA-Z0-9]*",
             "a name of letters, digits, '_', '-' and '.' with no digit first");
  if (std::count(kOwnVariables.begin(), kOwnVariables.end(), name) > 0)
    throw WrongUsage(
        fmt::format("--env {}: the manifest sets it, by the options of lockstep launch", name));
  check_text("--env " + name, setting);
}

}  // namespace

void add_kubernetes_options(CLI::App& command, KubernetesJob& job) {
  command
      .add_flag("--kubernetes", job.wanted,
                "Start nothing; print a manifest of an Indexed Job of --workers pods")
      ->group(kGroup);
  const auto add = [&](const char* name, std::string& value, const char* type, const char* what) {
    command.add_option(name, value, what)->type_name(type)->group(kGroup);
  };
  add("--name", job.name, "NAME", "Of the job");
  add("--image", job.image, "IMAGE", "The container's image, with the program in it");
  add("--namespace", job.name_space, "NAME", "Where the job lives");
  add("--cpus", job.cpus, "N", "Of each worker; 2 by default");
  add("--memory", job.memory, "SIZE", "Of each worker, such as 8Gi; 4Gi by default");
  add("--shm-size", job.shared_memory, "SIZE",
      "Of a pod's /dev/shm, a part of its memory; 1Gi by default");
  add_count(command, kGroup, "--user", job.user, "UID",
            "Who runs the program, and owns what it writes; 10001 by default", 1, kLargestUser);
  add_count(command, kGroup, "--ttl", job.ttl, "SECONDS",
            "Until a job that has ended is removed; a day by default", 0, kMostSeconds);
  add_count(command, kGroup, "--deadline", job.deadline, "SECONDS",
            "Until the job is ended; seven days by default", 1, kLongestJob);
  add_count(command, kGroup, "--retries", job.retries, "N",
            "How often a pod that failed is replaced (6 where the others go on meanwhile), or all "
            "start again (0): with --resume auto",
            0, 1000);
  command
      .add_option("--toleration", job.tolerations,
                  "A taint of nodes that pods may run on all the same")
      ->type_name("KEY[=VALUE][:EFFECT]")
      ->allow_extra_args(false)
      ->group(kGroup);
  add("--volume-claim", job.volume_claim, "NAME[:PATH]",
      "A claim that all pods mount, for data and the run folder; at /data by default. "
      "ReadWriteMany, when they run on several nodes");
}

void check_kubernetes(const KubernetesJob& job) {
  if (job.workers < 1) throw WrongUsage("--kubernetes: needs --workers N, the number of pods");
  const std::size_t digits = std::to_string(job.workers - 1).size();
  const std::size_t servers_digits =
      job.servers > 0 ? std::string("-server").size() + std::to_string(job.servers - 1).size() : 0;
  check_label("--name", job.name, kLongestLabel - 1 - std::max(digits, servers_digits));
  check_form("--image", job.image, R"([^\s]+)", "an image such as registry/lockstep:1.0");
  if (!job.name_space.empty()) check_label("--namespace", job.name_space, kLongestLabel);
  if (!job.cpus.empty())
    check_form("--cpus", job.cpus, R"([0-9]+(\.[0-9]+|m)?)", "a quantity such as 4, 0.5 or 500m");
  for (const auto& [option, value] :
       {std::pair{"--memory", job.memory}, std::pair{"--shm-size", job.shared_memory}})
    if (!value.empty()) check_form(option, value, kQuantity, "a quantity such as 8Gi");
  for (const std::string& one : job.tolerations)
    check_form("--toleration", one,
               "[a-zA-Z0-9]([-a-zA-Z0-9._/]*[a-zA-Z0-9])?(=[-a-zA-Z0-9._]*)?"
               "(:(NoSchedule|PreferNoSchedule|NoExecute))?",
               "KEY[=VALUE][:NoSchedule|PreferNoSchedule|NoExecute]");
  if (!job.volume_claim.empty()) check_claim(job);
  for (const auto& [option, value] :
       {std::pair{"--image", job.image}, std::pair{"--volume-claim", job.volume_claim},
        std::pair{"--interface", job.interface}, std::pair{"--folder", job.folder}})
    check_text(option, value);
  if (!job.folder.empty() && !job.folder.starts_with('/'))
    throw WrongUsage(
        fmt::format("--folder {}: expected a path from / on, in the container", job.folder));
  for (const std::string& setting : job.environment) check_variable(setting);
  if (job.command.empty())
    throw WrongUsage("launch: no program was named: lockstep launch --kubernetes ... -- PROGRAM");
  for (const std::string& word : job.command) check_text("launch: the program's words", word);
}

std::pair<std::string, std::string> mounted_claim(const KubernetesJob& job) {
  const std::size_t colon = job.volume_claim.find(':');
  return {job.volume_claim.substr(0, colon),
          colon == std::string::npos ? "/data" : job.volume_claim.substr(colon + 1)};
}

void check_not_kubernetes(const KubernetesJob& job) {
  for (const auto& [option, value] :
       {std::pair{"--name", job.name}, std::pair{"--image", job.image},
        std::pair{"--namespace", job.name_space}, std::pair{"--cpus", job.cpus},
        std::pair{"--memory", job.memory}, std::pair{"--shm-size", job.shared_memory},
        std::pair{"--user", text_of(job.user)}, std::pair{"--ttl", text_of(job.ttl)},
        std::pair{"--deadline", text_of(job.deadline)},
        std::pair{"--retries", text_of(job.retries)},
        std::pair{"--toleration", job.tolerations.empty() ? "" : job.tolerations[0]},
        std::pair{"--volume-claim", job.volume_claim}})
    if (!value.empty())
      throw WrongUsage(
          fmt::format("{} {}: is for --kubernetes, which is not there", option, value));
}

}  // namespace lockstep::cli
