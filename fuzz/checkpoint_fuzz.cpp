// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdint>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/io/archive.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/detail/fit_state.h"

namespace {

// In memory: nothing is waited for.
const std::string& path() {
  static const std::string name = "/dev/shm/lockstep-checkpoint-fuzz-" + std::to_string(getpid());
  return name;
}

}  // namespace

// Metadata of any bytes in a sound archive gives a checkpoint, whose sums and history can be asked
// for and whose configuration can be compared, or a typed error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string metadata(reinterpret_cast<const char*>(data), size);
  try {
    lockstep::io::write_archive(path(), {.metadata = metadata, .tensors = {}});
    const lockstep::train::Checkpoint checkpoint = lockstep::train::read_checkpoint(path());
    lockstep::train::detail::FitState::from_json(checkpoint.training, path());
    lockstep::train::detail::check_configuration(path(), checkpoint.configuration, "{}");
  } catch (const lockstep::Error&) {
  }
  ::unlink(path().c_str());
  return 0;
}
