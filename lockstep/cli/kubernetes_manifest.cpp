// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/membership.h"
#include "lockstep/cli/kubernetes.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPort = 29400;

Json labels(const KubernetesJob& job) { return {{"lockstep-job", job.name}}; }

// Of the servers' own Job.
std::string name_of(const KubernetesJob& job, Role role) {
  return role == Role::worker ? job.name : job.name + "-server";
}

Json metadata(const KubernetesJob& job, Role role = Role::worker) {
  Json json{{"name", name_of(job, role)}};
  if (!job.name_space.empty()) json["namespace"] = job.name_space;
  json["labels"] = labels(job);
  return json;
}

// A pod is in the names from its first moment, ready or not: they wait for the first one.
Json service(const KubernetesJob& job) {
  const Json port{{"name", "coordinator"}, {"port", kPort}};
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", metadata(job)},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},
            {"selector", labels(job)},
            {"ports", Json::array({port})}}}};
}

// Kubernetes puts variables for $(NAME) in commands and values, and makes one $ of two.
std::string literal(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '$' ? "$$" : std::string(1, c);
  return result;
}

Json variable(const std::string& name, const std::string& value) {
  return {{"name", name}, {"value", literal(value)}};
}

Json users_variables(const KubernetesJob& job) {
  Json list = Json::array();
  for (const std::string& setting : job.environment) {
    const std::size_t equals = setting.find('=');
    list.push_back(variable(setting.substr(0, equals), setting.substr(equals + 1)));
  }
  return list;
}

Json secret_variable(const KubernetesJob& job) {
  const Json key{{"name", job.name + "-secret"}, {"key", "secret"}};
  return {{"name", "LOCKSTEP_SECRET"}, {"valueFrom", {{"secretKeyRef", key}}}};
}

Json environment(const KubernetesJob& job, Role role) {
  Json list = users_variables(job);
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) list.push_back(variable(name, value));
  };
  add("LOCKSTEP_ROLE", role == Role::server ? "server" : "");
  add("LOCKSTEP_WORKERS", std::to_string(job.workers));
  add("LOCKSTEP_SERVERS", job.servers > 0 ? std::to_string(job.servers) : "");
  add("LOCKSTEP_COORDINATOR", fmt::format("{0}-0.{0}:{1}", job.name, kPort));
  add("LOCKSTEP_TRANSPORT", job.transport);
  add("LOCKSTEP_INTERFACE", job.interface);
  add("LOCKSTEP_TIMEOUT", job.timeout > 0 ? std::to_string(job.timeout) : "");
  list.push_back(secret_variable(job));
  return list;
}

// What is asked for is also the limit: a worker that is slowed down slows all.
Json resources(const KubernetesJob& job) {
  Json amounts = Json::object();
  if (!job.cpus.empty()) amounts["cpu"] = job.cpus;
  if (!job.memory.empty()) amounts["memory"] = job.memory;
  return {{"requests", amounts}, {"limits", amounts}};
}

// Containers have 64 MB of shared memory unless they are given more. What the pod uses there counts
// as its memory.
Json volumes(const KubernetesJob& job) {
  Json list = Json::array();
  list.push_back({{"name", "shared-memory"}, {"emptyDir", {{"medium", "Memory"}}}});
  if (job.volume_claim.empty()) return list;
  const std::string claim = mounted_claim(job).first;
  list.push_back({{"name", "data"}, {"persistentVolumeClaim", {{"claimName", claim}}}});
  return list;
}

Json mounts(const KubernetesJob& job) {
  Json list = Json::array();
  list.push_back({{"name", "shared-memory"}, {"mountPath", "/dev/shm"}});
  if (!job.volume_claim.empty())
    list.push_back({{"name", "data"}, {"mountPath", mounted_claim(job).second}});
  return list;
}

Json command(const KubernetesJob& job) {
  Json words = Json::array();
  for (const std::string& word : job.command) words.push_back(literal(word));
  return words;
}

Json container(const KubernetesJob& job, Role role) {
  Json json{{"name", to_string(role)}, {"image", job.image}, {"command", command(job)}};
  if (!job.folder.empty()) json["workingDir"] = job.folder;
  json["env"] = environment(job, role);
  if (!job.cpus.empty() || !job.memory.empty()) json["resources"] = resources(job);
  const Json port{{"containerPort", kPort}};
  json["ports"] = Json::array({port});
  json["volumeMounts"] = mounts(job);
  return json;
}

Json pod(const KubernetesJob& job, Role role) {
  Json own = labels(job);
  own["lockstep-role"] = to_string(role);
  return {{"metadata", {{"labels", own}}},
          {"spec",
           {{"subdomain", job.name},
            {"restartPolicy", "Never"},
            {"containers", Json::array({container(job, role)})},
            {"volumes", volumes(job)}}}};
}

// A pod that fails ends the job: nothing is started again by Kubernetes. Where the others can do
// without a server, Kubernetes leaves them alone.
Json indexed_job(const KubernetesJob& job, Role role) {
  const int pods = role == Role::worker ? job.workers : job.servers;
  const bool may_fail = role == Role::server && job.tolerates_lost_servers;
  return {{"apiVersion", "batch/v1"},
          {"kind", "Job"},
          {"metadata", metadata(job, role)},
          {"spec",
           {{"completionMode", "Indexed"},
            {"completions", pods},
            {"parallelism", pods},
            {may_fail ? "backoffLimitPerIndex" : "backoffLimit", 0},
            {"template", pod(job, role)}}}};
}

}  // namespace

std::string kubernetes_manifest(const KubernetesJob& job) {
  check_kubernetes(job);
  Json items = Json::array({service(job), indexed_job(job, Role::worker)});
  if (job.servers > 0) items.push_back(indexed_job(job, Role::server));
  const Json list{{"apiVersion", "v1"}, {"kind", "List"}, {"items", items}};
  return list.dump(2) + "\n";
}

std::string kubernetes_advice(const KubernetesJob& job) {
  const std::string in = job.name_space.empty() ? "" : " --namespace " + job.name_space;
  return fmt::format(
      "Before the first time, the secret by which workers know each other:\n"
      "  openssl rand -hex 32 | kubectl create secret generic {}-secret{} "
      "--from-file=secret=/dev/stdin\n"
      "The results are rank 0's: kubectl logs -f -l batch.kubernetes.io/job-completion-index=0,"
      "lockstep-role=worker,lockstep-job={}{}\n",
      job.name, in, job.name, in);
}

}  // namespace lockstep::cli
