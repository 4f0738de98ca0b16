#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/ascii.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "eval/corpus.h"
#include "eval/internal/lines.h"
#include "records/file_name.h"

namespace caption::eval {
namespace {

namespace fs = std::filesystem;

// Far above the length of any caption; the time of ROUGE-L and METEOR grows with its square.
constexpr std::size_t kMaxTextBytes = 32u << 10;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::kBadReference, message);
}

void require_text_size(const std::string& text, const std::string& where) {
  if (text.size() <= kMaxTextBytes) return;
  fail(where + ": a text of " + std::to_string(text.size()) + " bytes; captions of at most " +
       std::to_string(kMaxTextBytes) + " are expected");
}

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

void require_reference(const std::string& text, const std::string& where) {
  if (is_blank(text)) fail(where + ": the reference is blank; give it a text or remove it");
  require_text_size(text, where);
}

JsonObject parse_line(const Line& line) {
  if (line.text.starts_with('[')) {
    fail(line.name +
         ": begins with [ as a list does; one object a line is expected, as `jq -c '.[]'` makes of "
         "a list");
  }
  try {
    return JsonObject::parse(line.text, line.name, ErrorCode::kBadReference);
  } catch (const Error& error) {
    if (!line.is_torn) fail(std::string(error.what()) + "; mend or remove the line");
    fail(std::string(error.what()) +
         "; this last line has no newline at its end and seems torn: resume the run that wrote "
         "it, or remove the line");
  }
}

std::string require_video(const JsonObject& object) {
  std::string video = object.require_string("video");
  if (video.empty()) fail(object.name() + ": \"video\" is empty");
  return video;
}

// What a file is that begins with this line and has no lines of JSON, but another format of `run`;
// empty for any other line.
std::string_view describe_other_format(std::string_view first_line) {
  if (first_line.starts_with("video,")) return "comma-separated values";
  // "clip.mp4: caption", "clip.mp4 (prompt): caption"
  const std::size_t begin = first_line.find_first_not_of(" \t");
  constexpr std::string_view kNotInNames = "{[\"#";
  const bool is_text = begin != std::string_view::npos &&
                       kNotInNames.find(first_line[begin]) == std::string_view::npos &&
                       first_line.find(": ") != std::string_view::npos;
  return is_text ? "lines of text, as `run --format txt` writes them" : "";
}

// Calls `read` for every line of JSON. A file of another format of `run` is reported as one
// problem, not as one per line.
void for_each_object(const fs::path& path, Problems& problems,
                     const std::function<void(const JsonObject&, const Line&)>& read) {
  bool is_first = true;
  bool is_other = false;
  for_each_line(path, problems, [&](const Line& line) {
    if (std::exchange(is_first, false)) {
      const std::string_view format = describe_other_format(line.text);
      is_other = !format.empty();
      if (is_other) {
        problems.add(line.name + ": " + std::string(format) +
                     "; JSON lines are expected, which `run` writes with --format jsonl");
      }
    }
    if (is_other) return;
    std::optional<JsonObject> object;
    try {
      object = parse_line(line);
    } catch (const Error& error) {
      if (!line.is_torn) throw;
      return problems.add_torn(error.what());
    }
    read(*object, line);
  });
}

ReferenceEntry read_reference(const JsonObject& object, const Line& line) {
  ReferenceEntry entry{require_video(object), object.get_strings("captions"), line.name};
  if (object.has("caption")) {
    if (!entry.captions.empty()) fail(line.name + ": has both \"caption\" and \"captions\"");
    entry.captions.push_back(object.require_string("caption"));
  }
  if (const std::optional<JsonObject> prompts = object.get_object("prompts")) {
    for (const std::string& name : prompts->keys()) {
      entry.of_prompts[name] = prompts->get_strings(name);
      if (entry.of_prompts[name].empty()) {
        fail(line.name + ": no reference for the prompt " + json_quote(name));
      }
    }
  }
  if (entry.captions.empty() && entry.of_prompts.empty()) {
    fail(line.name +
         ": no reference; expected \"captions\": [\"...\"], \"caption\": \"...\" or "
         "\"prompts\": {\"NAME\": [\"...\"]}");
  }
  for (const std::string& text : entry.captions) require_reference(text, line.name);
  for (const auto& [name, texts] : entry.of_prompts) {
    for (const std::string& text : texts) require_reference(text, line.name);
  }
  return entry;
}

References read_reference_lines(const fs::path& path, Problems& problems) {
  References references;
  for_each_object(path, problems, [&](const JsonObject& object, const Line& line) {
    references.entries.push_back(read_reference(object, line));
  });
  return references;
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool is_label(const fs::path& path) {
  return equal_ignoring_case(path.extension().string(), ".json");
}

// Whether `folder` is `root` or leads to it; both are canonical.
bool holds(const fs::path& folder, const fs::path& root) {
  return std::mismatch(folder.begin(), folder.end(), root.begin(), root.end()).first ==
         folder.end();
}

// Lists the label files below `root`, following symbolic links; a folder that several paths lead to
// is listed once, and one that holds `root` not at all.
std::vector<fs::path> label_files(const fs::path& root) {
  std::vector<fs::path> all;
  std::vector<fs::path> in_labels;
  std::error_code error;
  const fs::path canonical_root = fs::canonical(root, error);
  std::set<fs::path> listed;
  fs::recursive_directory_iterator it(root, fs::directory_options::follow_directory_symlink, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) {
      const fs::path folder = fs::canonical(it->path(), ignored);
      const bool is_new = !holds(folder, canonical_root) && listed.insert(folder).second;
      if (!is_new || is_hidden(it->path())) it.disable_recursion_pending();
      continue;
    }
    if (!is_label(it->path()) || is_hidden(it->path())) continue;
    all.push_back(it->path());
    if (it->path().parent_path().filename() == "labels") in_labels.push_back(it->path());
  }
  if (error) fail(input_name(root) + ": cannot be listed: " + error.message());
  std::vector<fs::path>& chosen = in_labels.empty() ? all : in_labels;
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// The clip that a label file is for, as ReferenceEntry::video.
std::string clip_of_label(const fs::path& path, const fs::path& root) {
  fs::path clip;
  for (const fs::path& part : path.lexically_relative(root)) {
    if (part != "labels") clip /= part;
  }
  return records::escape_file_name(clip.replace_extension().string());
}

JsonObject parse_label(std::string_view text, const std::string& name) {
  try {
    return JsonObject::parse(text, name, ErrorCode::kBadReference);
  } catch (const Error& error) {
    fail(std::string(error.what()) + "; mend or remove the file");
  }
}

ReferenceEntry read_label(const fs::path& path, const fs::path& root, std::string_view field) {
  const std::string name = input_name(path);
  const std::string text = read_text_file(path);
  const JsonObject label = parse_label(require_utf8_text(text, name), name);
  const std::optional<std::string> reference = label.find_string_at(field);
  if (!reference) {
    fail(name + ": nothing at \"" + std::string(field) + "\"; the file's keys are: " +
         list_some(label.keys()) + " (choose with --reference-field)");
  }
  require_reference(*reference, name);
  return {.video = clip_of_label(path, root),
          .captions = {*reference},
          .where = name,
          .is_label = true};
}

References read_label_folder(const fs::path& root, std::string_view field, Problems& problems) {
  References references;
  references.is_label_folder = true;
  for (const fs::path& path : label_files(root)) {
    problems.throw_if_cancelled();
    try {
      references.entries.push_back(read_label(path, root, field));
    } catch (const Error& error) {
      if (is_of_machine(error.code())) throw;
      problems.add(error.what());
    }
  }
  return references;
}

// The string at `dotted_path`; empty when it is absent or not a string (a file that `run` did not
// write may use the key for something else).
std::string text_at(const JsonObject& object, std::string_view dotted_path) {
  try {
    return object.find_string_at(dotted_path).value_or(std::string());
  } catch (const Error&) {
    return {};
  }
}

CaptionEntry read_caption(const JsonObject& object, const Line& line) {
  constexpr std::array<std::string_view, 5> kStatuses = {"ok", "truncated", "looped", "suspicious",
                                                         "failed"};
  CaptionEntry entry{require_video(object), {}, false, line.name};
  entry.prompt = object.get_string("prompt", "");
  entry.adapter = text_at(object, "adapter");
  const std::string status = object.get_string("status", "ok");
  if (std::find(kStatuses.begin(), kStatuses.end(), status) == kStatuses.end()) {
    fail(line.name + ": status is " + json_quote(status) +
         "; expected ok, truncated, suspicious or failed");
  }
  entry.is_failed = status == "failed";
  entry.is_suspicious = status == "suspicious" || status == "looped";
  entry.path = text_at(object, "file.path");
  entry.content = text_at(object, "id");
  entry.settings = text_at(object, "settings");
  entry.is_absent =
      entry.is_failed && text_at(object, "error.code") == error_code_name(ErrorCode::kNotFound);
  if (!entry.is_failed) entry.caption = object.require_string("caption");
  require_text_size(entry.caption, line.name);
  return entry;
}

// The last records of an append-only file. Two records are of the same clip when both answer the
// same prompt with the same adapter, and have the same "file.path" or, if one of them has none, the
// same "video". A record with "moved_from" also replaces the record of the same content under that
// name.
class LastRecords {
 public:
  void add(const JsonObject& object, CaptionEntry entry) {
    const std::string group = key(entry.prompt, entry.adapter);
    if (const std::string old = text_at(object, "moved_from"); !old.empty()) {
      remove(find(group, old, old), entry.content);
    }
    const std::size_t same = find(group, entry.path, entry.video);
    if (same != kNone) remove(same, {});
    const std::size_t place = entries_.size();
    if (!entry.path.empty()) by_path_[key(group, entry.path)] = place;
    by_video_[key(group, entry.video)] = place;
    entries_.push_back(std::move(entry));
    is_superseded_.push_back(false);
  }

  Captions finish() {
    Captions captions;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (is_superseded_[i]) {
        ++captions.num_superseded;
      } else {
        captions.entries.push_back(std::move(entries_[i]));
      }
    }
    return captions;
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  using Places = std::unordered_map<std::string, std::size_t>;

  static std::string key(const std::string& group, const std::string& name) {
    return group + std::string(1, '\0') + name;
  }

  // Index of the latest record of the clip in the group, a prompt and an adapter; kNone when there
  // is none.
  std::size_t find(const std::string& group, const std::string& path,
                   const std::string& video) const {
    if (!path.empty()) {
      const auto found = by_path_.find(key(group, path));
      if (found != by_path_.end()) return found->second;
    }
    const auto found = by_video_.find(key(group, video));
    if (found == by_video_.end()) return kNone;
    const std::string& other = entries_[found->second].path;
    const bool is_another_file = !path.empty() && !other.empty() && path != other && path != video;
    return is_another_file ? kNone : found->second;
  }

  // Marks the record as superseded, unless both contents are known and differ.
  void remove(std::size_t place, const std::string& content) {
    if (place == kNone) return;
    const std::string& other = entries_[place].content;
    if (!content.empty() && !other.empty() && content != other) return;
    is_superseded_[place] = true;
  }

  std::vector<CaptionEntry> entries_;
  std::vector<bool> is_superseded_;  // indexed like entries_
  Places by_path_;
  Places by_video_;
};

}  // namespace

void Problems::add(std::string message) {
  if (shown_.size() < kMaxShown) shown_.push_back(std::move(message));
  ++count_;
}

void Problems::add_torn(std::string message) {
  add(std::move(message));
  ++num_torn_;
}

void Problems::throw_if_cancelled() const {
  if (cancelled_ == nullptr || !cancelled_->load()) return;
  throw Error(ErrorCode::kCancelled, "interrupted; nothing was written");
}

std::string Problems::summary() const {
  if (count_ <= 1) return count_ == 0 ? std::string() : shown_.front();
  return shown_.front() + "; " + counted(count_ - 1, "more line or file", "more lines or files") +
         " cannot be used";
}

void Problems::throw_if_any() const {
  if (count_ > 0) fail(summary());
}

References read_references(const fs::path& path, std::string_view label_field, Problems& problems) {
  const std::int64_t num_before = problems.count();
  References references;
  try {
    std::error_code ignored;
    const bool is_folder = path != kStandardInput && fs::is_directory(path, ignored);
    references = is_folder ? read_label_folder(path, label_field, problems)
                           : read_reference_lines(path, problems);
    if (references.entries.empty() && problems.count() == num_before) {
      fail(input_name(path) + ": holds no reference; expected " +
           (references.is_label_folder ? "label files (*.json)" : "lines of JSON"));
    }
  } catch (const Error& error) {
    if (is_of_machine(error.code()) || error.code() == ErrorCode::kCancelled) throw;
    problems.add(error.what());
  }
  return references;
}

References read_references(const fs::path& path, std::string_view label_field) {
  Problems problems;
  References references = read_references(path, label_field, problems);
  problems.throw_if_any();
  return references;
}

Captions read_captions(const fs::path& path, Problems& problems) {
  const std::int64_t num_before = problems.count();
  LastRecords records;
  try {
    for_each_object(path, problems, [&](const JsonObject& object, const Line& line) {
      records.add(object, read_caption(object, line));
    });
  } catch (const Error& error) {
    if (is_of_machine(error.code()) || error.code() == ErrorCode::kCancelled) throw;
    problems.add(error.what());
  }
  Captions captions = records.finish();
  if (captions.entries.empty() && problems.count() == num_before) {
    problems.add(input_name(path) + ": holds no caption; expected lines of JSON");
  }
  return captions;
}

Captions read_captions(const fs::path& path) {
  Problems problems;
  Captions captions = read_captions(path, problems);
  problems.throw_if_any();
  return captions;
}

}  // namespace caption::eval
