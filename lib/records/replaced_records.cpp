#include "records/internal/replaced_records.h"

#include <fstream>
#include <unordered_set>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "records/internal/foreign_files.h"
#include "records/internal/read_records.h"

namespace caption::records {
namespace {

namespace fs = std::filesystem;

bool is_caption(const RecordSlot& slot) {
  return slot.is_accepted && slot.status != Status::kFailed && slot.content != Hash128{};
}

fs::path replaced_path(const fs::path& output) { return output.string() + ".replaced"; }

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path.string() + ".part", error);
  if (fs::file_size(path, error) == 0 || error || !is_output(path)) return;
  fs::remove(path, error);
  if (error) throw Error(ErrorCode::kIo, path.string() + ": cannot be removed: " + error.message());
}

std::string read_line(const fs::path& path, const RecordSlot& slot) {
  std::string line(slot.size_bytes, '\n');  // the file may lack the end of its last line
  std::ifstream file(path, std::ios::binary);
  file.seekg(slot.offset);
  file.read(line.data(), static_cast<std::streamsize>(line.size()) - 1);
  if (!file) throw Error(ErrorCode::kIo, path.string() + ": cannot be read");
  return line;
}

}  // namespace

ReplacedRecords::ReplacedRecords(const fs::path& output, const std::set<std::string>& accepted,
                                 const std::function<void(const Record&)>& visit)
    : path_(replaced_path(output)) {
  require_own_file(path_, output, "captions of films whose place another film took");
  std::error_code error;
  if (fs::file_size(path_, error) == 0 || error) return;
  read_records({.path = path_, .use = FileUse::kBeside}, accepted, index_, visit);
}

std::optional<Record> ReplacedRecords::find(const ClipKeys& clip,
                                            const std::vector<Status>& retried) const {
  const RecordSlot* const found = index_.find_of_content(clip, [&](const RecordSlot& slot) {
    return is_caption(slot) && !must_remake(slot, retried);
  });
  if (found == nullptr) return std::nullopt;
  return parse_json_line(read_line(path_, *found));
}

void ReplacedRecords::update(const OutputFile& file, const RecordIndex& live) {
  if (live.num_superseded() == 0 && index_.slots().empty()) return;
  std::unordered_set<Hash128> taken;  // contents that have a caption
  const auto take = [&](const RecordSlot& slot) {
    return is_caption(slot) && taken.insert(slot.content).second;
  };
  for (const RecordSlot& slot : live.slots()) {
    if (slot.is_live) take(slot);
  }
  std::vector<const RecordSlot*> lost;  // captions that compaction would drop
  // Captions in the file already whose content has no live record.
  std::vector<const RecordSlot*> held;
  const auto& lines = live.slots();
  for (auto slot = lines.rbegin(); slot != lines.rend(); ++slot) {  // newest first
    if (!slot->is_live && take(*slot)) lost.push_back(&*slot);
  }
  for (const RecordSlot& slot : index_.slots()) {
    if (take(slot)) held.push_back(&slot);
  }
  if (lost.empty() && held.size() == index_.slots().size()) return;
  if (lost.empty() && held.empty()) return remove_file(path_);
  OutputFile beside(path_.string() + ".part");
  beside.truncate(0);
  for (const RecordSlot* slot : held) beside.append(read_line(path_, *slot), Durability::kLater);
  for (auto slot = lost.rbegin(); slot != lost.rend(); ++slot) {
    beside.append(file.read((*slot)->offset, (*slot)->size_bytes), Durability::kLater);
  }
  beside.take_place_of(path_);
  log_info("records", path_.string() + " keeps " +
                          counted(std::ssize(lost) + std::ssize(held), "caption") +
                          " of films whose place another film took");
}

void remove_replaced_records(const fs::path& output) { remove_file(replaced_path(output)); }

}  // namespace caption::records
