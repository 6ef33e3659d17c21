// SPDX-License-Identifier: Apache-2.0
// Writes docs/ops.md to standard output; `make docs` puts it in its place.
#include <fmt/format.h>

#include "tests/docs/op_page.h"

int main() { fmt::print("{}", lockstep::testing::op_page()); }
