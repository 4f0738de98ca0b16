#include "base/free_space.h"

#include <system_error>

namespace caption {

std::optional<std::int64_t> free_bytes(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error || space.available == static_cast<std::uintmax_t>(-1)) return std::nullopt;
  return static_cast<std::int64_t>(space.available);
}

}  // namespace caption
