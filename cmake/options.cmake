# SPDX-License-Identifier: Apache-2.0
# How our own code is compiled.

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(lockstep_options INTERFACE)
# GCC 12 sees overlaps in std::string's concatenation that are not there (GCC bug 105651).
target_compile_options(lockstep_options INTERFACE
  -Wall -Wextra -Wno-psabi $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# A product and a sum stay two roundings unless a kernel asks for a fused one, so that every compiler
# and optimisation level gives the same bits on the same instruction set (docs/architecture.md).
target_compile_options(lockstep_options INTERFACE -ffp-contract=off -fno-math-errno)
if(LOCKSTEP_WERROR)
  target_compile_options(lockstep_options INTERFACE -Werror)
endif()

if(LOCKSTEP_ONE_TARGET)
  add_compile_options(-march=haswell -maes -mpclmul)
  add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
endif()
if(LOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
endif()
if(LOCKSTEP_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()
if(LOCKSTEP_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "LOCKSTEP_FUZZ: libFuzzer needs clang++, got ${CMAKE_CXX_COMPILER_ID}")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
  # What is fuzzed is the readers; one instruction set is enough and builds four times as fast.
  add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # oneDNN is linked with libgomp, so its omp.h is the one to ask, not that of clang's own runtime.
  execute_process(COMMAND g++ -print-file-name=include OUTPUT_VARIABLE LOCKSTEP_GCC_INCLUDE
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  add_compile_options("SHELL:-idirafter ${LOCKSTEP_GCC_INCLUDE}")
endif()

# For a target whose code is not measured: a third of its build's time is optimising it.
function(lockstep_builds_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# Most of the time that tests and commands take to build is reading headers, so they are compiled in
# batches of a few files that read them once. A file that defines macros stays alone, and so do the
# ops' tables of cases, which have many short names. Names in unnamed namespaces have to be unique in a
# batch. The library's files are always compiled one by one, and all files in the preset dev, so that
# one that lacks an include shows.
option(LOCKSTEP_BATCHES "Compile several files of a target at once" ON)
function(lockstep_in_batches target)
  if(NOT LOCKSTEP_BATCHES)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  # GCC takes a file of a batch for a header, whose unnamed namespaces would be a class's own trouble.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  foreach(source ${sources})
    file(STRINGS ${source} macros REGEX "^#define " LIMIT_COUNT 1)
    if(macros OR source MATCHES "_cases\\.cpp$")
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()
