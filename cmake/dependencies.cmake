# SPDX-License-Identifier: Apache-2.0
# What the library and the program stand on; scripts/packages.txt has the packages.

find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Threads REQUIRED)
find_package(dnnl REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
find_package(LibArchive REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(Protobuf REQUIRED)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq)
find_path(LOCKSTEP_CPPZMQ zmq.hpp REQUIRED)
include(${CMAKE_CURRENT_LIST_DIR}/lapack.cmake)

# Transports that need a library are compiled where it is installed; elsewhere a file of
# lockstep/comm/transports/absent/ says what is missing.
pkg_check_modules(UCX IMPORTED_TARGET ucx)
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI COMPONENTS CXX)

# lockstep_transports(SOURCES): takes out of this list what this machine cannot build, and leaves the
# libraries of the rest in SOURCES_LIBRARIES.
function(lockstep_transports sources)
  set(list ${${sources}})
  foreach(transport IN ITEMS "ucx|UCX|PkgConfig::UCX" "mpi|MPI_CXX|MPI::MPI_CXX")
    string(REPLACE "|" ";" facts ${transport})
    list(GET facts 0 name)
    list(GET facts 1 found)
    list(GET facts 2 library)
    if(${found}_FOUND)
      list(FILTER list EXCLUDE REGEX "/transports/absent/${name}\\.cpp$")
      list(APPEND libraries ${library})
    else()
      list(FILTER list EXCLUDE REGEX "/comm/(transports/${name}|detail/${name}_[a-z_]+)\\.cpp$")
    endif()
  endforeach()
  set(${sources} ${list} PARENT_SCOPE)
  set(${sources}_LIBRARIES ${libraries} PARENT_SCOPE)
endfunction()

# lockstep_lazy_library(SOURCE LIBRARY...): the functions that SOURCE defines load this library when
# one is called (lockstep/base/lazy_library.h), by the name that programs linked with it would ask for.
# It is the first of them that is no binding for C++ (libmpi_cxx), which not every machine has.
function(lockstep_lazy_library source)
  foreach(library IN LISTS ARGN)
    if(IS_ABSOLUTE "${library}")
      file(REAL_PATH "${library}" file)
      get_filename_component(file "${file}" NAME)
      if(NOT file MATCHES "_cxx\\.so" AND file MATCHES "^(lib[^/]+\\.so\\.[0-9]+)")
        set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS
                                    LOCKSTEP_LIBRARY="${CMAKE_MATCH_1}")
        return()
      endif()
    endif()
  endforeach()
endfunction()

find_library(LOCKSTEP_UCP_LIBRARY ucp)
find_library(LOCKSTEP_ZMQ_LIBRARY zmq)
find_library(LOCKSTEP_HWY_LIBRARY hwy)
find_library(LOCKSTEP_DNNL_LIBRARY dnnl)
lockstep_lazy_library(lockstep/comm/detail/ucx_calls.cpp ${LOCKSTEP_UCP_LIBRARY})
lockstep_lazy_library(lockstep/comm/detail/zmq_calls.cpp ${LOCKSTEP_ZMQ_LIBRARY})
lockstep_lazy_library(lockstep/comm/detail/mpi_calls.cpp ${MPI_CXX_LIBRARIES})
lockstep_lazy_library(lockstep/ops/cpu/hwy_calls.cpp ${LOCKSTEP_HWY_LIBRARY})
lockstep_lazy_library(lockstep/ops/cpu/dnnl_calls.cpp ${LOCKSTEP_DNNL_LIBRARY})
lockstep_lazy_library(lockstep/base/detail/crypto_calls.cpp ${OPENSSL_CRYPTO_LIBRARY})
lockstep_lazy_library(lockstep/data/detail/archive_calls.cpp ${LibArchive_LIBRARIES})
