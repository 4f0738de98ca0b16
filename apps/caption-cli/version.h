// apps/caption-cli/version.h: which program this is.
#pragma once

#include <string>

namespace caption::cli {

// "0.1.0"
std::string version_number();
// What --version prints: "caption-cli 0.1.0", then a line each for the commit of the sources, the
// compiler, and the libraries as they are loaded now.
std::string version_text();

// The commit that the sources are of, with "and changes" where tracked files differ from it;
// "unknown" for sources without one. Made at build time (scripts/cmake/BuildCommit.cmake).
const char* build_commit();

}  // namespace caption::cli
