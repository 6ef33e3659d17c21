// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/lazy_library.h"

#include <dlfcn.h>
#include <pthread.h>

#include <mutex>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// The loader's own lock is not given back in a child that was forked while another thread held it:
// nobody forks while we look something up, unless the library that is being loaded does so itself.
class LoadScope {
 public:
  LoadScope() { enter(); }
  ~LoadScope() { leave(); }
  LoadScope(const LoadScope&) = delete;
  LoadScope& operator=(const LoadScope&) = delete;

 private:
  static void enter() {
    if (depth++ == 0) mutex().lock();
  }
  static void leave() {
    if (--depth == 0) mutex().unlock();
  }
  static std::mutex& mutex() {
    static auto* made = [] {
      ::pthread_atfork(enter, leave, leave);
      return new std::mutex;
    }();
    return *made;
  }

  static inline thread_local int depth = 0;
};

}  // namespace

// Visible to all: OpenMPI's and UCX's own modules look for the library's symbols there.
void* LazyLibrary::find(const char* symbol) {
  const LoadScope scope;
  void* handle = handle_.load(std::memory_order_acquire);
  if (handle == nullptr) {
    handle = ::dlopen(name_, RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) throw Unsupported("{}: {}", what_, ::dlerror());
    handle_.store(handle, std::memory_order_release);
  }
  void* found = ::dlsym(handle, symbol);
  if (found == nullptr) throw Unsupported("{}: {} has no {}", what_, name_, symbol);
  return found;
}

}  // namespace lockstep
