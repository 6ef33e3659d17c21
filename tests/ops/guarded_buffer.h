// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace lockstep::testing {

// Memory for kernels that no sanitizer sees into: 64-byte aligned, and as close to its end as that
// allows is a page that may not be touched. The bytes around it have to stay as they are. Every
// byte begins as 0xff: a NaN in each floating dtype, so that what is not written shows.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  std::byte* data() const { return data_; }
  bool intact() const;  // nothing around the buffer was written

 private:
  std::size_t bytes_, mapped_;
  std::byte* start_;
  std::byte* data_;
};

}  // namespace lockstep::testing
