# Flags live on one interface target that every room links privately; nothing is set globally.
add_library(caption_flags INTERFACE)
target_compile_options(caption_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion
    -Wnon-virtual-dtor -Woverloaded-virtual>)
# In a batch of sources (CaptionUnity.cmake) a local name may be that of another source's constant, and g++
# takes all sources but one for headers, in which a class must not contain a type of an unnamed namespace.
set(_in_batches $<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>)
set(_batch_warnings -Wno-shadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(_batch_warnings -Wshadow=local -Wno-subobject-linkage)
endif()
target_compile_options(caption_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:$<IF:${_in_batches},${_batch_warnings},-Wshadow>>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies in std::string concatenation that cannot be (GCC bug 105651).
  target_compile_options(caption_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # GCC 13 and 14 take a vector that grows by insert() for one that stays too small (GCC bug 100366).
  target_compile_options(caption_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow>)
endif()
# Baseline x86-64-v2 (every x86 server since 2009); faster tiers carry their own flags per file.
# Contraction to fused multiply-add would make results depend on the compiler's mood.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(caption_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=x86-64-v2>)
endif()
target_compile_options(caption_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
# Checks and debug information name source files: relative to the project, so that a binary does not
# tell where it was built, and is the same wherever that was. Of two that match the last one counts.
target_compile_options(caption_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=
    -ffile-prefix-map=${PROJECT_BINARY_DIR}/=build/>)
if(CAPTION_WERROR)
  target_compile_options(caption_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

set(_sanitizers ${CAPTION_SANITIZE})
if(CAPTION_FUZZ)
  target_compile_options(caption_flags INTERFACE -fsanitize=fuzzer-no-link)
  if(NOT _sanitizers)
    set(_sanitizers address,undefined)
  endif()
endif()
if(_sanitizers)
  target_compile_options(caption_flags INTERFACE
    -fsanitize=${_sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_link_options(caption_flags INTERFACE -fsanitize=${_sanitizers})
  # With sanitizers on, GCC 12 takes values of std::optional that are set for uninitialised.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(caption_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()

find_package(Threads REQUIRED)
target_link_libraries(caption_flags INTERFACE Threads::Threads)
