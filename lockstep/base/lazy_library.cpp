// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/lazy_library.h"

#include <dlfcn.h>

#include "lockstep/base/error.h"

namespace lockstep {

// Loading twice is loading once, so that two threads may. Visible to all: OpenMPI's and UCX's own
// modules look for the library's symbols there.
void* LazyLibrary::find(const char* symbol) {
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
