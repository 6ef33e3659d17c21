// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

namespace lockstep::comm::detail {

// The address of a variable of the MPI library, which is loaded for it.
void* mpi_symbol(const char* name);

}  // namespace lockstep::comm::detail

// OpenMPI's constants (MPI_COMM_WORLD, MPI_FLOAT) are addresses of its variables, by this macro of
// its header; they are found when they are used. MPICH's are numbers.
#ifdef OMPI_PREDEFINED_GLOBAL
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global)                                    \
  ([] {                                                                         \
    static void* const address = ::lockstep::comm::detail::mpi_symbol(#global); \
    return static_cast<type>(address);                                          \
  }())
#endif
