// SPDX-License-Identifier: Apache-2.0
// Tests fork beside running threads. The child's C library gives the stacks of the threads that did
// not come along to the child's first threads, whose ids are then those of threads that
// ThreadSanitizer believes to be alive: it ends the process ("dup thread with used id"). So the
// child first fills those stacks with threads that the sanitizer does not know and that only wait.
#if defined(__SANITIZE_THREAD__)

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iterator>

namespace {

using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

Create* create = nullptr;  // the C library's own, not the sanitizer's
long threads = 0;

// Enters the kernel by itself: whatever has an interceptor needs what the sanitizer gives a thread.
__attribute__((no_sanitize("thread"))) void* wait_for_ever(void*) {
  while (true) {
    long result = SYS_pause;
    asm volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
  }
}

void count_threads() {
  threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}) - 1;
}

void fill_stacks() {
  if (threads <= 0) return;
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  constexpr long kKept = 16;  // stacks of threads that had ended already
  for (long i = 0; i < threads + kKept; ++i) {
    pthread_t ignored;
    create(&ignored, nullptr, wait_for_ever, nullptr);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

const bool registered = [] {
  void* library = ::dlopen("libc.so.6", RTLD_NOW);
  create = reinterpret_cast<Create*>(::dlsym(library, "pthread_create"));
  return ::pthread_atfork(count_threads, nullptr, fill_stacks) == 0;
}();

}  // namespace

#elif defined(__SANITIZE_ADDRESS__)

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

// AddressSanitizer's allocator has locks that are not free in the child where another thread held
// them: its threads would wait for ever. So a fork waits until all other threads wait for
// something.
namespace {

bool others_wait() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    std::string line;
    std::getline(std::ifstream(task.path() / "stat"), line);
    const std::size_t name_end = line.rfind(')');  // "12 (a name) S ..."
    if (name_end != std::string::npos && line[name_end + 2] != 'S') return false;
  }
  return true;
}

void wait_for_others() {
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + std::chrono::seconds(1);
  while (!others_wait() && steady_clock::now() < deadline) std::this_thread::yield();
}

const bool registered = ::pthread_atfork(wait_for_others, nullptr, nullptr) == 0;

}  // namespace

#endif
