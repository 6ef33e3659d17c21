# SPDX-License-Identifier: Apache-2.0
# Installs BUILD below WORK, copies SOURCE out of the tree, builds it there and runs it.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}\nended with ${status}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(COPY ${SOURCE}/ DESTINATION ${WORK}/source PATTERN run.cmake EXCLUDE)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -G Ninja -S ${WORK}/source -B ${WORK}/build
    -D CMAKE_BUILD_TYPE=Release -D CMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/outside)
run(${WORK}/prefix/bin/lockstep --version)
