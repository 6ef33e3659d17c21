// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

// What `lockstep launch --kubernetes` is told.
struct KubernetesJob {
  bool wanted = false;
  std::string name = {}, image = {}, name_space = {};
  std::string cpus = {}, memory = {}, shared_memory = {};          // empty: the usual
  std::optional<std::int64_t> user = {}, ttl = {}, deadline = {};  // none: the usual
  std::optional<std::int64_t> retries = {};
  std::vector<std::string> tolerations = {};  // KEY[=VALUE][:EFFECT]
  std::string volume_claim = {};              // NAME, NAME:/WHERE
  int workers = 0, servers = 0;
  bool tolerates_lost_servers = false;
  bool survives = false;  // the loss of workers: pods may go and come
  std::string transport = {}, interface = {}, ports = {};
  std::string folder = {};                    // where the program runs; empty: the image's own
  std::int64_t timeout = 0;                   // seconds until all pods have met; 0: the usual
  std::vector<std::string> environment = {};  // NAME=VALUE
  std::vector<std::string> command = {};
};

void add_kubernetes_options(CLI::App& command, KubernetesJob& job);

// Throws WrongUsage when options of a manifest are given and no manifest is wanted.
void check_not_kubernetes(const KubernetesJob& job);

// Throws WrongUsage naming the option that no manifest can be made of.
void check_kubernetes(const KubernetesJob& job);

// Name and place of the claim that all pods mount.
std::pair<std::string, std::string> mounted_claim(const KubernetesJob& job);

// An Indexed Job of one pod for each worker, another one of the servers where there are any, and
// the Service by which all find the first worker. Where workers survive each other's loss, a pod
// that goes is replaced, and the job is done when the first pod is; a List in JSON, which is YAML
// too, for kubectl apply -f -. The secret is not in it, only its name.
std::string kubernetes_manifest(const KubernetesJob& job);

// What to do besides: how the secret is made, and where the results are.
std::string kubernetes_advice(const KubernetesJob& job);

}  // namespace lockstep::cli
