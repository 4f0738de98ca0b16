# Whether an nvcc can compile the kernels, in one sentence where it cannot.

# The oldest toolkit with which the kernels have been compiled; the assembler of earlier ones lacks the product of
# e4m3 numbers on compute capability 8.9, and graphs of CUDA 12.2 have no dependent launches.
set(CAPTION_LEAST_NVCC 12.4)

# _caption_compile(RESULT TEXT NVCC HOST): whether nvcc compiles an empty source of C++20 with this host compiler, or
# with the one that it chooses itself where HOST is empty, and what it said.
function(_caption_compile result text nvcc host)
  set(source ${CMAKE_BINARY_DIR}/CMakeFiles/nvcc_trial.cu)
  # Its headers are those that know which host compilers nvcc takes, and which C library.
  file(WRITE ${source} "#include <cmath>\n")
  set(chosen "")
  if(host)
    set(chosen -ccbin ${host})
  endif()
  execute_process(COMMAND ${nvcc} -std=c++20 ${chosen} -c ${source} -o ${source}.o
    RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE said)
  set(is_right OFF)
  if(code EQUAL 0)
    set(is_right ON)
  endif()
  set(${result} ${is_right} PARENT_SCOPE)
  set(${text} "${said}" PARENT_SCOPE)
endfunction()

# caption_try_nvcc(NVCC): sets `obstacle` to why it cannot be used, or to nothing. Where it refuses the host compiler
# that it finds, and none was named, sets CMAKE_CUDA_HOST_COMPILER to the newest g++ that it takes.
function(caption_try_nvcc nvcc)
  set(obstacle "" PARENT_SCOPE)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE text ERROR_VARIABLE text RESULT_VARIABLE code)
  if(NOT "${text}" MATCHES "release ([0-9]+\\.[0-9]+)")
    set(obstacle "${nvcc} does not say a version as nvcc does" PARENT_SCOPE)
    return()
  endif()
  set(version ${CMAKE_MATCH_1})
  if(version VERSION_LESS CAPTION_LEAST_NVCC)
    set(obstacle "the CUDA toolkit ${version} (${nvcc}) is too old, as ${CAPTION_LEAST_NVCC} or later is needed"
      PARENT_SCOPE)
    return()
  endif()
  set(host "${CMAKE_CUDA_HOST_COMPILER}")
  if(NOT host AND DEFINED ENV{CUDAHOSTCXX})
    set(host $ENV{CUDAHOSTCXX})
  endif()
  _caption_compile(is_right said ${nvcc} "${host}")
  if(NOT is_right AND NOT host AND said MATCHES "unsupported GNU version")
    foreach(release RANGE 20 12 -1)
      find_program(CAPTION_GXX_${release} g++-${release})
      mark_as_advanced(CAPTION_GXX_${release})
      if(CAPTION_GXX_${release})
        _caption_compile(is_right ignored ${nvcc} ${CAPTION_GXX_${release}})
      endif()
      if(is_right)
        set(CMAKE_CUDA_HOST_COMPILER ${CAPTION_GXX_${release}} CACHE FILEPATH "The host compiler of nvcc")
        return()
      endif()
    endforeach()
    set(obstacle "nvcc ${version} takes none of the g++ here; install an older one, as g++-13, or name it by CUDAHOSTCXX"
      PARENT_SCOPE)
    return()
  endif()
  if(NOT is_right)
    string(REGEX MATCH "[^\n]*(error|fatal|No such file)[^\n]*" line "${said}")
    string(STRIP "${line}" line)
    set(obstacle "nvcc ${version} (${nvcc}) cannot compile an empty source of C++20: ${line}" PARENT_SCOPE)
  endif()
endfunction()
