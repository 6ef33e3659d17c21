// SPDX-License-Identifier: Apache-2.0
#pragma once

// Before a function of plain loops: it is compiled for several vector widths, and the program takes
// the widest that the processor has. ThreadSanitizer starts later than that choice is made, so its
// builds have one width.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LOCKSTEP_VECTOR_CLONES
#endif
