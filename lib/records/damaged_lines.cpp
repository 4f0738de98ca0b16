#include "records/internal/damaged_lines.h"

#include <optional>

namespace caption::records {

std::filesystem::path damaged_path(const std::filesystem::path& output) {
  return output.string() + ".damaged";
}

void keep_damaged_lines(const OutputFile& file, const RecordIndex& index) {
  std::optional<OutputFile> kept;
  for (const RecordSlot& slot : index.slots()) {
    if (!slot.is_damaged) continue;
    if (!kept.has_value()) kept.emplace(damaged_path(file.path()));
    kept->append(file.read(slot.offset, slot.size_bytes), Durability::kLater);
  }
  if (kept.has_value()) kept->sync();
}

}  // namespace caption::records
