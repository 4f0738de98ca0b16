# Run by ctest (CMakeLists.txt): scripts/cmake/CaptionNvcc.cmake beside programs that answer as nvcc does.
cmake_minimum_required(VERSION 3.24)
include(${SOURCE_DIR}/scripts/cmake/CaptionNvcc.cmake)

# check(NAME VERSION BODY HOST OBSTACLE): with an nvcc of that version, whose compilations run BODY, the host compiler
# is HOST at the end, and the obstacle matches the expression OBSTACLE.
function(check name version body host expected)
  set(nvcc ${WORK_DIR}/${name})
  file(WRITE ${nvcc} "#!/bin/sh
if [ \"$1\" = --version ]; then echo 'Cuda compilation tools, release ${version}'; exit 0; fi
${body}
")
  file(CHMOD ${nvcc} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  unset(CMAKE_CUDA_HOST_COMPILER CACHE)
  caption_try_nvcc(${nvcc})
  if(NOT obstacle MATCHES "^${expected}$")
    message(SEND_ERROR "${name}: \"${obstacle}\" is not \"${expected}\"")
  endif()
  if(NOT "${CMAKE_CUDA_HOST_COMPILER}" STREQUAL host)
    message(SEND_ERROR "${name}: the host compiler is \"${CMAKE_CUDA_HOST_COMPILER}\", not \"${host}\"")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
foreach(release 15 14 13)
  file(WRITE ${WORK_DIR}/bin/g++-${release} "")
  file(CHMOD ${WORK_DIR}/bin/g++-${release} PERMISSIONS OWNER_READ OWNER_EXECUTE)
endforeach()
set(CMAKE_BINARY_DIR ${WORK_DIR})
set(CMAKE_PROGRAM_PATH ${WORK_DIR}/bin)
unset(ENV{CUDAHOSTCXX})
set(refuses "echo '#error -- unsupported GNU version! gcc versions later than 13 are not supported!'; exit 1")

check(right "13.0, V13.0.88" "exit 0" "" "")
check(least "12.4, V12.4.99" "exit 0" "" "")
check(old "12.3, V12.3.107" "exit 0" "" "the CUDA toolkit 12\\.3 .*/old. is too old, as 12\\.4 or later is needed")
check(much_older "9.2, V9.2.148" "exit 0" "" "the CUDA toolkit 9\\.2 .* is too old, .*")
check(other "none" "exit 0" "" ".*/other does not say a version as nvcc does")
check(takes_13 "12.4, V12.4.131" "case \"$*\" in *-ccbin*g++-13*) exit 0;; esac; ${refuses}"
  ${WORK_DIR}/bin/g++-13 "")
check(takes_none "12.4, V12.4.131" "${refuses}" "" "nvcc 12\\.4 takes none of the g\\+\\+ here; .*")
check(broken "12.4, V12.4.131" "echo 'nvcc fatal : a file is missing'; exit 1" ""
  "nvcc 12\\.4 .*/broken. cannot compile an empty source of C\\+\\+20: nvcc fatal : a file is missing")
set(ENV{CUDAHOSTCXX} ${WORK_DIR}/bin/g++-15)
check(named "12.4, V12.4.131" "${refuses}" ""
  "nvcc 12\\.4 .*/named. cannot compile an empty source of C\\+\\+20: #error -- unsupported GNU version! .*")
file(REMOVE_RECURSE ${WORK_DIR})
