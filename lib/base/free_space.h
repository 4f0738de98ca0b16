// base/free_space.h: how much room a file system has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

namespace caption {

// Returns the bytes that an ordinary user may still write to the file system of an existing folder;
// nullopt where the system does not say.
std::optional<std::int64_t> free_bytes(const std::filesystem::path& folder);

// The same, for callers that let a test answer.
using FreeBytes = std::function<std::optional<std::int64_t>(const std::filesystem::path& folder)>;

}  // namespace caption
