// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/membership.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/kubernetes.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPort = 29400;  // and the next one: of the coordinator
constexpr int kOtherPorts = 98;
constexpr const char *kCpus = "2", *kMemory = "4Gi", *kSharedMemory = "1Gi";
constexpr std::int64_t kUser = 10001;
constexpr std::int64_t kDay = 24 * 3600;
constexpr int kReplacements = 6;   // of a pod, as Kubernetes' own default
constexpr int kGraceSeconds = 60;  // to finish a step and write a checkpoint

std::string given(const std::string& value, const std::string& usual) {
  return value.empty() ? usual : value;
}

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
  const Json data{{"name", "coordinator-data"}, {"port", kPort + 1}};
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", metadata(job)},
          {"spec",
           {{"clusterIP", "None"},
            {"publishNotReadyAddresses", true},
            {"selector", labels(job)},
            {"ports", Json::array({port, data})}}}};
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

// Where policies of the network let through what is named: beside the coordinator's, so many as the
// members of a job may listen at.
std::string ports_of(const KubernetesJob& job) {
  const int more = std::max(kOtherPorts, job.workers + job.servers + 16);
  return given(job.ports, fmt::format("{}-{}", kPort + 2, kPort + 1 + more));
}

bool has_variable(const KubernetesJob& job, const std::string& name) {
  return std::any_of(job.environment.begin(), job.environment.end(),
                     [&](const std::string& one) { return one.starts_with(name + "="); });
}

Json environment(const KubernetesJob& job, Role role) {
  Json list = users_variables(job);
  // The user may be none of the image's own.
  if (!has_variable(job, "HOME")) list.push_back(variable("HOME", "/tmp"));
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) list.push_back(variable(name, value));
  };
  add("LOCKSTEP_ROLE", role == Role::server ? "server" : "");
  add("LOCKSTEP_WORKERS", std::to_string(job.workers));
  add("LOCKSTEP_SERVERS", job.servers > 0 ? std::to_string(job.servers) : "");
  add("LOCKSTEP_COORDINATOR", fmt::format("{0}-0.{0}:{1}", job.name, kPort));
  add("LOCKSTEP_TRANSPORT", job.transport);
  add("LOCKSTEP_INTERFACE", job.interface);
  add("LOCKSTEP_PORTS", ports_of(job));
  add("LOCKSTEP_TIMEOUT", job.timeout > 0 ? std::to_string(job.timeout) : "");
  list.push_back(secret_variable(job));
  return list;
}

// What is asked for is also the limit: a worker that is slowed down slows all.
Json resources(const KubernetesJob& job) {
  const Json amounts{{"cpu", given(job.cpus, kCpus)}, {"memory", given(job.memory, kMemory)}};
  return {{"requests", amounts}, {"limits", amounts}};
}

// Containers have 64 MB of shared memory unless they are given more. What the pod uses there counts
// as its memory.
Json volumes(const KubernetesJob& job) {
  Json list = Json::array();
  const std::string size = given(job.shared_memory, kSharedMemory);
  list.push_back(
      {{"name", "shared-memory"}, {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", size}}}});
  list.push_back({{"name", "tmp"}, {"emptyDir", Json::object()}});
  if (job.volume_claim.empty()) return list;
  const std::string claim = mounted_claim(job).first;
  list.push_back({{"name", "data"}, {"persistentVolumeClaim", {{"claimName", claim}}}});
  return list;
}

Json mounts(const KubernetesJob& job) {
  Json list = Json::array();
  list.push_back({{"name", "shared-memory"}, {"mountPath", "/dev/shm"}});
  list.push_back({{"name", "tmp"}, {"mountPath", "/tmp"}});
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
  json["resources"] = resources(job);
  json["securityContext"] = {{"allowPrivilegeEscalation", false},
                             {"capabilities", {{"drop", Json::array({"ALL"})}}}};
  const Json port{{"name", "coordinator"}, {"containerPort", kPort}};
  const Json data{{"name", "coordinator-data"}, {"containerPort", kPort + 1}};
  json["ports"] = Json::array({port, data});
  json["volumeMounts"] = mounts(job);
  return json;
}

// As the restricted profile of Kubernetes' pod security standards wants it.
Json pod_security(const KubernetesJob& job) {
  const std::int64_t user = job.user.value_or(kUser);
  return {{"runAsNonRoot", true},
          {"runAsUser", user},
          {"runAsGroup", user},
          {"fsGroup", user},
          {"fsGroupChangePolicy", "OnRootMismatch"},
          {"seccompProfile", {{"type", "RuntimeDefault"}}}};
}

// Over the nodes as far as there are some: a node that is lost takes few pods with it.
Json spread(const KubernetesJob& job) {
  const Json over{{"maxSkew", 1},
                  {"topologyKey", "kubernetes.io/hostname"},
                  {"whenUnsatisfiable", "ScheduleAnyway"},
                  {"labelSelector", {{"matchLabels", labels(job)}}}};
  return Json::array({over});
}

// KEY[=VALUE][:EFFECT]
Json toleration(const std::string& text) {
  const std::size_t colon = text.find(':'), equals = text.substr(0, colon).find('=');
  Json json{{"key", text.substr(0, std::min(colon, equals))}};
  json["operator"] = equals == std::string::npos ? "Exists" : "Equal";
  if (equals != std::string::npos) json["value"] = text.substr(0, colon).substr(equals + 1);
  if (colon != std::string::npos) json["effect"] = text.substr(colon + 1);
  return json;
}

Json pod_spec(const KubernetesJob& job, Role role) {
  Json spec{{"subdomain", job.name},
            {"restartPolicy", "Never"},
            {"terminationGracePeriodSeconds", kGraceSeconds},
            {"automountServiceAccountToken", false},
            {"enableServiceLinks", false},
            {"securityContext", pod_security(job)},
            {"topologySpreadConstraints", spread(job)}};
  for (const std::string& one : job.tolerations) spec["tolerations"].push_back(toleration(one));
  spec["containers"] = Json::array({container(job, role)});
  spec["volumes"] = volumes(job);
  return spec;
}

Json pod(const KubernetesJob& job, Role role) {
  Json own = labels(job);
  own["lockstep-role"] = to_string(role);
  return {{"metadata", {{"labels", own}}}, {"spec", pod_spec(job, role)}};
}

// Wrong usage stays wrong. A pod that Kubernetes itself took away has not failed.
Json failure_policy() {
  const Json wrong{{"action", "FailJob"},
                   {"onExitCodes", {{"operator", "In"}, {"values", Json::array({kWrongUsage})}}}};
  const Json taken{
      {"action", "Ignore"},
      {"onPodConditions", Json::array({{{"type", "DisruptionTarget"}, {"status", "True"}}})}};
  return {{"rules", Json::array({wrong, taken})}};
}

// The first pod coordinates, and tells the result: the job is done when it is, whoever comes late.
void let_pods_come_and_go(const KubernetesJob& job, Json& spec) {
  spec["backoffLimitPerIndex"] = job.retries.value_or(kReplacements);
  spec["podFailurePolicy"] = failure_policy();
  spec["successPolicy"] = {{"rules", Json::array({{{"succeededIndexes", "0"}}})}};
}

// Where the others cannot do without it, a pod that fails ends the job, and with it all pods: so
// many failures are one try.
Json indexed_job(const KubernetesJob& job, Role role) {
  const int pods = role == Role::worker ? job.workers : job.servers;
  Json spec{{"completionMode", "Indexed"}, {"completions", pods}, {"parallelism", pods}};
  if (role == Role::worker && job.survives)
    let_pods_come_and_go(job, spec);
  else if (role == Role::server && job.tolerates_lost_servers)
    spec["backoffLimitPerIndex"] = job.retries.value_or(0);
  else
    spec["backoffLimit"] = job.retries.value_or(0) * pods;
  spec["ttlSecondsAfterFinished"] = job.ttl.value_or(kDay);
  spec["activeDeadlineSeconds"] = job.deadline.value_or(7 * kDay);
  spec["template"] = pod(job, role);
  return {{"apiVersion", "batch/v1"},
          {"kind", "Job"},
          {"metadata", metadata(job, role)},
          {"spec", spec}};
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
