// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/job_status.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/observe/text.h"

namespace lockstep::observe {
namespace {

using Json = nlohmann::ordered_json;

// Of status.json, which comes about once a second.
constexpr double kStale = 10.0;

constexpr std::array kStates{"starting", "training", "finished", "stopped", "failed"};

std::string path_of(const std::string& folder) { return folder + "/status.json"; }

JobStatus::State state_of(const std::string& name) {
  for (std::size_t i = 0; i < kStates.size(); ++i)
    if (name == kStates[i]) return static_cast<JobStatus::State>(i);
  throw Corrupt("state '{}' is not known", name);
}

Json json_of(const ProcessMark& mark) {
  return {{"host", mark.host}, {"pid", mark.pid}, {"start", mark.start}};
}

ProcessMark mark_of(const Json& json) {
  return {json.at("host"), json.at("pid"), json.at("start")};
}

Json json_of(const MemberStatus& member) {
  Json json{
      {"id", member.id},           {"role", member.role},
      {"rank", member.rank},       {"host", member.host},
      {"pid", member.pid},         {"shards", Json::array({member.first_shard, member.end_shard})},
      {"step", member.step},       {"compute_s", member.compute_s},
      {"wait_s", member.wait_s},   {"bytes_sent", member.bytes_sent},
      {"heard_s", member.heard_s}, {"has_left", member.has_left},
      {"waiting", nullptr}};
  if (member.waiting)
    json["waiting"] = {{"operation", member.waiting->operation},
                       {"rank", member.waiting->rank},
                       {"seconds", member.waiting->seconds}};
  return json;
}

MemberStatus member_of(const Json& json) {
  MemberStatus member{.id = json.at("id"),
                      .role = json.at("role"),
                      .rank = json.at("rank"),
                      .host = json.at("host"),
                      .pid = json.at("pid"),
                      .first_shard = json.at("shards").at(0),
                      .end_shard = json.at("shards").at(1),
                      .step = json.at("step"),
                      .compute_s = json.at("compute_s"),
                      .wait_s = json.at("wait_s"),
                      .bytes_sent = json.at("bytes_sent"),
                      .heard_s = json.at("heard_s"),
                      .has_left = json.at("has_left")};
  const Json& waiting = json.at("waiting");
  if (!waiting.is_null())
    member.waiting =
        MemberStatus::Waiting{waiting.at("operation"), waiting.at("rank"), waiting.at("seconds")};
  return member;
}

Json json_of(const JobStatus& status) {
  Json members = Json::array();
  for (const MemberStatus& member : status.members) members.push_back(json_of(member));
  return {{"state", kStates[static_cast<std::size_t>(status.state)]},
          {"message", status.message},
          {"recipe", status.recipe},
          {"run", status.run},
          {"generation", status.generation},
          {"workers", status.workers},
          {"servers", status.servers},
          {"step", status.step},
          {"total_steps", status.total_steps},
          {"epoch", status.epoch},
          {"loss", status.loss},
          {"samples_per_s", status.samples_per_s},
          {"began", status.began},
          {"written", status.written},
          {"launcher", json_of(status.launcher)},
          {"writer", json_of(status.writer)},
          {"members", members}};
}

// A loss that is no number is null in JSON.
double number_of(const Json& json) { return json.is_number() ? json.get<double>() : 0.0; }

JobStatus status_of(const Json& json) {
  JobStatus status{.state = state_of(json.at("state")),
                   .message = json.at("message"),
                   .recipe = json.at("recipe"),
                   .run = json.at("run"),
                   .generation = json.at("generation"),
                   .workers = json.at("workers"),
                   .servers = json.at("servers"),
                   .step = json.at("step"),
                   .total_steps = json.at("total_steps"),
                   .epoch = json.at("epoch"),
                   .loss = number_of(json.at("loss")),
                   .samples_per_s = json.at("samples_per_s"),
                   .began = json.at("began"),
                   .written = json.at("written"),
                   .launcher = mark_of(json.at("launcher")),
                   .writer = mark_of(json.at("writer"))};
  for (const Json& member : json.at("members")) status.members.push_back(member_of(member));
  return status;
}

std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Whatever is wrong with the text is the text's fault.
template <class Read>
auto parsed(const std::string& text, const std::string& place, const Read& read) {
  try {
    return read(Json::parse(text));
  } catch (const std::exception& error) {
    throw Corrupt("{}: is no status: {}", place, error.what());
  }
}

std::string name_of(const ProcessMark& mark) {
  return fmt::format("process {} on {}", mark.pid, mark.host);
}

Verdict::Kind kind_of(JobStatus::State state) {
  if (state == JobStatus::State::finished) return Verdict::Kind::finished;
  return state == JobStatus::State::stopped ? Verdict::Kind::stopped : Verdict::Kind::failed;
}

}  // namespace

std::string to_json(const MemberStatus& member) { return dump(json_of(member)); }
std::string to_json(const JobStatus& status) { return dump(json_of(status)); }

MemberStatus member_from_json(const std::string& text, const std::string& place) {
  return parsed(text, place, member_of);
}

JobStatus status_from_json(const std::string& text, const std::string& place) {
  return parsed(text, place, status_of);
}

bool write_status(const std::string& folder, const JobStatus& status) noexcept try {
  write_file(path_of(folder), to_json(status) + "\n");
  return true;
} catch (const std::exception&) {
  return false;
}

JobStatus read_status(const std::string& folder) {
  return status_from_json(read_file(path_of(folder)), path_of(folder));
}

std::string to_string(Verdict::Kind kind) {
  constexpr std::array kNames{"running", "finished", "stopped", "failed", "stale", "dead"};
  return kNames[static_cast<std::size_t>(kind)];
}

Verdict judge(const JobStatus& status, double now) {
  if (status.is_over()) return {kind_of(status.state), status.message};
  const ProcessState writer = look_at_process(status.writer);
  const std::string age = format_duration(std::max(0.0, now - status.written));
  if (writer == ProcessState::gone)
    return {Verdict::Kind::dead,
            fmt::format("worker 0 ({}) is gone without a word; it wrote {} ago, at step {}",
                        name_of(status.writer), age, status.step)};
  if (writer == ProcessState::stopped)
    return {Verdict::Kind::stale,
            fmt::format("somebody stopped worker 0 (SIGSTOP, {}); it wrote {} ago",
                        name_of(status.writer), age)};
  if (now - status.written > kStale)
    return {Verdict::Kind::stale,
            fmt::format("worker 0 ({}) wrote {} ago: {}", name_of(status.writer), age,
                        writer == ProcessState::running
                            ? "it hangs, or its storage does"
                            : "it is gone, or its host, the network or the storage is")};
  return {};
}

std::string status_json(const JobStatus& status, const Verdict& verdict) {
  Json json{{"verdict", to_string(verdict.kind)}, {"reason", verdict.reason}};
  json.update(json_of(status));
  return dump(json);
}

}  // namespace lockstep::observe
