#include "eval/corpus.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "eval/internal/lines.h"
#include "eval/internal/unicode.h"

namespace caption::eval {
namespace {

namespace fs = std::filesystem;

// Far beyond any caption; ROUGE-L and METEOR grow with the square of the length.
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
  try {
    return JsonObject::parse(line.text, line.name, ErrorCode::kBadReference);
  } catch (const Error& error) {
    if (!line.is_torn) throw;
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

References read_reference_lines(const fs::path& path) {
  References references;
  for_each_line(path, [&](const Line& line) {
    const JsonObject object = parse_line(line);
    ReferenceEntry entry{require_video(object), object.get_strings("captions"), line.name};
    if (object.has("caption")) {
      if (!entry.captions.empty()) fail(line.name + ": has both \"caption\" and \"captions\"");
      entry.captions.push_back(object.require_string("caption"));
    }
    if (entry.captions.empty()) {
      fail(line.name + ": no reference; expected \"captions\": [\"...\"] or \"caption\": \"...\"");
    }
    for (const std::string& text : entry.captions) require_reference(text, line.name);
    references.entries.push_back(std::move(entry));
  });
  return references;
}

std::vector<fs::path> label_files(const fs::path& root) {
  std::vector<fs::path> all;
  std::vector<fs::path> in_labels;
  std::error_code error;
  fs::recursive_directory_iterator it(root, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it->path().extension() != ".json" || !it->is_regular_file(error)) continue;
    all.push_back(it->path());
    if (it->path().parent_path().filename() == "labels") in_labels.push_back(it->path());
  }
  if (error) fail(root.string() + ": cannot be listed: " + error.message());
  std::vector<fs::path>& chosen = in_labels.empty() ? all : in_labels;
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// A label file, its errors reported as those of references.
JsonObject open_label(const fs::path& path) {
  try {
    return JsonObject::open(path, ErrorCode::kBadReference);
  } catch (const Error& error) {
    fail(error.what());
  }
}

References read_label_folder(const fs::path& root, std::string_view field) {
  References references;
  references.is_label_folder = true;
  for (const fs::path& path : label_files(root)) {
    const JsonObject label = open_label(path);
    const std::optional<std::string> text = label.find_string_at(field);
    if (!text) {
      fail(path.string() + ": nothing at \"" + std::string(field) + "\"; the file's keys are: " +
           list_some(label.keys()) + " (choose with --reference-field)");
    }
    require_reference(*text, path.string());
    references.entries.push_back({path.stem().string(), {*text}, path.string()});
  }
  return references;
}

std::string id_of(const std::string& video, MatchBy match) {
  const fs::path path(video);
  switch (match) {
    case MatchBy::kStem: return to_nfc(path.stem().string());
    case MatchBy::kName: return to_nfc(path.filename().string());
    case MatchBy::kPath:
    case MatchBy::kAuto: break;
  }
  return to_nfc(path.lexically_normal().string());
}

// Whether two different paths in the list have the same file name.
template <class Entry>
bool has_repeated_names(const std::vector<Entry>& entries) {
  std::unordered_map<std::string, std::string> path_of_name;
  for (const Entry& entry : entries) {
    const std::string path = id_of(entry.video, MatchBy::kPath);
    const auto [known, is_new] = path_of_name.try_emplace(id_of(entry.video, MatchBy::kName), path);
    if (!is_new && known->second != path) return true;
  }
  return false;
}

// id -> place in the list.
template <class Entry>
std::unordered_map<std::string, std::size_t> index_by_id(const std::vector<Entry>& entries,
                                                         MatchBy match, const char* what) {
  std::unordered_map<std::string, std::size_t> places;
  std::vector<std::string> duplicates;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto [known, is_new] = places.try_emplace(id_of(entries[i].video, match), i);
    if (is_new) continue;
    duplicates.push_back(known->first + " (" + entries[known->second].where + " and " +
                         entries[i].where + ")");
  }
  if (!duplicates.empty()) {
    fail(std::string("duplicate ids among the ") + what + ", matched by " +
         std::string(match_by_name(match)) + ": " + list_some(duplicates) +
         "; keep one line per clip, or choose --match path|name|stem");
  }
  return places;
}

}  // namespace

std::string_view match_by_name(MatchBy match) {
  switch (match) {
    case MatchBy::kAuto: return "auto";
    case MatchBy::kPath: return "path";
    case MatchBy::kName: return "name";
    case MatchBy::kStem: return "stem";
  }
  return "auto";
}

std::string list_some(const std::vector<std::string>& names, std::size_t max_named) {
  std::string out;
  const std::size_t num_named = std::min(names.size(), max_named);
  for (std::size_t i = 0; i < num_named; ++i) out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > num_named) {
    out += " and " + std::to_string(names.size() - num_named) + " more";
  }
  return out;
}

References read_references(const fs::path& path, std::string_view label_field) {
  std::error_code ignored;
  References references = fs::is_directory(path, ignored) ? read_label_folder(path, label_field)
                                                          : read_reference_lines(path);
  if (references.entries.empty()) {
    fail(path.string() + ": holds no reference; expected " +
         (references.is_label_folder ? "label files (*.json)" : "lines of JSON"));
  }
  return references;
}

std::vector<CaptionEntry> read_captions(const fs::path& path) {
  constexpr std::array<std::string_view, 4> kStatuses = {"ok", "truncated", "looped", "failed"};
  std::vector<CaptionEntry> entries;
  for_each_line(path, [&](const Line& line) {
    const JsonObject object = parse_line(line);
    CaptionEntry entry{require_video(object), {}, false, line.name};
    entry.prompt = object.get_string("prompt", "");
    const std::string status = object.get_string("status", "ok");
    if (std::find(kStatuses.begin(), kStatuses.end(), status) == kStatuses.end()) {
      fail(line.name + ": status is " + json_quote(status) +
           "; expected ok, truncated, looped or failed");
    }
    entry.is_failed = status == "failed";
    if (!entry.is_failed) entry.caption = object.require_string("caption");
    require_text_size(entry.caption, line.name);
    entries.push_back(std::move(entry));
  });
  if (entries.empty()) fail(path.string() + ": holds no caption; expected lines of JSON");
  return entries;
}

std::vector<CaptionEntry> choose_prompt(std::vector<CaptionEntry> captions,
                                        const std::optional<std::string>& prompt) {
  std::vector<std::string> names;
  for (const CaptionEntry& entry : captions) {
    if (std::find(names.begin(), names.end(), entry.prompt) == names.end()) {
      names.push_back(entry.prompt);
    }
  }
  if (!prompt.has_value() && names.size() <= 1) return captions;
  if (!prompt.has_value() || std::find(names.begin(), names.end(), *prompt) == names.end()) {
    std::vector<std::string> quoted;
    for (const std::string& name : names) quoted.push_back(json_quote(name));
    throw Error(ErrorCode::kUsage,
                (prompt.has_value() ? "--prompt: no caption answers " + json_quote(*prompt)
                                    : std::string("the captions answer several prompts")) +
                    "; choose one with --prompt: " + list_some(quoted));
  }
  std::erase_if(captions, [&](const CaptionEntry& entry) { return entry.prompt != *prompt; });
  return captions;
}

Corpus pair_up(const References& references, const std::vector<CaptionEntry>& captions,
               MatchBy match) {
  Corpus corpus;
  corpus.match = match;
  if (match == MatchBy::kAuto) {
    const bool needs_path = has_repeated_names(references.entries) || has_repeated_names(captions);
    corpus.match = references.is_label_folder ? MatchBy::kStem
                   : needs_path               ? MatchBy::kPath
                                              : MatchBy::kName;
  }
  const auto by_reference = index_by_id(references.entries, corpus.match, "references");
  const auto by_caption = index_by_id(captions, corpus.match, "captions");
  std::size_t num_found = 0;
  for (const ReferenceEntry& entry : references.entries) {
    Segment segment{id_of(entry.video, corpus.match), entry.captions, std::nullopt};
    const auto found = by_caption.find(segment.id);
    if (found == by_caption.end()) {
      corpus.missing.push_back(segment.id);
    } else if (captions[found->second].is_failed) {
      ++num_found;
      corpus.failed.push_back(segment.id);
    } else {
      ++num_found;
      segment.caption = captions[found->second].caption;
    }
    corpus.segments.push_back(std::move(segment));
  }
  for (const CaptionEntry& entry : captions) {
    std::string id = id_of(entry.video, corpus.match);
    if (by_reference.count(id) == 0) corpus.extra.push_back(std::move(id));
  }
  if (num_found == 0) {
    fail("no caption belongs to a reference, matched by " +
         std::string(match_by_name(corpus.match)) + ": captions are for " +
         list_some(corpus.extra, 3) + "; references are for " + list_some(corpus.missing, 3));
  }
  return corpus;
}

}  // namespace caption::eval
