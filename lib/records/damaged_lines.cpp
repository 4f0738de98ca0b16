#include "records/internal/damaged_lines.h"

#include <cstdint>
#include <optional>

#include "records/internal/foreign_files.h"

namespace caption::records {
namespace {

// A last line without its end, which another program or a kill left, gets one.
OutputFile open_damaged(const std::filesystem::path& output) {
  require_damaged_place(output);
  OutputFile kept(damaged_path(output));
  const std::int64_t size_bytes = kept.size_bytes();
  if (size_bytes > 0 && kept.read(size_bytes - 1, 1) != "\n") {
    kept.append("\n", Durability::kLater);
  }
  return kept;
}

}  // namespace

std::filesystem::path damaged_path(const std::filesystem::path& output) {
  return output.string() + ".damaged";
}

void require_damaged_place(const std::filesystem::path& output) {
  require_own_file(damaged_path(output), output, "lines of the output that are no records");
}

void keep_damaged_lines(const OutputFile& file, const RecordIndex& index) {
  std::optional<OutputFile> kept;
  for (const RecordSlot& slot : index.slots()) {
    if (!slot.is_damaged) continue;
    if (!kept.has_value()) kept.emplace(open_damaged(file.path()));
    kept->append(file.read(slot.offset, slot.size_bytes), Durability::kLater);
  }
  if (kept.has_value()) kept->sync();
}

}  // namespace caption::records
