// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/job_control.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cluster/membership/stored_job.h"

namespace lockstep::cli {
namespace {

constexpr const char* kSecret = "LOCKSTEP_SECRET";
constexpr int kOwnerAlone = 0600;

std::string path_in(const std::string& folder) { return folder + "/control.json"; }

// Under a name of its own first: it never has a mode that lets others read it, nor half its text.
bool write_for_owner(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp" + std::to_string(::getpid());
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerAlone);
  if (file < 0) return false;
  const ssize_t written = ::write(file, text.data(), text.size());
  ::close(file);
  if (written == std::ssize(text) && ::rename(temporary.c_str(), path.c_str()) == 0) return true;
  ::unlink(temporary.c_str());
  return false;
}

// Who coordinates it now.
void find_coordinator(JobControl& control) {
  constexpr std::chrono::seconds kLongest{30};
  const cluster::StoredJob job(cluster::open_store(control.store), control.job);
  control.coordinator = job.await_leader(kLongest).endpoint;
}

}  // namespace

JobControl read_control(const std::string& folder, const std::string& command) {
  const std::string path = path_in(folder);
  try {
    const auto json = nlohmann::json::parse(read_file(path));
    return {comm::parse_endpoint(json.at("coordinator").get<std::string>()), json.at("secret"),
            parse_mark(json.at("launcher")), json.value("store", std::string()),
            json.value("job", std::string())};
  } catch (const NotFound&) {
    throw NotFound(
        "{}: '{}' has no control.json: expected the run folder of a job of several workers that "
        "is under way and survives losses",
        command, folder);
  } catch (const nlohmann::json::exception&) {
    throw Corrupt("{}: {}: it is not what a job writes there", command, path);
  } catch (const InvalidArgument& error) {
    throw Corrupt("{}: {}: it is not what a job writes there: {}", command, path, error.what());
  }
}

void write_control(const std::string& folder, const JobControl& control) noexcept try {
  write_for_owner(path_in(folder), nlohmann::json{{"coordinator", to_string(control.coordinator)},
                                                  {"secret", control.secret},
                                                  {"launcher", to_string(control.launcher)},
                                                  {"store", control.store},
                                                  {"job", control.job}}
                                       .dump());
} catch (const std::exception&) {
}

void remove_control(const std::string& folder) noexcept { ::unlink(path_in(folder).c_str()); }

JobControl find_control(const std::string& which, const std::string& command) {
  std::error_code error;
  if (std::filesystem::is_directory(which, error)) {
    JobControl control = read_control(which, command);
    if (!control.store.empty())
      find_coordinator(control);
    else if (control.launcher.pid > 0 && look_at_process(control.launcher) == ProcessState::gone)
      throw NotFound("{}: the job of '{}' does not run any more", command, which);
    return control;
  }
  if (which.find(':') == std::string::npos)
    throw NotFound("{}: '{}' is no run folder, nor HOST:PORT", command, which);
  const char* secret = std::getenv(kSecret);
  if (secret == nullptr || *secret == '\0')
    throw InvalidArgument(
        "{}: {}: the job's secret is missing: set {} to what control.json in its run folder says",
        command, which, kSecret);
  return {.coordinator = comm::parse_endpoint(which), .secret = secret};
}

}  // namespace lockstep::cli
