# Headers of std that most sources include, precompiled once for all targets of equal flags. A source still
# includes what it uses: builds without precompiled headers find what is missing. Those are the presets
# package, asan, tsan, fuzz and tidy, and by default builds with a compiler cache, which caches nothing of
# this unless it is told to (ccache: sloppiness = pch_defines,time_macros).
# CMAKE_DISABLE_PRECOMPILE_HEADERS decides.
if(NOT DEFINED CMAKE_DISABLE_PRECOMPILE_HEADERS AND CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

set(_std_headers <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstdio> <cstring> <deque>
  <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <random> <set>
  <span> <sstream> <stdexcept> <string> <string_view> <thread> <unordered_map> <utility> <vector>)

# <bits/char_traits.h> switches three warnings off by pragmas, which g++ 12 does not keep in a precompiled
# header: they appear where std::string is known to be right. They stay on, and are no errors here.
function(_caption_precompiled_warnings target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-error=array-bounds
      -Wno-error=stringop-overflow -Wno-error=stringop-overread>)
  endif()
endfunction()

# caption_precompile(TARGET [HEADERS <doctest/doctest.h>]): these headers and those of std, for a target of
# its own flags.
function(caption_precompile target)
  cmake_parse_arguments(ARG "" "" "HEADERS" ${ARGN})
  target_precompile_headers(${target} PRIVATE ${ARG_HEADERS} ${_std_headers})
  _caption_precompiled_warnings(${target})
endfunction()

# caption_precompiled(TARGET [OPTIONS -O1] [HEADERS <doctest/doctest.h>]) makes a target without code, whose
# precompiled headers others use by caption_use_precompiled.
function(caption_precompiled target)
  cmake_parse_arguments(ARG "" "" "OPTIONS;HEADERS" ${ARGN})
  set(source ${PROJECT_BINARY_DIR}/${target}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${source})
  target_compile_options(${target} PRIVATE ${ARG_OPTIONS})
  target_link_libraries(${target} PRIVATE caption_flags)
  caption_precompile(${target} HEADERS ${ARG_HEADERS})
endfunction()

# caption_use_precompiled(TARGET OWNER): the headers of OWNER, in the sources of TARGET that have no flags
# of their own. Sources for other instruction sets must contain nothing inline of std.
function(caption_use_precompiled target owner)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_source_file_property(options ${source} TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
    if(options)
      set_source_files_properties(${source} TARGET_DIRECTORY ${target}
        PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  target_precompile_headers(${target} REUSE_FROM ${owner})
  _caption_precompiled_warnings(${target})
endfunction()

caption_precompiled(caption_std_headers)
caption_precompiled(caption_cold_headers OPTIONS $<$<CONFIG:Release>:-O1>)
if(CAPTION_TESTS)
  caption_precompiled(caption_test_headers OPTIONS $<$<CONFIG:Release>:-O1>
    HEADERS <doctest/doctest.h>)
  caption_precompiled(caption_plain_test_headers OPTIONS $<$<CONFIG:Release>:-O0>
    HEADERS <doctest/doctest.h>)
endif()
