# Run by ctest (CMakeLists.txt): the numerics revision changes with the sources that affect results
# and with the compiler, but not with comments or white space.
cmake_minimum_required(VERSION 3.24)

file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})

# Sets `result` to the revision for one source with this text and this `compiler`.
function(revision_of text compiler result)
  file(WRITE ${WORK_DIR}/a.cpp "${text}")
  file(WRITE ${WORK_DIR}/list "${WORK_DIR}/a.cpp\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -D LIST=${WORK_DIR}/list -D ROOT=${WORK_DIR}
    -D OUTPUT=${WORK_DIR}/revision.cpp -D COMPILER=${compiler} -P ${SCRIPT}
    COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${WORK_DIR}/revision.cpp source)
  if(NOT source MATCHES "return \"([0-9a-f]+)\"")
    message(FATAL_ERROR "no revision in\n${source}")
  endif()
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

revision_of("int f() { return 1; }\n" gcc base)
revision_of("// A sentence.\nint f()  {\n  return 1; }\n" gcc commented)
revision_of("int f() { return 2; }\n" gcc changed)
revision_of("int f() { return 1; }\n" clang other_compiler)
if(changed STREQUAL base)
  message(FATAL_ERROR "other code has the same revision, ${base}")
endif()
if(other_compiler STREQUAL base)
  message(FATAL_ERROR "another compiler has the same revision, ${base}")
endif()
if(NOT commented STREQUAL base)
  message(FATAL_ERROR "comments and white space make another revision")
endif()

# The list used by the build contains the sources that determine a caption.
file(STRINGS ${SOURCES} sources)
foreach(name kernels/linear.cpp kernels/cpu/avx2/tier.cpp lib/vision/resize.cpp lib/video/to_rgb.cpp
    lib/video/sample_frames.cpp lib/weights/quantise.cpp lib/sampling/sampler.cpp
    lib/model/transformer_decoder.cpp lib/engine/engine.cpp lib/text/stop_matcher.cpp
    scripts/cmake/CaptionFlags.cmake)
  if(NOT ${SOURCE_DIR}/${name} IN_LIST sources)
    message(FATAL_ERROR "${name} is not among the sources that the revision is derived from")
  endif()
endforeach()
file(REMOVE_RECURSE ${WORK_DIR})
