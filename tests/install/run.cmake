# SPDX-License-Identifier: Apache-2.0
# Installs BUILD below WORK, copies SOURCE out of the tree, builds it there and runs it.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}\nended with ${status}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(COPY ${SOURCE}/ DESTINATION ${WORK}/source PATTERN run.cmake EXCLUDE)
# The README's example, as it stands there.
file(READ ${SOURCE}/../../README.md readme)
string(FIND "${readme}" "```cpp\n" begin)
string(SUBSTRING "${readme}" ${begin} -1 readme)
string(SUBSTRING "${readme}" 7 -1 readme)
string(FIND "${readme}" "```" end)
string(SUBSTRING "${readme}" 0 ${end} readme)
file(WRITE ${WORK}/source/readme.cpp "${readme}")

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -G Ninja -S ${WORK}/source -B ${WORK}/build
    -D CMAKE_BUILD_TYPE=Release -D CMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/outside)
run(${CMAKE_COMMAND} -E env LOCKSTEP_ISA=sse4 ${WORK}/build/outside)
if(NOT output MATCHES "kernels use sse4\n")
  message(FATAL_ERROR "LOCKSTEP_ISA=sse4 is ignored:\n${output}")
endif()
run(${WORK}/build/readme)
run(${WORK}/prefix/bin/lockstep --version)
