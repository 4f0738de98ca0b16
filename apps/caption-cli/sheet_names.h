// apps/caption-cli/sheet_names.h: file names for the contact sheets of `inspect`.
#pragma once

#include <string>
#include <vector>

namespace caption::cli {

// Returns a file name in the working folder for the sheet of each path: "x.mkv.frames.png", or, for
// equal file names in different folders, with as many folder names as distinguish them:
// "a-x.mkv.frames.png". Equal paths get equal names; different paths never do.
std::vector<std::string> name_sheets(const std::vector<std::string>& paths);

}  // namespace caption::cli
