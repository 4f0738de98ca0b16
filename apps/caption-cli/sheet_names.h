// apps/caption-cli/sheet_names.h: what the contact sheets of `inspect` are called.
#pragma once

#include <string>
#include <vector>

namespace caption::cli {

// A name for the sheet of each path, for the working folder: "x.mkv.frames.png", and where films of
// different folders have one file name, with as many folders as tell them apart:
// "a-x.mkv.frames.png". The same path twice has one name; different paths never have.
std::vector<std::string> name_sheets(const std::vector<std::string>& paths);

}  // namespace caption::cli
