// tests/app/folders.h: makes and lists folders of clips for the binary under test.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace caption::test {

using Names = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part);

// Makes links to samples under these names, and a text file.
void fill(const std::filesystem::path& folder, const Names& names);

// Lists every file below a folder with its size.
std::string list(const std::filesystem::path& folder);

// The contents of the files of a folder, by name.
using Files = std::map<std::string, std::string>;
Files files_of(const std::filesystem::path& folder);

}  // namespace caption::test
