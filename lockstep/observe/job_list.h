// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/process_mark.h"

namespace lockstep::observe {

// A job of this user on this host.
struct JobEntry {
  // Whom a signal stops with all of the job: its launcher, or the process that is the whole job.
  // Of a worker that another launcher started (mpirun, srun, Kubernetes) it stops but that one.
  enum class Kind { launcher, alone, worker };
  Kind kind = Kind::alone;
  ProcessMark process = {};
  std::string command = {};  // as it was typed
  std::string folder = {};   // where
  std::string run = {};  // the run's folder, an absolute path; empty: not known, or there is none
  double began = 0.0;    // seconds since 1970

  // The run's last word, or the program's.
  std::string name() const;
};

// A folder with a file for each job that lives. What cannot be written there is left out: a job
// does not need it.
class JobList {
 public:
  // Empty: nothing is kept.
  explicit JobList(std::string folder) : folder_(std::move(folder)) {}

  void put(const JobEntry& entry) const noexcept;
  // The run of a job that is there.
  void set_run(const ProcessMark& process, const std::string& run) const noexcept;
  void remove(const ProcessMark& process) const noexcept;
  // In the order of their beginning. Entries of processes that are gone are removed.
  std::vector<JobEntry> read() const;

 private:
  std::string path_of(const ProcessMark& process) const;
  std::optional<JobEntry> read_entry(const std::string& path) const;
  std::string folder_;
};

// A job is in the list while this lives.
class ListedJob {
 public:
  ListedJob(JobList list, const JobEntry& entry) : list_(std::move(list)), process_(entry.process) {
    list_.put(entry);
  }
  ~ListedJob() { list_.remove(process_); }
  ListedJob(const ListedJob&) = delete;
  ListedJob& operator=(const ListedJob&) = delete;

 private:
  JobList list_;
  ProcessMark process_;
};

}  // namespace lockstep::observe
