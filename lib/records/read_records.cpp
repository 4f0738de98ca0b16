#include "records/internal/read_records.h"

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "records/internal/lines.h"

namespace caption::records {
namespace {

constexpr std::int64_t kReleasedBytes = 16 << 20;

}  // namespace

std::int64_t read_records(const std::filesystem::path& path, const std::set<std::string>& accepted,
                          RecordIndex& index, const std::function<void(const Record&)>& visit) {
  const MappedFile bytes(path);
  const std::string_view text = as_text(bytes.bytes());
  std::int64_t offset = 0;
  std::int64_t released = 0;  // bytes whose mapped pages were released
  std::int64_t line_number = 0;
  for_each_line(text, [&](std::string_view line) {
    ++line_number;
    if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) {
      offset += std::ssize(line);
      return;
    }
    try {
      const Record record = parse_json_line(line.substr(0, line.size() - 1));
      RecordSlot& slot = index.add(record, offset, std::ssize(line));
      slot.is_accepted = record.settings.empty() || accepted.contains(record.settings);
      if (visit) visit(record);
    } catch (const Error& error) {
      throw Error(ErrorCode::kOutputConflict,
                  path.string() + ":" + std::to_string(line_number) + ": not a caption record (" +
                      error.what() +
                      "); mend or remove the line, or give --overwrite to start the file anew");
    }
    offset += std::ssize(line);
    if (offset - released < kReleasedBytes) return;
    release_pages(bytes.bytes().subspan(static_cast<std::size_t>(released),
                                        static_cast<std::size_t>(offset - released)));
    released = offset;
  });
  return static_cast<std::int64_t>(complete_lines_bytes(text));
}

std::string video_of_torn_line(std::string_view begin) {
  constexpr std::string_view kVideo = "{\"video\":\"";
  if (!begin.starts_with(kVideo)) return {};
  for (std::size_t at = kVideo.size(); at < begin.size(); ++at) {
    if (begin[at] == '\\') {
      ++at;
    } else if (begin[at] == '"') {
      const std::string whole = std::string(begin.substr(0, at + 1)) + "}";
      try {
        return JsonObject::parse(whole, "", ErrorCode::kBadReference).require_string("video");
      } catch (const Error&) {
        return {};
      }
    }
  }
  return {};
}

}  // namespace caption::records
