// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/device.h"

#include "lockstep/base/error.h"

namespace lockstep {

std::string_view name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu: return "cpu";
    case DeviceKind::test: return "test";
  }
  fail_check("no such kind of device");
}

std::string Device::str() const { return fmt::format("{}({})", name_of(kind), index); }

Device cpu(int index) {
  if (index < 0) throw InvalidArgument("cpu: device index {} is negative", index);
  return {DeviceKind::cpu, index};
}

}  // namespace lockstep
