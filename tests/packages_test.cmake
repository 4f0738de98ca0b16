# Run by ctest (CMakeLists.txt): the packages are found where sentencepiece.pc requires a package
# that nothing installs, as Debian 13's does.
cmake_minimum_required(VERSION 3.24)

file(REMOVE_RECURSE ${WORK_DIR})
file(WRITE ${WORK_DIR}/pkgconfig/sentencepiece.pc
  "Name: sentencepiece\nDescription: of a test\nVersion: 1\nRequires: a-package-that-nobody-has\n")
file(WRITE ${WORK_DIR}/CMakeLists.txt "cmake_minimum_required(VERSION 3.24)
project(packages CXX)
set(CAPTION_TESTS OFF)
include(${SOURCE_DIR}/scripts/cmake/CaptionPackages.cmake)
if(NOT TARGET sentencepiece)
  message(FATAL_ERROR \"no target sentencepiece\")
endif()
")
set(ENV{PKG_CONFIG_PATH} ${WORK_DIR}/pkgconfig)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${WORK_DIR} -B ${WORK_DIR}/build -G ${GENERATOR}
  -D CMAKE_MAKE_PROGRAM=${MAKE_PROGRAM} -D CMAKE_CXX_COMPILER=${COMPILER}
  RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "configuring stopped:\n${text}")
endif()
file(REMOVE_RECURSE ${WORK_DIR})
