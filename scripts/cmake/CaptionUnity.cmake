# Compiles several sources of a target as one (a unity build): what their headers instantiate is then
# compiled once and not once per source. Sources of one batch must not declare the same name twice, as two
# unnamed namespaces may, so caption_unity looks at the names and puts such sources into different batches.
# A source still includes what it uses, and builds without batches find what is missing: the presets
# package, asan, tsan, fuzz and tidy.
option(CAPTION_UNITY "Compile several sources of a target as one" ON)

# _caption_declared_names(RESULT SOURCE): the names that lines of the source declare which begin in the
# first column, as clang-format writes namespaces; more than those of unnamed namespaces, which does no harm.
function(_caption_declared_names result source)
  file(READ ${source} text)
  string(REGEX REPLACE "\r?\n(\\[\\[[a-z_]+]] )?" "\n" text "\n${text}")
  # From the start of a line to the first character after the name: "int f(", "constexpr int kA[", "struct S {".
  string(REGEX MATCHALL "\n[A-Za-z_][A-Za-z0-9_:<>,&* ]*" lines "${text}")
  list(FILTER lines EXCLUDE REGEX "^\n(namespace|template|public|private|TEST_|extern|using namespace)")
  set(names "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE " (:|final) .*" "" line "${line}")  # a base class is not the name
    if(line MATCHES "([A-Za-z0-9_]+(::[A-Za-z0-9_]+)*) *$" AND NOT CMAKE_MATCH_1 STREQUAL "operator")
      list(APPEND names ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(${result} "${names}" PARENT_SCOPE)
endfunction()

# _caption_choose_batch(PATH BYTES): sets `batch` to the number of the source's batch, the first that has room
# for it below BYTES and none of its names. Of the caller's variables it keeps `batches`, their number, which is
# 0 at first, and for each of them the bytes and names.
macro(_caption_choose_batch path bytes)
  file(SIZE ${path} size)
  _caption_declared_names(names ${path})
  set(taken "")  # batches with one of the names
  foreach(name IN LISTS names)
    list(APPEND taken ${batches_with_${name}})
  endforeach()
  set(batch 1)
  while(batch LESS_EQUAL batches)
    math(EXPR sum "${bytes_of_${batch}} + ${size}")
    if(sum LESS_EQUAL ${bytes} AND NOT batch IN_LIST taken)
      break()
    endif()
    math(EXPR batch "${batch} + 1")
  endwhile()
  if(batch GREATER batches)
    set(batches ${batch})
    set(sum ${size})
  endif()
  set(bytes_of_${batch} ${sum})
  foreach(name IN LISTS names)
    list(APPEND batches_with_${name} ${batch})
  endforeach()
endmacro()

# caption_unity(TARGET [BYTES 100000] [ALONE file.cpp...]): batches of at most BYTES bytes of source, except
# that a larger source is a batch. Sources with flags of their own, and those ALONE, remain single.
function(caption_unity target)
  if(NOT CAPTION_UNITY)
    return()
  endif()
  cmake_parse_arguments(ARG "" "BYTES" "ALONE" ${ARGN})
  if(NOT ARG_BYTES)
    set(ARG_BYTES 100000)
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.(cpp|cu)$")
  set(batches 0)
  foreach(source IN LISTS sources)
    get_source_file_property(options ${source} TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
    get_source_file_property(is_generated ${source} TARGET_DIRECTORY ${target} GENERATED)
    get_source_file_property(path ${source} TARGET_DIRECTORY ${target} LOCATION)
    if(options OR is_generated OR source IN_LIST ARG_ALONE)
      continue()
    endif()
    _caption_choose_batch(${path} ${ARG_BYTES})
    set_property(SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY UNITY_GROUP ${target}_${batch})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# caption_cuda_batches(RESULT [BYTES 40000] SOURCES a.cu...): sets RESULT to sources in the build tree, each of
# which includes several of these, as CMake before 3.31 makes no batches of CUDA. nvcc reads what a source
# includes, much of std, once for each architecture and once for the host.
function(caption_cuda_batches result)
  cmake_parse_arguments(ARG "" "BYTES" "SOURCES" ${ARGN})
  if(NOT CAPTION_UNITY)
    set(${result} ${ARG_SOURCES} PARENT_SCOPE)
    return()
  endif()
  if(NOT ARG_BYTES)
    set(ARG_BYTES 40000)
  endif()
  set(batches 0)
  foreach(source IN LISTS ARG_SOURCES)
    get_filename_component(path ${source} ABSOLUTE)
    _caption_choose_batch(${path} ${ARG_BYTES})
    string(APPEND includes_of_${batch} "#include \"${path}\"\n")
  endforeach()
  set(files "")
  foreach(batch RANGE 1 ${batches})
    set(file ${CMAKE_CURRENT_BINARY_DIR}/cuda_batch_${batch}.cu)
    file(CONFIGURE OUTPUT ${file} CONTENT "${includes_of_${batch}}")
    list(APPEND files ${file})
  endforeach()
  set(${result} ${files} PARENT_SCOPE)
endfunction()
