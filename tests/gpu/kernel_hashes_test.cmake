# Runs the hash program on the emulator as four GPUs, and as one of them with another seed beside
# hashes of which one was changed: the program must find this one, and no other.
function(run_program capability seed result)
  set(ENV{CAPTION_EMULATOR_SEED} ${seed})
  execute_process(COMMAND ${PROGRAM} --capability ${capability} ${ARGN}
    OUTPUT_VARIABLE lines RESULT_VARIABLE code)
  set(${result} "${lines}" PARENT_SCOPE)
  set(code ${code} PARENT_SCOPE)
endfunction()

set(rms_norm "\"case\":\"rms_norm\",\"hash\":\"")
foreach(capability 75 80 89 90)
  run_program(${capability} 1 lines)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "capability ${capability}: exit code ${code}\n${lines}")
  endif()
  string(REGEX REPLACE "${rms_norm}[0-9a-f]*" "${rms_norm}0" changed "${lines}")
  file(WRITE ${WORK_DIR}/expected-${capability}.jsonl "${changed}")
  string(FIND "${lines}" "\n" end)  # where the line about the device ends
  string(SUBSTRING "${lines}" ${end} -1 hashes_${capability})
endforeach()
# GPUs without bf16 multiply f16, and the tensor cores of Hopper add differently.
if(hashes_75 STREQUAL hashes_80 OR hashes_80 STREQUAL hashes_90)
  message(FATAL_ERROR "GPUs that compute differently have the same hashes")
endif()
# Ada has Ampere's hashes, and those of e4m3, which Hopper multiplies differently.
string(REGEX REPLACE "[^\n]*linear fp8[^\n]*\n" "" without_fp8 "${hashes_89}")
string(REGEX MATCHALL "\"case\":\"linear fp8[^\n]*" fp8_89 "${hashes_89}")
string(REGEX MATCHALL "\"case\":\"linear fp8[^\n]*" fp8_90 "${hashes_90}")
set(count "{\"result\":\"hashes\"[^\n]*")
string(REGEX REPLACE "${count}" "" without_fp8 "${without_fp8}")
string(REGEX REPLACE "${count}" "" hashes_80 "${hashes_80}")
if(NOT without_fp8 STREQUAL hashes_80 OR NOT fp8_89 OR NOT fp8_90 OR fp8_89 STREQUAL fp8_90)
  message(FATAL_ERROR "hashes of Ada:\n${hashes_89}\nof Hopper:\n${fp8_90}")
endif()

# Another seed: neither the order of threads nor when copies arrive changes a hash.
run_program(89 2 lines --expected ${WORK_DIR})
if(NOT code EQUAL 1 OR NOT lines MATCHES "\"different\":1,\"failed\":0,\"unknown\":0}")
  message(FATAL_ERROR "the changed hash was not found alone: exit code ${code}\n${lines}")
endif()
