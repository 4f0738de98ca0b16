#include "version.h"

#include <CLI/Version.hpp>

#include "base/hash.h"
#include "base/sha256.h"
#include "video/read_clip.h"
#include "vision/contact_sheet.h"

namespace caption::cli {
namespace {

std::string compiler() {
#ifdef __clang__
  return __VERSION__;  // begins with the compiler's name
#else
  return "g++ " __VERSION__;
#endif
}

}  // namespace

std::string version_number() { return CAPTION_VERSION; }

std::string version_text() {
  // SentencePiece and yaml-cpp provide their versions only at build time.
  return "caption-cli " + version_number() + "\ncommit: " + build_commit() +
         "\ncompiler: " + compiler() + "\nlibraries: " + video::linked_libraries() + ", OpenCV " +
         vision::opencv_version() + ", " + sha256_library() + ", xxHash " + xxhash_version() +
         "\nbuilt with: SentencePiece " CAPTION_SENTENCEPIECE_VERSION
         ", yaml-cpp " CAPTION_YAML_CPP_VERSION ", CLI11 " CLI11_VERSION;
}

}  // namespace caption::cli
