// apps/caption-cli/version.h: version of the program, its sources and its libraries.
#pragma once

#include <string>

namespace caption::cli {

// "0.1.0"
std::string version_number();
// Returns the text of --version: "caption-cli 0.1.0", then one line each for the commit of the
// sources, the compiler, and the loaded libraries.
std::string version_text();

// Returns the commit of the sources, with "and changes" if tracked files differ from it; "unknown"
// for sources outside a repository. Generated at build time (scripts/cmake/BuildCommit.cmake).
const char* build_commit();

}  // namespace caption::cli
