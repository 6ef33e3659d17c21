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
include(${CMAKE_CURRENT_LIST_DIR}/lapack.cmake)

# Transports that need a library are compiled where it is installed; elsewhere a file of
# lockstep/comm/transports/absent/ says what is missing.
pkg_check_modules(UCX IMPORTED_TARGET ucx)
pkg_check_modules(ZMQ IMPORTED_TARGET libzmq)
find_path(LOCKSTEP_CPPZMQ zmq.hpp)
if(NOT LOCKSTEP_CPPZMQ)
  set(ZMQ_FOUND 0)
endif()
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI COMPONENTS CXX)

# lockstep_transports(SOURCES): takes out of this list what this machine cannot build, and leaves the
# libraries of the rest in SOURCES_LIBRARIES.
function(lockstep_transports sources)
  set(list ${${sources}})
  foreach(transport IN ITEMS "ucx|UCX|PkgConfig::UCX" "zmq|ZMQ|PkgConfig::ZMQ"
                             "mpi|MPI_CXX|MPI::MPI_CXX")
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
