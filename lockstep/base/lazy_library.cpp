// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/lazy_library.h"

#include <dlfcn.h>
#include <pthread.h>

#include <mutex>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// The loader's own lock is not given back in a child that was forked while another thread held it:
// nobody forks while we look something up. A library that is being loaded may fork itself.
std::recursive_mutex& loading() {
  static auto* mutex = [] {
    ::pthread_atfork([] { loading().lock(); }, [] { loading().unlock(); },
                     [] { loading().unlock(); });
    return new std::recursive_mutex;
  }();
  return *mutex;
}

}  // namespace

// Visible to all: OpenMPI's and UCX's own modules look for the library's symbols there.
void* LazyLibrary::find(const char* symbol) {
  const std::lock_guard lock(loading());
  void* handle = handle_.load(std::memory_order_acquire);
  if (handle == nullptr) {
    handle = ::dlopen(name_, RTLD_LAZY | RTLD_GLOBAL);
    if (handle == nullptr) throw Unsupported("{}: {}", what_, ::dlerror());
    handle_.store(handle, std::memory_order_release);
  }
  void* found = ::dlsym(handle, symbol);
  if (found == nullptr) throw Unsupported("{}: {} has no {}", what_, name_, symbol);
  return found;
}

}  // namespace lockstep
