# Run by cpack on the installed tree, before it is packed: what Debian wants beside the program. That is
# copyright, both changelogs, and documents and man pages compressed without a time of day.
cmake_minimum_required(VERSION 3.24)

set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr)
set(documents ${root}/share/doc/${CPACK_PACKAGE_NAME})

# run(COMMAND...) leaves what it printed in `output`.
function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  set(output "${text}" PARENT_SCOPE)
endfunction()

file(READ ${CPACK_CAPTION_SOURCE_DIR}/LICENSE license)
string(REGEX MATCH "Copyright \\(c\\) ([^\n]*)" line "${license}")
set(holder "${CMAKE_MATCH_1}")
# The text of the licence, indented; an empty line is a full stop there.
string(REGEX REPLACE "^.*Permission is hereby" "Permission is hereby" text "${license}")
string(STRIP "${text}" text)
string(REGEX REPLACE "\n\n" "\n.\n" text "${text}")
string(REGEX REPLACE "\n" "\n " text "${text}")
file(WRITE ${documents}/copyright
  "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ${CPACK_PACKAGE_NAME}

Files: *
Copyright: ${holder}
License: Expat

License: Expat
 ${text}
")
file(REMOVE ${documents}/LICENSE)

# The day of the newest release in CHANGELOG.md dates the entry, so that the package does not depend
# on when it is made.
file(READ ${CPACK_CAPTION_SOURCE_DIR}/CHANGELOG.md changes)
if(NOT changes MATCHES "\n## \\[?([0-9.]+)\\]? - ([0-9-]+)\n")
  message(FATAL_ERROR "CHANGELOG.md: no heading \"## [VERSION] - YYYY-MM-DD\"")
endif()
if(NOT CMAKE_MATCH_1 STREQUAL CPACK_PACKAGE_VERSION)
  message(FATAL_ERROR "CHANGELOG.md begins with version ${CMAKE_MATCH_1}; this is "
    "${CPACK_PACKAGE_VERSION}")
endif()
run(env LC_ALL=C date -u -R -d "${CMAKE_MATCH_2}")
file(WRITE ${documents}/changelog.Debian
  "${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) \
${CPACK_CAPTION_SUITE}; urgency=medium

  * Release ${CPACK_PACKAGE_VERSION}; changelog.gz says what is new.

 -- ${CPACK_PACKAGE_CONTACT}  ${output}
")
file(RENAME ${documents}/CHANGELOG.md ${documents}/changelog)

file(GLOB_RECURSE pages ${root}/share/man/*)
list(FILTER pages EXCLUDE REGEX "\\.gz$")
run(gzip -9 -n -f ${documents}/changelog ${documents}/changelog.Debian ${pages})
run(chmod 644 ${documents}/copyright)
