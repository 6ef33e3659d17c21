// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/job_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::observe {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::array kKinds{"launcher", "alone", "worker"};

std::string to_json(const JobEntry& entry) {
  const Json json{{"kind", kKinds[static_cast<std::size_t>(entry.kind)]},
                  {"host", entry.process.host},
                  {"pid", entry.process.pid},
                  {"start", entry.process.start},
                  {"command", entry.command},
                  {"folder", entry.folder},
                  {"run", entry.run},
                  {"began", entry.began}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

JobEntry entry_from(const Json& json) {
  JobEntry entry{.process = {json.at("host"), json.at("pid"), json.at("start")},
                 .command = json.at("command"),
                 .folder = json.at("folder"),
                 .run = json.at("run"),
                 .began = json.at("began")};
  const auto kind = std::find(kKinds.begin(), kKinds.end(), json.at("kind").get<std::string>());
  entry.kind = static_cast<JobEntry::Kind>(std::min<std::ptrdiff_t>(kind - kKinds.begin(), 2));
  return entry;
}

}  // namespace

std::string JobEntry::name() const {
  if (!run.empty()) return fs::path(run).filename().string();
  const std::string program = command.substr(0, command.find(' '));
  return fs::path(program).filename().string();
}

std::string JobList::path_of(const ProcessMark& process) const {
  return fmt::format("{}/{}-{}-{}.json", folder_, process.host, process.pid, process.start);
}

void JobList::put(const JobEntry& entry) const noexcept try {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  fs::permissions(folder_, fs::perms::owner_all, error);
  write_file(path_of(entry.process), to_json(entry));
} catch (const std::exception&) {
}

void JobList::set_run(const ProcessMark& process, const std::string& run) const noexcept try {
  if (folder_.empty()) return;
  std::optional<JobEntry> entry = read_entry(path_of(process));
  if (!entry) return;
  entry->run = run;
  put(*entry);
} catch (const std::exception&) {
}

void JobList::remove(const ProcessMark& process) const noexcept try {
  std::error_code error;
  if (!folder_.empty()) fs::remove(path_of(process), error);
} catch (const std::exception&) {
}

std::optional<JobEntry> JobList::read_entry(const std::string& path) const {
  try {
    return entry_from(Json::parse(read_file(path)));
  } catch (const std::exception&) {
    return {};  // it has just gone, or is none of ours
  }
}

std::vector<JobEntry> JobList::read() const {
  std::vector<JobEntry> entries;
  std::error_code error;
  if (folder_.empty()) return entries;
  for (const auto& file : fs::directory_iterator(folder_, error)) {
    if (file.path().extension() != ".json") continue;
    std::optional<JobEntry> entry = read_entry(file.path().string());
    if (!entry) continue;
    const ProcessState state = look_at_process(entry->process);
    if (state == ProcessState::gone) remove(entry->process);
    // A home folder may be that of other hosts too.
    if (state == ProcessState::running || state == ProcessState::stopped)
      entries.push_back(std::move(*entry));
  }
  std::sort(entries.begin(), entries.end(), [](const JobEntry& a, const JobEntry& b) {
    return std::tie(a.began, a.process.pid) < std::tie(b.began, b.process.pid);
  });
  return entries;
}

}  // namespace lockstep::observe
