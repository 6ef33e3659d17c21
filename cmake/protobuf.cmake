# SPDX-License-Identifier: Apache-2.0
# What protoc makes of our .proto files: compiled apart, since its code is not ours to warn about.

# lockstep_protobuf(TARGET FILE): FILE's messages, as "<folder of FILE>/<name>.pb.h", in TARGET.
function(lockstep_protobuf target file)
  set(generated ${CMAKE_BINARY_DIR}/generated)
  string(REGEX REPLACE "\\.proto$" ".pb" stem ${generated}/${file})
  add_custom_command(
    OUTPUT ${stem}.cc ${stem}.h
    COMMAND ${CMAKE_COMMAND} -E make_directory ${generated}
    COMMAND protobuf::protoc --cpp_out=${generated} -I ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/${file}
    DEPENDS ${CMAKE_SOURCE_DIR}/${file} VERBATIM)
  get_filename_component(name ${file} NAME_WE)
  add_library(${target}_${name}_proto OBJECT ${stem}.cc)
  target_include_directories(${target}_${name}_proto SYSTEM PRIVATE
    ${generated} ${Protobuf_INCLUDE_DIRS})
  target_include_directories(${target} SYSTEM PRIVATE $<BUILD_INTERFACE:${generated}>)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${name}_proto>)
  add_dependencies(${target} ${target}_${name}_proto)
endfunction()
