# Names the commit of the sources. Two uses:
#
#   caption_build_commit(OUTPUT)     in a CMakeLists.txt: makes the source file OUTPUT, again with each
#                                    build, so that it is never that of an earlier commit
#   cmake -P BuildCommit.cmake       at build time, with the variables that the function passes
#
# It holds nothing but the commit: two builds of one commit are equal, wherever they are made. Sources
# that `git archive` has written know theirs by build_commit.txt.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(_commit_script ${CMAKE_CURRENT_LIST_FILE})
  find_package(Git QUIET)

  function(caption_build_commit output)
    add_custom_target(caption_build_commit
      COMMAND ${CMAKE_COMMAND} -D "GIT=${GIT_EXECUTABLE}" -D ROOT=${PROJECT_SOURCE_DIR}
        -D OUTPUT=${output} -P ${_commit_script}
      BYPRODUCTS ${output} VERBATIM)
  endfunction()
  return()
endif()

# git(RESULT ARGUMENT...): what it says; empty when it fails.
function(git result)
  set(text "")
  if(GIT)
    execute_process(COMMAND ${GIT} -C ${ROOT} ${ARGN} OUTPUT_VARIABLE text ERROR_QUIET
      OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE code)
    if(NOT code EQUAL 0)
      set(text "")
    endif()
  endif()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

set(commit unknown)
file(STRINGS ${ROOT}/scripts/cmake/build_commit.txt archived LIMIT_COUNT 1)
# The sources may lie in the repository of something else.
git(top rev-parse --show-cdup)
git(head rev-parse HEAD)
git(tracked ls-files scripts/cmake/build_commit.txt)
if(archived MATCHES "^[0-9a-f]+$")
  set(commit ${archived})
elseif(head AND tracked AND top STREQUAL "")
  set(commit ${head})
  git(changes status --porcelain --untracked-files=no)
  if(changes)
    string(APPEND commit " and changes")
  endif()
endif()
set(source "#include \"version.h\"

namespace caption::cli {

const char* build_commit() { return \"${commit}\"; }

}  // namespace caption::cli
")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${source}" @ONLY)
