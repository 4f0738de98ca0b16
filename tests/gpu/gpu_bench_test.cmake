# Runs all parts of the bench program on the emulator with small shapes: each has its line, the
# emulator's products are those of the model that it has, and no other part fails.
set(ENV{CAPTION_EMULATOR_SEED} 1)
execute_process(COMMAND ${PROGRAM} rates mma steps engine tower formats --small
  OUTPUT_VARIABLE lines ERROR_VARIABLE said RESULT_VARIABLE code)
if(NOT code EQUAL 0 OR lines MATCHES "\"error\"")
  message(FATAL_ERROR "exit code ${code}\n${said}\n${lines}")
endif()
foreach(wanted
    "\"result\":\"rates\",\"rates\":{\"read_bytes_per_s\":[1-9]"
    "\"type\":\"bf16\",\"model\":\"hopper\",\"products\":200,\"equal\":200,"
    "\"type\":\"f16\",\"model\":\"hopper\",\"products\":200,\"equal\":200,"
    "\"step\":\"prefill of 18 tokens\",\"sequences\":1,\"new_tokens\":18,"
    "\"operation\":\"sample_rows\",\"calls\":1,\"seconds\":[^,]*,\"predicted_s\":"
    "\"step\":\"decoding of 2 sequences of 18 tokens\",\"sequences\":2,"
    "\"result\":\"engine\",\"model\":\"a small model\""
    "\"output_tokens\":6,\"cut_short\":0"
    "\"workload\":\"prefix\",\"requests\":2,.*\"prompt_tokens\":12,\"output_tokens\":4,\"cut_short\":0"
    "random weights., int8[^\"]*\",\"card\":\"\",.*\"step\":\"prefill of 3 tokens\""
    "\"result\":\"tower\",\"subject\":\"a small tower\",\"frames\":1,")
  if(NOT lines MATCHES "${wanted}")
    message(FATAL_ERROR "no ${wanted} in\n${lines}")
  endif()
endforeach()
# The other model differs from the emulator's in some products, so that the comparison can fail.
if(lines MATCHES "\"equal_ampere\":200")
  message(FATAL_ERROR "the models of Ampere and Hopper cannot be told apart\n${lines}")
endif()

execute_process(COMMAND ${PROGRAM} nonsense ERROR_QUIET RESULT_VARIABLE code)
if(NOT code EQUAL 2)
  message(FATAL_ERROR "wrong usage has exit code ${code}")
endif()
