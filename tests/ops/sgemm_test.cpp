// SPDX-License-Identifier: Apache-2.0
// Where there is no memory for a product, the error says so.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/matmul.h"

namespace lockstep {
namespace {

// Some 256 KB in small pieces: less than a packed operand takes, enough for all that is not one.
void leave_room_for_small_things() {
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  std::vector<std::unique_ptr<char[]>> pieces(1024);
  for (auto& piece : pieces) piece = std::make_unique<char[]>(256);
}

[[noreturn]] void multiply_without_memory() {
  const Tensor a = ones({1024, 1024}), b = ones({1024, 1024});
  { const Tensor warm = matmul(a, b); }  // its room waits in the pool for the next one
  leave_room_for_small_things();
  const rlimit none{4096, 4096};
  ::setrlimit(RLIMIT_DATA, &none);
  ::alarm(60);
  try {
    matmul(a, b);
  } catch (const OutOfMemory& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(7);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "other: %s\n", error.what());
  }
  std::exit(0);
}

TEST(Sgemm, WithoutMemorySaysHowMuchWasToBeMultiplied) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the process where memory is short";
#endif
  // A process of its own: what other tests have given back would do for the product.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(multiply_without_memory(), ::testing::ExitedWithCode(7),
              "matmul: there is not enough memory to multiply .1024, 1024. by .1024, 1024., "
              "12582912 bytes: .*ulimit -d is 0 MB");
}

}  // namespace
}  // namespace lockstep
