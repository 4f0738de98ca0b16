# Run by ctest (CMakeLists.txt): an installed binary works after its prefix is moved, reads the
# presets and model installed with it, and contains no path of its build tree.
cmake_minimum_required(VERSION 3.24)

# expect(CODE [ARGUMENT...]) runs the moved binary and stores its standard output in `output`.
function(expect code)
  execute_process(COMMAND ${moved}/${BINDIR}/caption-cli ${ARGN}
    WORKING_DIRECTORY ${WORK_DIR} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE errors)
  if(NOT result EQUAL code)
    message(FATAL_ERROR "caption-cli ${ARGN}: exit code ${result}, not ${code}\n${text}${errors}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

function(expect_output pattern)
  if(NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "no \"${pattern}\" in\n${output}")
  endif()
endfunction()

unset(ENV{CAPTION_PRESETS})
unset(ENV{DESTDIR})
file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD_DIR} --strip --prefix ${WORK_DIR}/installed
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
set(moved ${WORK_DIR}/moved)
file(RENAME ${WORK_DIR}/installed ${moved})
set(resources ${moved}/${DATADIR}/caption-cli)

# No installed file, including the unstripped binary, may contain a path of the source or build
# tree. Sanitizers are excluded, because they embed the source location of each check.
if(NOT SANITIZERS)
  foreach(path ${SOURCE_DIR} ${BUILD_DIR})
    execute_process(COMMAND grep -rlF ${path} ${moved} ${BUILD_DIR}/apps/caption-cli/caption-cli
      RESULT_VARIABLE result OUTPUT_VARIABLE files)
    if(NOT result EQUAL 1)
      message(FATAL_ERROR "the path ${path} is in\n${files}")
    endif()
  endforeach()
endif()

# The manual and the completions must be where man(1) and the shells search for them.
foreach(file ${MANDIR}/man1/caption-cli.1 ${MANDIR}/man1/caption-cli-run.1
    ${DATADIR}/bash-completion/completions/caption-cli ${DATADIR}/zsh/site-functions/_caption-cli
    ${DATADIR}/fish/vendor_completions.d/caption-cli.fish)
  if(NOT EXISTS ${moved}/${file})
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
# Every link of the installed documents to another file leads to one.
file(GLOB_RECURSE documents ${moved}/${DOCDIR}/*.md)
set(num_links 0)
foreach(document ${documents})
  get_filename_component(folder ${document} DIRECTORY)
  file(READ ${document} text)
  # Brackets and semicolons would join and split the elements of a CMake list.
  string(REPLACE "](" "<link>" text "${text}")
  string(REGEX REPLACE "[][;]" " " text "${text}")
  string(REGEX MATCHALL "<link>[^)# \n]+" links "${text}")
  foreach(link ${links})
    string(REPLACE "<link>" "" link "${link}")
    if(link MATCHES "^[a-z]+:")
      continue()
    endif()
    math(EXPR num_links "${num_links} + 1")
    if(NOT EXISTS ${folder}/${link})
      message(FATAL_ERROR "${document} links to ${link}, which is not installed")
    endif()
  endforeach()
endforeach()
if(num_links LESS 20)
  message(FATAL_ERROR "only ${num_links} links are found in the installed documents")
endif()
expect(0 completion bash)
file(READ ${moved}/${DATADIR}/bash-completion/completions/caption-cli installed_text)
if(NOT installed_text STREQUAL output)
  message(FATAL_ERROR "the installed completions are not those that the program prints")
endif()

# The first line of a preset is its summary.
file(READ ${resources}/presets/cpu.yaml preset)
file(WRITE ${resources}/presets/cpu.yaml "# The preset of the moved prefix.\n${preset}")
expect(0 presets)
expect_output("The preset of the moved prefix")
expect(0 run -q --frames 2 --max-new-tokens 4 ${SOURCE_DIR}/samples/videos/bridge-006-h264.mp4)
expect_output("\"caption\":\"[^\"]")
expect(0 run -q --frames 2 --max-new-tokens 4 ${resources}/samples/videos/bridge-006-h264.mp4)
# The name of the installed model is one for every command, in a working folder that knows nothing of it.
expect(0 run -q --frames 2 --max-new-tokens 4 --model samples/demo-model
  ${resources}/samples/videos/bridge-006-h264.mp4)
expect(0 inspect samples/demo-model)
expect_output("runs +yes")
expect(0 plan --model samples/demo-model)
expect(0 quantize samples/demo-model --format int8 -o ${WORK_DIR}/int8)
expect(0 doctor)
expect_output("model +[^\n]*/moved/${DATADIR}/caption-cli/samples/demo-model")

# Without the installed resources it finds none, since it does not know the source tree.
file(REMOVE_RECURSE ${resources})
expect(3 run -q ${SOURCE_DIR}/samples/videos/bridge-006-h264.mp4)
expect(4 doctor)
expect_output("missing  presets ")
file(REMOVE_RECURSE ${WORK_DIR})
