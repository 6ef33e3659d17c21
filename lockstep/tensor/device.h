// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

// `test` is a device that the tests bring along: no program has one.
enum class DeviceKind : std::uint8_t { cpu, test };
std::string_view name_of(DeviceKind kind);

class Backend;

// A logical device. A machine has as many cpu(i) as a user asks for; they are the host's own memory
// and compute at once. Devices of other kinds come from their backend, which their tensors keep.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::int32_t index = 0;
  Backend* backend = nullptr;
  // The kind follows from the backend.
  bool operator==(const Device& other) const {
    return index == other.index && backend == other.backend;
  }
  bool is_host() const { return backend == nullptr; }
  // "cpu(0)"
  std::string str() const;
};

// Throws InvalidArgument for a negative index.
Device cpu(int index = 0);

}  // namespace lockstep
