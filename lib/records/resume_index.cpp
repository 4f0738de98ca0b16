#include "records/resume_index.h"

#include <algorithm>

#include "base/error.h"
#include "base/mapped_file.h"
#include "records/internal/lines.h"

namespace caption::records {
namespace {

// Two spellings of one path are one clip. No path holds a NUL.
std::string identity(std::string_view video, std::string_view prompt) {
  std::string id = std::filesystem::path(video).lexically_normal().string();
  id += '\0';
  return id.append(prompt);
}

}  // namespace

ResumeIndex ResumeIndex::read(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string_view text = as_text(file.bytes());
  ResumeIndex index;
  index.complete_bytes_ = static_cast<std::int64_t>(complete_lines_bytes(text));
  index.torn_bytes_ = static_cast<std::int64_t>(text.size()) - index.complete_bytes_;
  std::int64_t line_number = 0;
  for_each_line(text, [&](std::string_view line) {
    ++line_number;
    try {
      Record record = parse_json_line(line.substr(0, line.size() - 1));
      index.statuses_.insert_or_assign(identity(record.video, record.prompt), record.status);
    } catch (const Error& error) {
      throw Error(ErrorCode::kOutputConflict, path.string() + ":" + std::to_string(line_number) +
                                                  ": not a caption record (" + error.what() +
                                                  "); --overwrite starts the file anew");
    }
  });
  return index;
}

bool ResumeIndex::contains(std::string_view video, std::string_view prompt) const {
  return statuses_.contains(identity(video, prompt));
}

std::int64_t ResumeIndex::num_of(Status status) const {
  return std::count_if(statuses_.begin(), statuses_.end(),
                       [&](const auto& entry) { return entry.second == status; });
}

}  // namespace caption::records
