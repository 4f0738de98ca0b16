#include "records/internal/read_records.h"

#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "records/format.h"
#include "records/internal/lines.h"

namespace caption::records {
namespace {

constexpr std::int64_t kReleasedBytes = 16 << 20;

// Returns the record that a text is, or nothing.
std::optional<Record> find_record(std::string_view text) {
  try {
    return parse_json_line(text);
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    return std::nullopt;
  }
}

const char* remedy(const RecordsFile& file) {
  return file.is_output ? "give --overwrite to start the file anew" : "move the file away";
}

[[noreturn]] void refuse_csv(const RecordsFile& file) {
  throw Error(ErrorCode::kOutputConflict,
              file.path.string() +
                  ": holds captions as csv, to which lines of JSON cannot be added; give another "
                  "-o, or " +
                  remedy(file));
}

}  // namespace

std::int64_t read_records(const RecordsFile& file, const std::set<std::string>& accepted,
                          RecordIndex& index, const std::function<void(const Record&)>& visit) {
  const MappedFile bytes(file.path);
  const std::string_view whole = as_text(bytes.bytes());
  const std::string_view text = without_byte_order_mark(whole);
  if (is_csv_of_captions(whole)) refuse_csv(file);
  std::int64_t offset = std::ssize(whole) - std::ssize(text);
  std::int64_t released = 0;  // bytes whose mapped pages were released
  std::int64_t line_number = 0;
  const auto add = [&](const Record& record, std::int64_t line_bytes) {
    RecordSlot& slot = index.add(record, offset, line_bytes);
    slot.is_accepted = record.settings.empty() || accepted.contains(record.settings);
    if (visit) visit(record);
    offset += line_bytes;
  };
  for_each_line(text, [&](std::string_view line) {
    ++line_number;
    if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) {
      offset += std::ssize(line);
      return;
    }
    try {
      add(parse_json_line(line.substr(0, line.size() - 1)), std::ssize(line));
    } catch (const Error& error) {
      throw Error(ErrorCode::kOutputConflict, file.path.string() + ":" +
                                                  std::to_string(line_number) +
                                                  ": not a caption record (" + error.what() +
                                                  "); mend or remove the line, or " + remedy(file));
    }
    if (offset - released < kReleasedBytes) return;
    release_pages(bytes.bytes().subspan(static_cast<std::size_t>(released),
                                        static_cast<std::size_t>(offset - released)));
    released = offset;
  });
  const std::string_view rest = text.substr(complete_lines_bytes(text));
  if (rest.empty()) return offset;
  if (const std::optional<Record> last = find_record(rest)) add(*last, std::ssize(rest) + 1);
  return offset;
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
