# One target per room. A room's CMakeLists.txt is a few lines:
#
#   caption_module(kv SOURCES page_pool.cpp DEPS base)
#
# makes the static library caption_kv with the alias caption::kv, whose headers are included as
# "kv/page_pool.h" (kernels: "kernels/linear.h"). DEPS are rooms, LIBS are packages; both propagate.
# ALONE are sources that are never compiled together with others (CaptionUnity.cmake). COLD rooms have no
# loops that take time: a release compiles them with -O1, in two thirds of the time of -O3.
function(caption_module name)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;DEPS;LIBS;ALONE" ${ARGN})
  set(target caption_${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(caption::${name} ALIAS ${target})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE caption_flags)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${target} PUBLIC caption::${dep})
  endforeach()
  # A package's headers stay behind the room's door; only linking propagates.
  target_link_libraries(${target} PRIVATE ${ARG_LIBS})
  set(headers caption_std_headers)
  if(ARG_COLD)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    set(headers caption_cold_headers)
  endif()
  if(TARGET ${headers})
    caption_use_precompiled(${target} ${headers})
  endif()
  caption_unity(${target} ALONE ${ARG_ALONE})
endfunction()

# Lets an executable of the build tree find `presets/` and `samples/` of the source tree, by a file
# beside it (lib/config/resources.cpp): nothing of where it was built is compiled in.
function(caption_source_tree_resources target)
  get_property(is_written DIRECTORY PROPERTY CAPTION_RESOURCES_WRITTEN)
  if(is_written)  # executables of one folder share it
    return()
  endif()
  set_property(DIRECTORY PROPERTY CAPTION_RESOURCES_WRITTEN ON)
  file(GENERATE OUTPUT $<TARGET_FILE_DIR:${target}>/caption-cli.resources
    CONTENT "${PROJECT_SOURCE_DIR}\n")
endfunction()

# caption_test(kv SOURCES page_pool_test.cpp DEPS kv [LABELS fast] [ALONE file.cpp...] [PLAIN]) makes
# the executable caption_kv_test from tests/kv, and runs it under the name kv. Sources that replace
# operator new are ALONE: in the code of a batch the compiler would see its new beside our free.
# PLAIN tests compute nothing themselves, so that a release does not optimise them.
function(caption_test name)
  if(NOT CAPTION_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "PLAIN" "" "SOURCES;DEPS;LIBS;LABELS;ALONE" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  set(target caption_${name}_test)
  add_executable(${target} ${ARG_SOURCES} $<TARGET_OBJECTS:caption_test_main>)
  # A release's tests are compiled in two thirds of the time of -O3, PLAIN ones in less than half of
  # it; what they test has -O3.
  set(level -O1)
  set(headers caption_test_headers)
  if(ARG_PLAIN)
    set(level -O0)
    set(headers caption_plain_test_headers)
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${level}>)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE caption_flags doctest::doctest ${ARG_LIBS})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${target} PRIVATE caption::${dep})
  endforeach()
  target_compile_definitions(${target}
    PRIVATE CAPTION_SOURCE_DIR="${PROJECT_SOURCE_DIR}" CAPTION_TEST_TMP="${CMAKE_CURRENT_BINARY_DIR}")
  caption_use_precompiled(${target} ${headers})
  caption_source_tree_resources(${target})
  caption_unity(${target} ALONE ${ARG_ALONE})
  add_test(NAME ${name} COMMAND ${target})
  # The test, and itself on another device, write the same files.
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600
    RESOURCE_LOCK files_of_${name})
endfunction()

# caption_test_on_mirror(engine [ARGUMENTS -tse=...]) runs the tests of a room a second time, on the
# mirror device (lib/backend/mirror.h), under the name engine_on_mirror.
function(caption_test_on_mirror name)
  if(NOT CAPTION_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "ARGUMENTS" ${ARGN})
  add_test(NAME ${name}_on_mirror COMMAND caption_${name}_test ${ARG_ARGUMENTS})
  set_tests_properties(${name}_on_mirror PROPERTIES LABELS fast TIMEOUT 600
    RESOURCE_LOCK files_of_${name} ENVIRONMENT CAPTION_TEST_DEVICE=mirror)
endfunction()

# caption_test_on_emulated_cuda(engine [ARGUMENTS -tse=...]) makes the executable
# caption_engine_on_cuda_test of a room's tests with the CUDA kernels on the emulator in place of the
# CPU's contracts and of the backend's runtime, and runs it under the name engine_on_cuda. It needs
# tests/cuda.
function(caption_test_on_emulated_cuda name)
  cmake_parse_arguments(ARG "" "" "ARGUMENTS" ${ARGN})
  set(target caption_${name}_on_cuda_test)
  add_executable(${target} $<TARGET_OBJECTS:caption_${name}_test> $<TARGET_OBJECTS:caption_test_main>)
  target_link_libraries(${target} PRIVATE caption_emulated_runtime caption_cuda_emulator
    caption_cuda_dispatch caption_emulated_cuda_kernels
    $<TARGET_PROPERTY:caption_${name}_test,LINK_LIBRARIES>)
  caption_source_tree_resources(${target})
  add_test(NAME ${name}_on_cuda COMMAND ${target} ${ARG_ARGUMENTS})
  set_tests_properties(${name}_on_cuda PROPERTIES LABELS fast TIMEOUT 600
    RESOURCE_LOCK files_of_${name} ENVIRONMENT "CAPTION_TEST_DEVICE=cuda;CAPTION_EMULATOR_SEED=1")
endfunction()

# caption_fuzzer(safetensors SOURCES safetensors_fuzz.cpp DEPS weights) makes a libFuzzer target
# (clang with CAPTION_FUZZ=ON) from a file that defines LLVMFuzzerTestOneInput. Elsewhere the same
# file is linked with tests/fuzz/replay_main.cpp and replays its corpus as a ctest.
function(caption_fuzzer name)
  if(NOT CAPTION_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  set(target caption_fuzz_${name})
  if(CAPTION_FUZZ)
    add_executable(${target} ${ARG_SOURCES})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  else()
    add_executable(${target} ${ARG_SOURCES} $<TARGET_OBJECTS:caption_fuzz_replay>)
    add_test(NAME fuzz_replay_${name}
      COMMAND ${target} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
    set_tests_properties(fuzz_replay_${name} PROPERTIES LABELS fast TIMEOUT 120)
  endif()
  if(NOT TARGET caption_fuzzers)
    add_custom_target(caption_fuzzers)
  endif()
  add_dependencies(caption_fuzzers ${target})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE caption_flags)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${target} PRIVATE caption::${dep})
  endforeach()
  caption_use_precompiled(${target} caption_std_headers)
endfunction()

# caption_emulated_kernels(target SOURCES norm.cu) makes an object library of CUDA kernels that run
# on the emulator. Their accesses are instrumented, so the compiler must not merge accesses or turn
# loops into calls of memcpy. Call it at most once per source and folder: it sets properties of the
# sources.
function(caption_emulated_kernels target)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  set_source_files_properties(${ARG_SOURCES} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS
    "-x;c++;-fsanitize=thread;--param=tsan-instrument-func-entry-exit=0;-g1;-fno-tree-vectorize;-fno-tree-slp-vectorize;-fno-store-merging;-fno-tree-loop-distribute-patterns")
  add_library(${target} OBJECT ${ARG_SOURCES})
  # Compiled in little more than half the time of -O3; what takes time in the tests is the emulator.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE caption_flags)
endfunction()
