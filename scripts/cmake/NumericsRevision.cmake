# Names the arithmetic of a build: a digest over the sources that compute, without their comments
# and white space, and over the compiler and its flags. Two uses:
#
#   caption_numerics_revision(OUTPUT)   in a CMakeLists.txt: makes the source file OUTPUT
#   cmake -P NumericsRevision.cmake     at build time, with the variables that the function passes
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(_numerics_script ${CMAKE_CURRENT_LIST_FILE})

  function(caption_numerics_revision output)
    set(patterns ${PROJECT_SOURCE_DIR}/kernels/*)
    foreach(room engine model sampling tensor text video vision weights)
      list(APPEND patterns ${PROJECT_SOURCE_DIR}/lib/${room}/*)
    endforeach()
    file(GLOB_RECURSE files CONFIGURE_DEPENDS ${patterns})
    list(FILTER files INCLUDE REGEX "\\.(h|cpp|cu|cuh|txt)$")
    if(NOT CAPTION_CUDA_BACKEND)
      list(FILTER files EXCLUDE REGEX "/kernels/cuda/")
    endif()
    list(APPEND files ${PROJECT_SOURCE_DIR}/scripts/cmake/CaptionFlags.cmake)
    list(SORT files)
    set(list ${output}.sources)
    list(JOIN files "\n" lines)
    file(CONFIGURE OUTPUT ${list} CONTENT "${lines}\n")
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -D LIST=${list} -D ROOT=${PROJECT_SOURCE_DIR} -D OUTPUT=${output}
        -D "COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" -P ${_numerics_script}
      DEPENDS ${files} ${list} ${_numerics_script}
      COMMENT "Naming the arithmetic" VERBATIM)
  endfunction()
  return()
endif()

file(STRINGS ${LIST} files)
set(digests "${COMPILER}")
foreach(file IN LISTS files)
  file(READ ${file} text)
  if(file MATCHES "\\.(h|cpp|cu|cuh)$")
    string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  else()
    string(REGEX REPLACE "#[^\n]*" "" text "${text}")
  endif()
  string(REGEX REPLACE "[ \t\r\n]+" " " text "${text}")
  string(STRIP "${text}" text)
  string(SHA256 digest "${text}")
  file(RELATIVE_PATH name ${ROOT} ${file})
  string(APPEND digests "\n${name} ${digest}")
endforeach()
string(SHA256 revision "${digests}")
string(SUBSTRING ${revision} 0 16 revision)
set(source "#include \"config/identity.h\"

namespace caption::config {

std::string_view numerics_revision() { return \"${revision}\"; }

}  // namespace caption::config
")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} there)
endif()
if(NOT "${there}" STREQUAL "${source}")
  file(WRITE ${OUTPUT} "${source}")
else()
  file(TOUCH ${OUTPUT})
endif()
