// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/kubernetes.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <regex>
#include <utility>

#include "lockstep/cli/command.h"
#include "lockstep/cli/yaml_string.h"

namespace lockstep::cli {
namespace {

constexpr const char* kGroup = "A manifest for Kubernetes";
constexpr int kPort = 29400;
constexpr const char* kDataPath = "/data";
constexpr std::size_t kLongestLabel = 63;  // of a pod's host name: NAME-INDEX
constexpr std::size_t kLongestName = 253;
constexpr std::size_t kLongestValue = 1024;

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
  if (!yaml_string(value))
    throw WrongUsage(fmt::format("{}: is not UTF-8, expected text in a manifest", what));
}

std::string quoted(const std::string& text) { return yaml_string(text).value_or(""); }

// Name and path of NAME[:PATH].
std::pair<std::string, std::string> claim_of(const KubernetesJob& job) {
  const std::size_t colon = job.volume_claim.find(':');
  return {job.volume_claim.substr(0, colon),
          colon == std::string::npos ? kDataPath : job.volume_claim.substr(colon + 1)};
}

void check_claim(const KubernetesJob& job) {
  check_form("--volume-claim", job.volume_claim,
             R"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(:/[^\s:]+)?)",
             "a claim's name and where it is mounted, such as runs or runs:/data");
  const auto [name, path] = claim_of(job);
  check_length("--volume-claim: the name", name.size(), kLongestName);
  const std::filesystem::path place = std::filesystem::path(path + "/").lexically_normal();
  if (place == "/dev/shm/" || place == "/")
    throw WrongUsage(
        fmt::format("--volume-claim: '{}' is the pod's own, expected another folder, such as {}",
                    path, kDataPath));
}

// The manifest sets these by itself.
constexpr std::array kOwnVariables{"LOCKSTEP_WORKERS",   "LOCKSTEP_COORDINATOR",
                                   "LOCKSTEP_TRANSPORT", "LOCKSTEP_INTERFACE",
                                   "LOCKSTEP_TIMEOUT",   "LOCKSTEP_SECRET"};

void check_variable(const std::string& setting) {
  const std::string name = setting.substr(0, setting.find('='));
  check_form("--env", name, "[-._a-zA-Z][-._a-zA-Z0-9]*",
             "a name of letters, digits, '_', '-' and '.' with no digit first");
  if (std::count(kOwnVariables.begin(), kOwnVariables.end(), name) > 0)
    throw WrongUsage(
        fmt::format("--env {}: the manifest sets it, by the options of lockstep launch", name));
  check_text("--env " + name, setting);
}

void check(const KubernetesJob& job) {
  if (job.workers < 1) throw WrongUsage("--kubernetes: needs --workers N, the number of pods");
  const std::size_t digits = std::to_string(job.workers - 1).size();
  check_label("--name", job.name, kLongestLabel - 1 - digits);
  check_form("--image", job.image, R"([^\s]+)", "an image such as registry/lockstep:1.0");
  if (!job.name_space.empty()) check_label("--namespace", job.name_space, kLongestLabel);
  if (!job.cpus.empty())
    check_form("--cpus", job.cpus, R"([0-9]+(\.[0-9]+|m)?)", "a quantity such as 4, 0.5 or 500m");
  if (!job.memory.empty())
    check_form("--memory", job.memory, R"([0-9]+(\.[0-9]+)?([KMGTPE]i?|k|m)?)",
               "a quantity such as 8Gi");
  if (!job.volume_claim.empty()) check_claim(job);
  if (!job.folder.empty()) {
    check_text("--folder", job.folder);
    if (!job.folder.starts_with('/'))
      throw WrongUsage(
          fmt::format("--folder {}: expected a path from / on, in the container", job.folder));
  }
  for (const std::string& setting : job.environment) check_variable(setting);
  if (job.command.empty())
    throw WrongUsage("launch: no program was named: lockstep launch --kubernetes ... -- PROGRAM");
  for (const std::string& word : job.command) check_text("launch: the program's words", word);
}

// Kubernetes puts variables for $(NAME) in commands and values, and makes one $ of two.
std::string literal(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '$' ? "$$" : std::string(1, c);
  return result;
}

std::string metadata(const KubernetesJob& job) {
  std::string text = fmt::format("metadata:\n  name: {}\n", quoted(job.name));
  if (!job.name_space.empty()) text += fmt::format("  namespace: {}\n", quoted(job.name_space));
  return text + fmt::format("  labels:\n    lockstep-job: {}\n", quoted(job.name));
}

std::string service(const KubernetesJob& job) {
  // A pod is in the names from its first moment, ready or not: they wait for the first one.
  return "apiVersion: v1\nkind: Service\n" + metadata(job) +
         fmt::format(
             "spec:\n  clusterIP: None\n  publishNotReadyAddresses: true\n"
             "  selector:\n    lockstep-job: {}\n"
             "  ports:\n  - name: coordinator\n    port: {}\n",
             quoted(job.name), kPort);
}

std::string variable(const std::string& name, const std::string& value) {
  return fmt::format("        - name: {}\n          value: {}\n", quoted(name),
                     quoted(literal(value)));
}

std::string variable_unless_empty(const char* name, const std::string& value) {
  return value.empty() ? "" : variable(name, value);
}

std::string users_variables(const KubernetesJob& job) {
  std::string text;
  for (const std::string& setting : job.environment) {
    const std::size_t equals = setting.find('=');
    text += variable(setting.substr(0, equals), setting.substr(equals + 1));
  }
  return text;
}

std::string environment(const KubernetesJob& job) {
  return "        env:\n" + users_variables(job) +
         variable("LOCKSTEP_WORKERS", std::to_string(job.workers)) +
         variable("LOCKSTEP_COORDINATOR", fmt::format("{0}-0.{0}:{1}", job.name, kPort)) +
         variable_unless_empty("LOCKSTEP_TRANSPORT", job.transport) +
         variable_unless_empty("LOCKSTEP_INTERFACE", job.interface) +
         variable_unless_empty("LOCKSTEP_TIMEOUT",
                               job.timeout > 0 ? std::to_string(job.timeout) : "") +
         fmt::format(
             "        - name: LOCKSTEP_SECRET\n          valueFrom:\n"
             "            secretKeyRef:\n              name: {}-secret\n"
             "              key: secret\n",
             job.name);
}

// What is asked for is also the limit: a worker that is slowed down slows all.
std::string resources(const KubernetesJob& job) {
  std::string list;
  for (const auto& [name, value] : {std::pair{"cpu", job.cpus}, std::pair{"memory", job.memory}})
    if (!value.empty()) list += fmt::format("            {}: {}\n", name, quoted(value));
  if (list.empty()) return {};
  return "        resources:\n          requests:\n" + list + "          limits:\n" + list;
}

// Containers have 64 MB of shared memory unless they are given more. What the pod uses there counts
// as its memory.
std::string volumes(const KubernetesJob& job) {
  std::string text =
      "      volumes:\n      - name: shared-memory\n        emptyDir:\n          medium: Memory\n";
  if (!job.volume_claim.empty())
    text +=
        fmt::format("      - name: data\n        persistentVolumeClaim:\n          claimName: {}\n",
                    quoted(claim_of(job).first));
  return text;
}

std::string mounts(const KubernetesJob& job) {
  std::string text =
      "        volumeMounts:\n        - name: shared-memory\n          mountPath: /dev/shm\n";
  if (job.volume_claim.empty()) return text;
  return text + fmt::format("        - name: data\n          mountPath: {}\n",
                            quoted(claim_of(job).second));
}

std::string container(const KubernetesJob& job) {
  std::string words;
  for (const std::string& word : job.command)
    words += (words.empty() ? "" : ", ") + quoted(literal(word));
  return fmt::format("      - name: worker\n        image: {}\n        command: [{}]\n",
                     quoted(job.image), words) +
         (job.folder.empty() ? "" : fmt::format("        workingDir: {}\n", quoted(job.folder))) +
         environment(job) + resources(job) +
         fmt::format("        ports:\n        - containerPort: {}\n", kPort) + mounts(job);
}

// A worker that fails ends the job: nothing is started again by Kubernetes.
std::string indexed_job(const KubernetesJob& job) {
  return "apiVersion: batch/v1\nkind: Job\n" + metadata(job) +
         fmt::format(
             "spec:\n  completionMode: Indexed\n  completions: {0}\n  parallelism: {0}\n"
             "  backoffLimit: 0\n"
             "  template:\n    metadata:\n      labels:\n        lockstep-job: {1}\n"
             "    spec:\n      subdomain: {1}\n      restartPolicy: Never\n"
             "      containers:\n",
             job.workers, quoted(job.name)) +
         container(job) + volumes(job);
}

std::string introduction(const KubernetesJob& job) {
  const std::string in = job.name_space.empty() ? "" : " --namespace " + job.name_space;
  return fmt::format(
      "# Before the first time, the secret by which workers know each other:\n"
      "#   openssl rand -hex 32 | kubectl create secret generic {}-secret{} "
      "--from-file=secret=/dev/stdin\n"
      "# The results are rank 0's: kubectl logs -f -l batch.kubernetes.io/job-completion-index=0,"
      "lockstep-job={}{}\n",
      job.name, in, job.name, in);
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
  add("--cpus", job.cpus, "N", "Of each worker");
  add("--memory", job.memory, "SIZE", "Of each worker, such as 8Gi");
  add("--volume-claim", job.volume_claim, "NAME[:PATH]",
      "A claim that all pods mount, for data and the run folder; at /data by default. "
      "ReadWriteMany, when they run on several nodes");
}

void check_not_kubernetes(const KubernetesJob& job) {
  for (const auto& [option, value] :
       {std::pair{"--name", job.name}, std::pair{"--image", job.image},
        std::pair{"--namespace", job.name_space}, std::pair{"--cpus", job.cpus},
        std::pair{"--memory", job.memory}, std::pair{"--volume-claim", job.volume_claim}})
    if (!value.empty())
      throw WrongUsage(
          fmt::format("{} {}: is for --kubernetes, which is not there", option, value));
}

std::string kubernetes_manifest(const KubernetesJob& job) {
  check(job);
  return introduction(job) + service(job) + "---\n" + indexed_job(job);
}

}  // namespace lockstep::cli
