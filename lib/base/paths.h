// base/paths.h: what the system says of paths, without exceptions of std::filesystem.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace caption {

// Whether the path is a folder, or a link to one. False also where it cannot be examined.
bool is_folder(const std::filesystem::path& path);

// The path from the root, without "." and "..", which need not exist. A relative path stays
// relative where the working folder has been removed.
std::filesystem::path absolute_path(const std::filesystem::path& path);

// The entries of a folder in no order. Where listing fails, `error` is set to the reason, and the
// entries are those that came before.
std::vector<std::filesystem::directory_entry> list_folder(const std::filesystem::path& folder,
                                                          std::error_code& error);

}  // namespace caption
