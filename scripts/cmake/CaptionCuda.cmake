# Finds a CUDA toolkit (12.4 or later), says what was decided, and sets CAPTION_HAVE_CUDA. CAPTION_CUDA=ON sets
# CAPTION_CUDA_BACKEND, too: the program contains the kernels. AUTO does not, as long as no GPU has run them
# (docs/gpu.md), and goes on without a toolkit where ON stops. The driver is asked for devices at run time, with or
# without a toolkit, unless CAPTION_CUDA is OFF or EMULATED. Sets CAPTION_HAVE_CUDA_EMULATOR where the tests can run
# kernels on the CPU (tests/support/cuda/emulator.h), with or without a toolkit; EMULATED does not look for one.
set(CAPTION_HAVE_CUDA OFF)
set(CAPTION_CUDA_BACKEND OFF)
set(CAPTION_HAVE_CUDA_EMULATOR OFF)
# The emulator is the runtime of -fsanitize=thread, so no other sanitizer goes with it. clang turns
# loops of a kernel into calls of memcpy, which are not instrumented.
if(CAPTION_TESTS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CAPTION_SANITIZE
   AND NOT CAPTION_FUZZ AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|aarch64|arm64")
  set(CAPTION_HAVE_CUDA_EMULATOR ON)
endif()
if(CAPTION_CUDA STREQUAL "EMULATED" AND NOT CAPTION_HAVE_CUDA_EMULATOR)
  message(FATAL_ERROR "CAPTION_CUDA=EMULATED needs CAPTION_TESTS, g++, x86-64 or AArch64, and "
    "neither CAPTION_SANITIZE nor CAPTION_FUZZ.")
endif()
if(CAPTION_CUDA STREQUAL "OFF" OR CAPTION_CUDA STREQUAL "EMULATED")
  message(STATUS "CUDA: off (CAPTION_CUDA=${CAPTION_CUDA})")
  return()
endif()

# caption_without_cuda(REASON): ends this file, and with CAPTION_CUDA=ON the configuration.
macro(caption_without_cuda reason)
  if(CAPTION_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CAPTION_CUDA=ON: ${reason}. CAPTION_CUDA=OFF builds for the CPU.")
  endif()
  message(STATUS "CUDA: ${reason}; building for the CPU only")
  return()
endmacro()

# An nvcc off PATH would silently give a CPU-only build.
set(nvcc ${CMAKE_CUDA_COMPILER})
if(NOT nvcc AND DEFINED ENV{CUDACXX})
  separate_arguments(nvcc UNIX_COMMAND "$ENV{CUDACXX}")
  list(GET nvcc 0 nvcc)
elseif(NOT nvcc)
  find_program(CAPTION_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  set(nvcc ${CAPTION_NVCC})
endif()
if(NOT nvcc)
  caption_without_cuda("no nvcc on PATH, in $CUDA_HOME/bin or in /usr/local/cuda/bin; CUDACXX may name one")
endif()
# CMake's own messages tell neither that a toolkit is too old nor that nvcc refuses its host compiler. What was found
# is kept: a second configuration does not try again.
include(CaptionNvcc)
if(NOT CAPTION_NVCC_TRIED STREQUAL "${nvcc} ${CMAKE_CUDA_HOST_COMPILER}")
  caption_try_nvcc(${nvcc})
  if(obstacle)
    caption_without_cuda("${obstacle}")
  endif()
  set(CAPTION_NVCC_TRIED "${nvcc} ${CMAKE_CUDA_HOST_COMPILER}" CACHE INTERNAL "nvcc and its host compiler")
endif()
set(CMAKE_CUDA_COMPILER ${nvcc})

set(architectures ${CMAKE_CUDA_ARCHITECTURES})
set(CAPTION_CUDA_HAS_ADA_CODE OFF)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  # The PTX of sm_80 is that of sm_86, too: nvcc's slowest part makes it once for both.
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90)
  string(APPEND CMAKE_CUDA_FLAGS " -gencode=arch=compute_80,code=sm_86")
  set(CAPTION_CUDA_HAS_ADA_CODE ON)
  set(architectures 75 80 86 89 90)
endif()

# caption_cuda_ada(SOURCES a.cu...): code of sm_89, which without it runs that of sm_86: of the PTX of sm_80,
# which is made in any case, or of its own for the kernels of e4m3 (fp8_*.cu), which other GPUs lack.
# Products of warpgroups (warpgroup_*.cu) are in the code of sm_90a alone, which a GPU of 9.0 prefers to
# sm_90's.
function(caption_cuda_ada)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  foreach(source IN LISTS ARG_SOURCES)
    if(source MATCHES "/warpgroup_[^/]*$")
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -gencode=arch=compute_90a,code=sm_90a)
    endif()
  endforeach()
  if(NOT CAPTION_CUDA_HAS_ADA_CODE)
    return()
  endif()
  foreach(source IN LISTS ARG_SOURCES)
    set(ptx 80)
    if(source MATCHES "/fp8_[^/]*$")
      set(ptx 89)
    endif()
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -gencode=arch=compute_${ptx},code=sm_89)
  endforeach()
endfunction()
enable_language(CUDA)
# The C++ compiler links. Where nvcc's host compiler is another one, CMake puts that one's folders, with its library
# of std, before those of the linking compiler, whose objects may need a later library: the toolkit's folders remain.
set(CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES
  ${CMAKE_CUDA_HOST_IMPLICIT_LINK_DIRECTORIES} ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES})
# CMake 3.25.1 does not know that nvcc has C++20.
foreach(kind STANDARD EXTENSION)
  if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${kind}_COMPILE_OPTION -std=c++20)
  endif()
endforeach()
set(CMAKE_CUDA_STANDARD 20)
# CMake 3.25's FindCUDAToolkit stops over a target that CUDA 13 no longer has.
if(NOT TARGET CUDA::nvToolsExt)
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
endif()
find_package(CUDAToolkit REQUIRED)
set(CAPTION_HAVE_CUDA ON)
set(backend "CAPTION_CUDA=ON builds the CUDA backend")
if(CAPTION_CUDA STREQUAL "ON")
  set(CAPTION_CUDA_BACKEND ON)
  set(backend "the CUDA backend is built for ${architectures}")
endif()
message(STATUS "CUDA: toolkit ${CUDAToolkit_VERSION} (${CMAKE_CUDA_COMPILER}); ${backend}")
