# SPDX-License-Identifier: Apache-2.0
# The target lockstep::lapack: the reference LAPACK and BLAS, linked statically. They have no threads
# and give the same bits everywhere; the shared ones are whatever the machine's alternatives say,
# OpenBLAS for one, which has both its own threads and its own bits for each processor.

find_library(LOCKSTEP_LAPACK NAMES liblapack.a PATH_SUFFIXES lapack ${CMAKE_LIBRARY_ARCHITECTURE}/lapack
             x86_64-linux-gnu/lapack REQUIRED)
find_library(LOCKSTEP_BLAS NAMES libblas.a PATH_SUFFIXES blas ${CMAKE_LIBRARY_ARCHITECTURE}/blas
             x86_64-linux-gnu/blas REQUIRED)
# Its runtime library comes with LAPACK's packages, the compiler's link to it does not.
find_library(LOCKSTEP_GFORTRAN NAMES libgfortran.so.5 REQUIRED)
if(NOT TARGET lockstep::lapack)
  add_library(lockstep::lapack INTERFACE IMPORTED)
  set_target_properties(lockstep::lapack PROPERTIES INTERFACE_LINK_LIBRARIES
                        "${LOCKSTEP_LAPACK};${LOCKSTEP_BLAS};${LOCKSTEP_GFORTRAN};m")
endif()
