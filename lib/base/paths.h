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

// The folder to which paths in a file are relative: that of a regular file, and an empty path,
// which is the working folder, for a file that has no folder of its own, as a FIFO or what a shell
// makes of <(command). To be asked before a FIFO is read, which may be gone afterwards.
std::filesystem::path folder_of_file(const std::filesystem::path& path);

// The entries of a folder in no order. Where listing fails, `error` is set to the reason, and the
// entries are those that came before.
std::vector<std::filesystem::directory_entry> list_folder(const std::filesystem::path& folder,
                                                          std::error_code& error);

}  // namespace caption
