// tests/app/folders.h: folders of clips for the binary under test, and what became of them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace caption::test {

using Names = std::vector<std::string>;

bool contains(const std::string& text, const std::string& part);

// Links to samples under these names, and a text.
void fill(const std::filesystem::path& folder, const Names& names);

// Every file below a folder, with its size.
std::string list(const std::filesystem::path& folder);

}  // namespace caption::test
