// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace lockstep {

// Threads that wait for work and all do it: thread 0 is the caller's own. Owned by one thread, and
// the work is done in its float mode.
class ThreadTeam {
 public:
  // How a thread waits: spins tells it to look for a while before it sleeps (steps of small models
  // take less time than a system call); sleeps is for threads that outnumber the cores.
  enum class Waiting { spins, sleeps };
  // `name` is what the system shows for the threads (at most 12 characters).
  explicit ThreadTeam(int size, const std::string& name = "lockstep",
                      Waiting waiting = Waiting::spins);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const;
  // Calls work(0) ... work(size - 1), one in each thread, and returns when all are done. Rethrows
  // the error of the lowest thread that had one.
  void run(const std::function<void(int thread)>& work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
