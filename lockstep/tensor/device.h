// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

enum class DeviceKind : std::uint8_t { cpu };

// A logical device. A machine has as many cpu(i) as a user asks for.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::int32_t index = 0;
  bool operator==(const Device&) const = default;
  // "cpu(0)"
  std::string str() const { return "cpu(" + std::to_string(index) + ")"; }
};

// Throws InvalidArgument for a negative index.
Device cpu(int index = 0);

}  // namespace lockstep
