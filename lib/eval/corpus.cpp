#include "eval/corpus.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/counted.h"
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

// Records contain names escaped by records/file_name.h; a raw name with control characters, as in a
// hand-made list, is escaped in the same way.
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

std::string id_of(const CaptionEntry& entry, MatchBy match) { return id_of(entry.video, match); }

// The name of a label file has lost its suffix, and may end in what looks like another.
std::string id_of(const ReferenceEntry& entry, MatchBy match) {
  const bool is_whole = entry.is_label && match == MatchBy::kStem;
  return id_of(entry.video, is_whole ? MatchBy::kName : match);
}

// Whether two different paths in the list have the same file name.
template <class Entry>
bool has_repeated_names(const std::vector<Entry>& entries) {
  std::unordered_map<std::string, std::string> path_of_name;
  for (const Entry& entry : entries) {
    const std::string path = id_of(entry, MatchBy::kPath);
    const auto [known, is_new] = path_of_name.try_emplace(id_of(entry, MatchBy::kName), path);
    if (!is_new && known->second != path) return true;
  }
  return false;
}

MatchBy chosen_match(const References& references, const std::vector<CaptionEntry>& captions) {
  if (references.is_label_folder) {
    return has_repeated_names(references.entries) ? MatchBy::kPath : MatchBy::kStem;
  }
  const bool needs_path = has_repeated_names(references.entries) || has_repeated_names(captions);
  return needs_path ? MatchBy::kPath : MatchBy::kName;
}

using Places = std::vector<std::size_t>;

bool is_below(const std::string& path, const std::string& end) {
  return path.size() > end.size() && path.ends_with(end) &&
         path[path.size() - end.size() - 1] == '/';
}

std::string without_suffix(const std::string& path) {
  return fs::path(path).replace_extension().string();
}

// Finds the captions that may belong to a reference.
class CaptionIndex {
 public:
  // With `are_labels`, references have the names of clips with or without their suffixes.
  CaptionIndex(const std::vector<CaptionEntry>& captions, MatchBy match, bool are_labels)
      : match_(match) {
    for (std::size_t i = 0; i < captions.size(); ++i) {
      const CaptionEntry& caption = captions[i];
      std::set<std::string> keys = {
          id_of(caption.video, match == MatchBy::kPath ? MatchBy::kName : match)};
      if (are_labels) keys.insert(id_of(caption.video, MatchBy::kName));
      if (are_labels && match == MatchBy::kPath) keys.insert(id_of(caption.video, MatchBy::kStem));
      for (const std::string& key : keys) by_key_[key].push_back(i);
      if (match != MatchBy::kPath) continue;
      paths_.push_back({id_of(caption.video, match), id_of(caption.path, match)});
      if (!are_labels) continue;
      for (std::size_t k = 0; k < 2; ++k) paths_[i].push_back(without_suffix(paths_[i][k]));
    }
  }

  // With MatchBy::kPath, a reference matches the captions of exactly its path, or else those of the
  // files whose paths end in it ("a/1.mp4" and /archive/a/1.mp4).
  Places find(const ReferenceEntry& reference) const {
    const auto found =
        by_key_.find(id_of(reference, match_ == MatchBy::kPath ? MatchBy::kName : match_));
    if (found == by_key_.end()) return {};
    if (match_ != MatchBy::kPath) return found->second;
    const std::string path = id_of(reference, MatchBy::kPath);
    Places same, below;
    for (const std::size_t i : found->second) {
      const std::vector<std::string>& paths = paths_[i];
      if (std::find(paths.begin(), paths.end(), path) != paths.end()) same.push_back(i);
      if (std::any_of(paths.begin(), paths.end(),
                      [&](const std::string& one) { return is_below(one, path); })) {
        below.push_back(i);
      }
    }
    return same.empty() ? below : same;
  }

 private:
  MatchBy match_;
  std::unordered_map<std::string, Places> by_key_;
  // Indexed like the captions; empty unless matched by path. Each as given and, where the caption
  // has "file.path", whole; for labels also without suffix.
  std::vector<std::vector<std::string>> paths_;
};

// Drops the records of files that did not exist; if there are no others, keeps the last one. If all
// remaining records have the same content, keeps the last one that did not fail, or the last one if
// all failed.
Places drop_stale(const std::vector<CaptionEntry>& captions, Places places) {
  const auto is_absent = [&](std::size_t i) { return captions[i].is_absent; };
  if (places.empty()) return places;
  if (std::all_of(places.begin(), places.end(), is_absent)) return {places.back()};
  std::erase_if(places, is_absent);
  const auto is_same_content = [&](std::size_t i) {
    const std::string& content = captions[i].content;
    return !content.empty() && content == captions[places.front()].content;
  };
  if (places.size() < 2 || !std::all_of(places.begin(), places.end(), is_same_content)) {
    return places;
  }
  std::size_t chosen = places.front();
  for (const std::size_t i : places) {
    if (captions[chosen].is_failed || !captions[i].is_failed) chosen = i;
  }
  return {chosen};
}

void require_single(const std::vector<std::string>& repeated, const char* what, MatchBy match,
                    const std::string& advice) {
  if (repeated.empty()) return;
  fail(std::string(what) + ", matched by " + std::string(match_by_name(match)) + ": " +
       list_some(repeated) + "; " + advice);
}

// The id of a reference and the captions that may belong to it. A name with control characters
// matches as it is written or, when no caption has that name, escaped.
struct Match {
  std::string id;
  Places candidates;
};

std::vector<Match> match_references(const References& references, const CaptionIndex& index,
                                    MatchBy match) {
  std::vector<Match> matches;
  for (const ReferenceEntry& entry : references.entries) {
    Match one{id_of(entry, match), index.find(entry)};
    if (one.candidates.empty()) {
      ReferenceEntry escaped = entry;
      escaped.video = records::escape_file_name(entry.video);
      one.candidates = index.find(escaped);
      if (!one.candidates.empty()) one.id = id_of(escaped, match);
    }
    matches.push_back(std::move(one));
  }
  return matches;
}

using EntryPairs = std::vector<std::pair<const ReferenceEntry*, const ReferenceEntry*>>;

// The options that tell all pairs apart, such as "--match name or --match path".
std::string telling_matches(const EntryPairs& pairs) {
  std::string out;
  for (const MatchBy match : {MatchBy::kName, MatchBy::kPath}) {
    const bool tells = std::none_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
      return id_of(*pair.first, match) == id_of(*pair.second, match);
    });
    if (tells)
      out += (out.empty() ? "--match " : " or --match ") + std::string(match_by_name(match));
  }
  return out;
}

void require_different(const References& references, const std::vector<Match>& matches,
                       MatchBy match) {
  std::unordered_map<std::string, std::size_t> by_id;
  std::unordered_map<std::size_t, std::size_t> by_caption;
  std::vector<std::string> repeated;
  EntryPairs pairs;
  for (std::size_t i = 0; i < matches.size(); ++i) {
    std::size_t first = by_id.try_emplace(matches[i].id, i).first->second;
    if (first == i && matches[i].candidates.size() == 1) {
      first = by_caption.try_emplace(matches[i].candidates.front(), i).first->second;
    }
    if (first == i) continue;
    pairs.emplace_back(&references.entries[first], &references.entries[i]);
    repeated.push_back(matches[i].id + " (" + references.entries[first].where + " and " +
                       references.entries[i].where + ")");
  }
  if (repeated.empty()) return;
  const std::string options = match == MatchBy::kPath ? "" : telling_matches(pairs);
  const std::string advice = references.is_label_folder
                                 ? "keep one label file per clip"
                                 : "keep one line per clip, with all its texts in \"captions\"";
  require_single(repeated, "several references of one clip", match,
                 advice + (options.empty() ? "" : ", or choose " + options));
}

void require_unambiguous(const std::vector<CaptionEntry>& captions,
                         const std::vector<Match>& matches, MatchBy match) {
  std::vector<std::string> repeated;
  for (const Match& one : matches) {
    if (one.candidates.size() < 2) continue;
    repeated.push_back(one.id + " (" + captions[one.candidates[0]].where + " and " +
                       captions[one.candidates[1]].where + ")");
  }
  require_single(repeated, "several captions for one reference", match,
                 match == MatchBy::kPath
                     ? "name the films by longer paths in the references; names that differ in "
                       "their Unicode form alone (NFC, NFD) are one name"
                     : "name the films by longer paths in the references and choose --match path");
}

// Sets the caption of a segment, or records that it is missing or failed.
void fill(Segment& segment, const CaptionEntry* entry, Corpus& corpus) {
  if (entry == nullptr) {
    corpus.missing.push_back(segment.id);
  } else if (entry->is_failed) {
    corpus.failed.push_back(segment.id);
  } else {
    segment.caption = entry->caption;
    if (entry->is_suspicious) corpus.suspicious.push_back(segment.id);
  }
}

// Throws Error(kBadReference) when entries have texts for prompts other than `prompt` only.
void require_plain(const References& references, const std::string& prompt) {
  std::vector<std::string> without;
  std::set<std::string> names;
  for (const ReferenceEntry& entry : references.entries) {
    if (!entry.captions.empty()) continue;
    without.push_back(entry.where);
    for (const auto& prompt_and_texts : entry.of_prompts) {
      names.insert(json_quote(prompt_and_texts.first));
    }
  }
  if (without.empty()) return;
  fail("there are only references by prompt (" + list_some({names.begin(), names.end()}) + ") at " +
       list_some(without, 3) + ", but the captions " +
       (prompt.empty() ? "name no prompt: give these lines \"captions\" too, or name the prompts "
                         "of the captions with run --prompts"
                       : "answer the prompt " + json_quote(prompt)));
}

// A name in records of which one run may have several.
struct NamedChoice {
  std::string CaptionEntry::*name;
  const char* option;   // "--prompt"
  const char* several;  // what is said when the captions have several names
  const char* absent;   // text before a name that no caption has
  const char* none;     // what is said when no caption has a name
};
constexpr NamedChoice kPrompt = {
    &CaptionEntry::prompt, "--prompt", "the captions answer several prompts", "no caption answers ",
    "the captions name no prompt, so there is none to choose; leave --prompt out (run --prompts "
    "names them)"};
constexpr NamedChoice kAdapter = {
    &CaptionEntry::adapter, "--adapter", "the captions were made with several adapters",
    "no caption was made with the adapter ",
    "the captions name no adapter, so there is none to choose; leave --adapter out"};

// Keeps the captions with the wanted name, or all when no name is wanted and they have one.
void keep_chosen(std::vector<CaptionEntry>& captions, const NamedChoice& choice,
                 const std::optional<std::string>& wanted) {
  std::vector<std::string> names;
  for (const CaptionEntry& entry : captions) {
    const std::string& name = entry.*choice.name;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  if (!wanted.has_value() && names.size() <= 1) return;
  if (wanted.has_value() && !wanted->empty() && names.size() == 1 && names.front().empty()) {
    throw Error(ErrorCode::kUsage,
                std::string(choice.option) + " " + json_quote(*wanted) + ": " + choice.none);
  }
  if (!wanted.has_value() || std::find(names.begin(), names.end(), *wanted) == names.end()) {
    std::vector<std::string> quoted;
    for (const std::string& name : names) {
      quoted.push_back(name.empty() ? "\"\" (those that name none)" : json_quote(name));
    }
    throw Error(ErrorCode::kUsage,
                (wanted.has_value()
                     ? std::string(choice.option) + ": " + choice.absent + json_quote(*wanted)
                     : std::string(choice.several)) +
                    "; choose one with " + choice.option + ": " + list_some(quoted));
  }
  std::erase_if(captions, [&](const CaptionEntry& entry) { return entry.*choice.name != *wanted; });
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

std::vector<CaptionEntry> choose_captions(std::vector<CaptionEntry> captions,
                                          const std::optional<std::string>& prompt,
                                          const std::optional<std::string>& adapter) {
  // A named adapter may leave one prompt, and a named prompt one adapter.
  if (adapter.has_value()) keep_chosen(captions, kAdapter, adapter);
  keep_chosen(captions, kPrompt, prompt);
  keep_chosen(captions, kAdapter, adapter);
  return captions;
}

References choose_references(References references, const std::string& prompt) {
  std::vector<std::string> without;
  for (const ReferenceEntry& entry : references.entries) {
    if (entry.of_prompts.count(prompt) == 0) without.push_back(entry.where);
  }
  if (without.size() == references.entries.size()) {
    require_plain(references, prompt);
    return references;
  }
  if (!without.empty()) {
    fail("some references have texts for the prompt " + json_quote(prompt) + ", but not " +
         list_some(without));
  }
  for (ReferenceEntry& entry : references.entries) entry.captions = entry.of_prompts.at(prompt);
  return references;
}

Corpus match_up(const References& references, const std::vector<CaptionEntry>& captions,
                MatchBy match) {
  Corpus corpus;
  corpus.match = match == MatchBy::kAuto ? chosen_match(references, captions) : match;
  const CaptionIndex index(captions, corpus.match, references.is_label_folder);
  std::vector<Match> matches = match_references(references, index, corpus.match);
  std::vector<bool> is_meant(captions.size(), false);
  for (Match& one : matches) {
    for (const std::size_t i : one.candidates) is_meant[i] = true;
    one.candidates = drop_stale(captions, std::move(one.candidates));
  }
  require_different(references, matches, corpus.match);
  require_unambiguous(captions, matches, corpus.match);
  for (std::size_t i = 0; i < matches.size(); ++i) {
    const Places& candidates = matches[i].candidates;
    Segment segment{matches[i].id, references.entries[i].captions, std::nullopt};
    fill(segment, candidates.empty() ? nullptr : &captions[candidates.front()], corpus);
    corpus.segments.push_back(std::move(segment));
  }
  for (std::size_t i = 0; i < captions.size(); ++i) {
    if (!is_meant[i]) corpus.extra.push_back(id_of(captions[i].video, corpus.match));
  }
  return corpus;
}

namespace {

// Says which other ways to match find captions and no ambiguity, such as "; --match stem finds
// captions for 15 of 16 references".
std::string other_ways(const References& references, const std::vector<CaptionEntry>& captions,
                       MatchBy match) {
  std::string out;
  for (const MatchBy other : {MatchBy::kPath, MatchBy::kName, MatchBy::kStem}) {
    if (other == match) continue;
    try {
      const Corpus found = match_up(references, captions, other);
      const std::size_t count = found.segments.size() - found.missing.size();
      if (count == 0) continue;
      out += "; --match " + std::string(match_by_name(other)) + " finds captions for " +
             std::to_string(count) + " of " + counted(std::ssize(found.segments), "reference");
    } catch (const Error& error) {
      if (is_of_machine(error.code())) throw;
    }
  }
  return out;
}

}  // namespace

Corpus pair_up(const References& references, const std::vector<CaptionEntry>& captions,
               MatchBy match) {
  Corpus corpus = match_up(references, captions, match);
  if (corpus.missing.size() == corpus.segments.size()) {
    fail("no caption belongs to a reference, matched by " +
         std::string(match_by_name(corpus.match)) + ": captions are for " +
         list_some(corpus.extra, 3) + "; references are for " + list_some(corpus.missing, 3) +
         other_ways(references, captions, corpus.match));
  }
  return corpus;
}

}  // namespace caption::eval
