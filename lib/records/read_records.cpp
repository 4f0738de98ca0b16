#include "records/internal/read_records.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "records/file_name.h"
#include "records/format.h"
#include "records/internal/damaged_lines.h"
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
  return file.use == FileUse::kOutput ? "give --overwrite to start the file anew"
                                      : "move the file away";
}

// Lines of an output that are no records.
class BadLines {
 public:
  explicit BadLines(const RecordsFile& file) : file_(file) {}

  void add(std::int64_t number, std::string_view line, const Error& error) {
    const std::string film = video_of_torn_line(line);
    if (count_ == 0) first_ = where(number) + error.what() + ")";
    is_ours_ |= !film.empty();
    if (++count_ > kMaxNamed) return;
    warnings_.push_back(
        where(number) + error.what() + "); it does not count, " +
        (film.empty() ? "its clip" : escape_file_name(unescape_file_name(film))) +
        " is captioned again if this run names it and no other line is of it; a run without "
        "--overwrite moves the line to " +
        damaged_path(file_.path).filename().string() + " at its end");
  }

  // Warns of the lines, except in a file that is about to be replaced. Throws
  // Error(kOutputConflict) where nothing says that the file is one of records, or it lies beside an
  // output.
  void report(bool has_records) const {
    if (count_ == 0 || file_.use == FileUse::kReplaced) return;
    if (file_.use == FileUse::kBeside || (!has_records && !is_ours_)) {
      throw Error(ErrorCode::kOutputConflict,
                  first_ + "; mend or remove the line, or " + remedy(file_));
    }
    require_damaged_place(file_.path);
    for (const std::string& warning : warnings_) log_warning("records", warning);
    if (count_ > kMaxNamed) {
      log_warning("records",
                  file_.path.string() + ": " +
                      counted(count_ - kMaxNamed, "further line is", "further lines are") +
                      " no caption record either");
    }
  }

 private:
  std::string where(std::int64_t number) const {
    return file_.path.string() + ":" + std::to_string(number) + ": not a caption record (";
  }

  static constexpr std::int64_t kMaxNamed = 5;
  const RecordsFile& file_;
  std::int64_t count_ = 0;
  bool is_ours_ = false;  // a line begins as a record does
  std::string first_;
  std::vector<std::string> warnings_;
};

constexpr std::string_view kVideo = "{\"video\":\"";  // a record begins so

// Whether a text is what an interrupted write leaves of a record: its beginning, and no more.
bool is_torn_record(std::string_view text) {
  const std::size_t compared = std::min(text.size(), kVideo.size());
  if (text.substr(0, compared) != kVideo.substr(0, compared)) return false;
  int depth = 0;
  bool is_in_text = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\0') return false;
    if (is_in_text && c == '\\') {
      ++at;
    } else if (c == '"') {
      is_in_text = !is_in_text;
    } else if (!is_in_text && (c == '{' || c == '}')) {
      depth += c == '{' ? 1 : -1;
      if (depth == 0) return false;
    }
  }
  return true;
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
  BadLines bad(file);
  bool has_records = false;
  const auto add = [&](const Record& record, std::int64_t line_bytes) {
    RecordSlot& slot = index.add(record, offset, line_bytes);
    slot.is_accepted = record.settings.empty() || accepted.contains(record.settings);
    if (visit) visit(record);
    offset += line_bytes;
  };
  const auto take = [&](std::string_view line, std::int64_t line_bytes) {
    try {
      add(parse_json_line(line), line_bytes);
      has_records = true;
    } catch (const Error& error) {
      if (is_of_machine(error.code())) throw;
      bad.add(line_number, line, error);
      index.add_damaged(offset, line_bytes);
      offset += line_bytes;
    }
  };
  for_each_line(text, [&](std::string_view line) {
    ++line_number;
    if (line.find_first_not_of(" \t\r\n") == std::string_view::npos) {
      offset += std::ssize(line);
      return;
    }
    take(line.substr(0, line.size() - 1), std::ssize(line));
    if (file.use == FileUse::kBeside) bad.report(has_records);
    if (offset - released < kReleasedBytes) return;
    release_pages(bytes.bytes().subspan(static_cast<std::size_t>(released),
                                        static_cast<std::size_t>(offset - released)));
    released = offset;
  });
  const std::string_view rest = text.substr(complete_lines_bytes(text));
  const bool is_whole =
      rest.find_first_not_of(" \t\r") != std::string_view::npos &&
      (file.use == FileUse::kBeside ? find_record(rest).has_value() : !is_torn_record(rest));
  if (is_whole) {
    ++line_number;
    take(rest, std::ssize(rest) + 1);
  }
  bad.report(has_records);
  return offset;
}

std::string video_of_torn_line(std::string_view begin) {
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
