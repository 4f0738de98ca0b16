# What `cmake --install` puts where, and the Debian package that `cpack` makes of it (scripts/package).
# Binary and man pages are installed by the folders that make them.
set(_resources ${CMAKE_INSTALL_DATADIR}/caption-cli)  # lib/config/resources.cpp looks there
install(DIRECTORY presets/ DESTINATION ${_resources}/presets)
install(DIRECTORY samples/demo-model samples/videos DESTINATION ${_resources}/samples)
install(FILES samples/prompts.txt samples/references.jsonl DESTINATION ${_resources}/samples)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
# What the documents link to, at the place that their links name.
install(FILES samples/contact-sheet.png DESTINATION ${CMAKE_INSTALL_DOCDIR}/samples)
install(FILES scripts/cmake/CaptionUnity.cmake DESTINATION ${CMAKE_INSTALL_DOCDIR}/scripts/cmake)
install(FILES scripts/peers/plan.py DESTINATION ${CMAKE_INSTALL_DOCDIR}/scripts/peers)

# The distribution is part of the version: libraries have other names on another release.
set(_system debian)
set(_release "")
set(_suite unstable)
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release _lines REGEX "^(ID|VERSION_ID|VERSION_CODENAME)=")
  foreach(line IN LISTS _lines)
    string(REGEX REPLACE "^[A-Z_]+=\"?([^\"]*)\"?$" "\\1" value "${line}")
    if(line MATCHES "^ID=")
      set(_system ${value})
    elseif(line MATCHES "^VERSION_ID=")
      set(_release ${value})
    else()
      set(_suite ${value})
    endif()
  endforeach()
endif()

# Who answers for the package, as Debian's own tools ask for it.
if(DEFINED ENV{DEBFULLNAME} AND DEFINED ENV{DEBEMAIL})
  set(CPACK_PACKAGE_CONTACT "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
else()
  set(CPACK_PACKAGE_CONTACT "The caption-cli authors <caption-cli@users.noreply.github.com>")
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME caption-cli)
set(CPACK_PACKAGE_VENDOR "The caption-cli authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "captions folders of video in Korean, offline")
set(CPACK_PACKAGE_DESCRIPTION "\
caption-cli turns folders of video into Korean captions, one record per clip,
without Python, a server or a network: FFmpeg decodes, a vision tower sees,
and an engine with paged KV caches writes. Its eval command scores captions
against references (METEOR for Korean, BLEU, ROUGE-L, CIDEr-D, chrF).
.
A small demonstration model and sample videos are included; larger models are
read from local Hugging Face folders. caption-cli doctor says what a machine
can run.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE "1~${_system}${_release}")
set(CPACK_DEBIAN_PACKAGE_SECTION video)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS hunspell-ko)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# Read by the script, which runs between installing and packing.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/scripts/cmake/DebianDocuments.cmake)
set(CPACK_CAPTION_SOURCE_DIR ${PROJECT_SOURCE_DIR})
set(CPACK_CAPTION_SUITE ${_suite})
include(CPack)
