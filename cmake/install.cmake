# SPDX-License-Identifier: Apache-2.0
# `cmake --install` and what find_package(lockstep) finds afterwards.
include(CMakePackageConfigHelpers)

set(LOCKSTEP_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(TARGETS lockstep EXPORT lockstep_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS lockstep_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY lockstep/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep
  FILES_MATCHING PATTERN "*.h"
  PATTERN "cli" EXCLUDE PATTERN "ops/cpu" EXCLUDE PATTERN "detail" EXCLUDE)
install(DIRECTORY bench/peers DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep/bench
  FILES_MATCHING PATTERN "*.py")
install(EXPORT lockstep_targets NAMESPACE lockstep:: DESTINATION ${LOCKSTEP_CONFIG_DIR})
configure_package_config_file(cmake/lockstep-config.cmake.in
  ${CMAKE_BINARY_DIR}/generated/package/lockstep-config.cmake INSTALL_DESTINATION ${LOCKSTEP_CONFIG_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/package/lockstep-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/package/lockstep-config.cmake
  ${CMAKE_BINARY_DIR}/generated/package/lockstep-config-version.cmake cmake/lapack.cmake
  DESTINATION ${LOCKSTEP_CONFIG_DIR})
