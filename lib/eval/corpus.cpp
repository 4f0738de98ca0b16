#include "eval/corpus.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "eval/internal/unicode.h"
#include "records/file_name.h"

namespace caption::eval {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::kBadReference, message);
}

// Records hold names as records/file_name.h escapes them; a raw name with control characters, as a
// list made by hand may hold it, becomes the same text.
std::string escaped_name(const std::string& video) {
  const bool is_raw = std::any_of(video.begin(), video.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
  return is_raw ? records::escape_file_name(video) : video;
}

std::string id_of(const std::string& video, MatchBy match) {
  const fs::path path(escaped_name(video));
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

MatchBy chosen_match(const References& references, const std::vector<CaptionEntry>& captions) {
  if (references.is_label_folder) return MatchBy::kStem;
  const bool needs_path = has_repeated_names(references.entries) || has_repeated_names(captions);
  return needs_path ? MatchBy::kPath : MatchBy::kName;
}

using Places = std::unordered_map<std::string, std::size_t>;

// id -> place in the list.
template <class Entry>
Places index_by_id(const std::vector<Entry>& entries, const std::vector<std::string>& ids,
                   MatchBy match, const char* what) {
  Places places;
  std::vector<std::string> duplicates;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto [known, is_new] = places.try_emplace(ids[i], i);
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

// The id of a reference: that of its name as it is written, or, where no caption has that id but
// one has the id of the name escaped, the latter (a raw name that holds the text "\x41").
std::string reference_id(const ReferenceEntry& entry, MatchBy match, const Places& by_caption) {
  std::string id = id_of(entry.video, match);
  if (by_caption.count(id) != 0) return id;
  std::string escaped = id_of(records::escape_file_name(entry.video), match);
  return by_caption.count(escaped) != 0 ? escaped : id;
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
  corpus.match = match == MatchBy::kAuto ? chosen_match(references, captions) : match;
  std::vector<std::string> caption_ids;
  for (const CaptionEntry& entry : captions) {
    caption_ids.push_back(id_of(entry.video, corpus.match));
  }
  const Places by_caption = index_by_id(captions, caption_ids, corpus.match, "captions");
  std::vector<std::string> reference_ids;
  for (const ReferenceEntry& entry : references.entries) {
    reference_ids.push_back(reference_id(entry, corpus.match, by_caption));
  }
  const Places by_reference =
      index_by_id(references.entries, reference_ids, corpus.match, "references");
  std::size_t num_found = 0;
  for (std::size_t i = 0; i < references.entries.size(); ++i) {
    Segment segment{reference_ids[i], references.entries[i].captions, std::nullopt};
    const auto found = by_caption.find(segment.id);
    if (found == by_caption.end()) {
      corpus.missing.push_back(segment.id);
    } else if (const CaptionEntry& entry = captions[found->second]; entry.is_failed) {
      ++num_found;
      corpus.failed.push_back(segment.id);
    } else {
      ++num_found;
      segment.caption = entry.caption;
      if (entry.is_suspicious) corpus.suspicious.push_back(segment.id);
    }
    corpus.segments.push_back(std::move(segment));
  }
  for (const std::string& id : caption_ids) {
    if (by_reference.count(id) == 0) corpus.extra.push_back(id);
  }
  if (num_found == 0) {
    fail("no caption belongs to a reference, matched by " +
         std::string(match_by_name(corpus.match)) + ": captions are for " +
         list_some(corpus.extra, 3) + "; references are for " + list_some(corpus.missing, 3));
  }
  return corpus;
}

}  // namespace caption::eval
