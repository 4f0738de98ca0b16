// eval/corpus.h: captions and references from files, paired by the clip they belong to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caption::eval {

// What makes two paths the same clip. Ids are compared in NFC (macOS writes names in NFD).
enum class MatchBy {
  kAuto,  // stem for a label folder, else name; path where names repeat within a file
  kPath,  // "a/clip_07.mp4"; a reference also means the one file whose whole path ends in it
  kName,  // "clip_07.mp4"
  kStem,  // "clip_07"
};
std::string_view match_by_name(MatchBy match);  // "auto", "path", "name", "stem"

struct ReferenceEntry {
  std::string video;                  // a path, or the stem of a label file
  std::vector<std::string> captions;  // empty where there are references by prompt only
  std::string where;                  // "refs.jsonl:12", for messages
  // By the name of a prompt, the references of captions that answer it.
  std::map<std::string, std::vector<std::string>> of_prompts = {};
};

struct References {
  std::vector<ReferenceEntry> entries;
  bool is_label_folder = false;
};

struct CaptionEntry {
  std::string video;  // as records/file_name.h escapes it, or raw
  std::string caption;
  bool is_failed = false;  // status "failed": there is no caption
  std::string where;
  std::string prompt = {};     // the name of the prompt that it answers; empty: it has none
  bool is_suspicious = false;  // status "suspicious": scored, and named in the report
  std::string path = {};       // "file.path"; empty where the record has none
  std::string content = {};    // "id", the SHA-256 of the clip; likewise
  bool is_absent = false;      // failed because no such file was there
};

struct Captions {
  std::vector<CaptionEntry> entries;
  std::int64_t num_superseded = 0;  // records that a later one of the same clip and prompt replaced
};

// What is wrong with the inputs, collected over all lines and files of all of them.
class Problems {
 public:
  void add(std::string message);  // "refs.jsonl:12: why"
  std::int64_t count() const { return count_; }
  const std::vector<std::string>& shown() const { return shown_; }  // the first ten
  // Throws Error(kBadReference): the message of the only problem, or the number of problems and
  // the first ten of them. Does nothing when there is none.
  void throw_if_any() const;

 private:
  static constexpr std::size_t kMaxShown = 10;
  std::vector<std::string> shown_;
  std::int64_t count_ = 0;
};

// As the path of captions or references: standard input.
inline constexpr std::string_view kStandardInput = "-";

// A JSONL file of {"video": ..., "captions": [...]} or {"video": ..., "caption": ...}, where
// "prompts": {"NAME": [...], ...} may give captions that answer named prompts their own, beside
// these or in place of them, or a folder of label files: every *.json under a folder named
// "labels", or, where there is none, every *.json at all; its reference is the string at
// `label_field`. Lines may end in CRLF; a byte order
// mark is passed over. Every line or file that cannot be used is a problem that names file and
// line: unreadable, not JSON, a key missing, a blank reference, a text beyond 32 KiB; so is an
// input without references.
References read_references(const std::filesystem::path& path, std::string_view label_field,
                           Problems& problems);
// The same, throwing Problems::throw_if_any().
References read_references(const std::filesystem::path& path,
                           std::string_view label_field = "annotation.description_kr");

// JSONL with `video`, `caption` and optionally `status` ("ok", "truncated", "suspicious",
// "failed"; "looped", of version 0.1, is read as "suspicious"): what `caption-cli run` writes, or
// simpler. Problems as above, also a torn last line.
// An empty caption is a caption. The file is append-only: of the records of one clip (the same
// "file.path", or the same "video" where one has none) and prompt the last counts; a record with
// "moved_from" also replaces that of the same "id" under its old name. Unknown keys are passed
// over.
Captions read_captions(const std::filesystem::path& path, Problems& problems);
Captions read_captions(const std::filesystem::path& path);  // the same, throwing as above

// The captions that answer one prompt: the one named, or the only one there is. Throws
// Error(kUsage) with the names when there are several and none is named, or none of that name, and
// when one is named but no caption names its prompt.
std::vector<CaptionEntry> choose_prompt(std::vector<CaptionEntry> captions,
                                        const std::optional<std::string>& prompt);

// The references with the texts of `prompt` (empty: the captions name none) in place of the others,
// if any entry has texts of that prompt. Throws Error(kBadReference) that names the entries
// without, when others have them or these have texts of other prompts only.
References choose_references(References references, const std::string& prompt);

struct Segment {
  std::string id;
  std::vector<std::string> references;
  std::optional<std::string> caption;  // absent when missing or failed
};

struct Corpus {
  std::vector<Segment> segments;        // in the order of the references
  std::vector<std::string> missing;     // ids of references without a caption
  std::vector<std::string> failed;      // ids whose caption has status "failed"
  std::vector<std::string> extra;       // ids of captions without a reference
  std::vector<std::string> suspicious;  // ids whose caption has status "suspicious"
  MatchBy match = MatchBy::kName;       // never kAuto
  std::int64_t num_superseded = 0;      // Captions::num_superseded
};

// A reference's name matches whether it is raw or escaped as records/file_name.h escapes names.
// Where a reference can mean several captions, those of files that were not there give way to the
// others, and of several of the same content the last caption is taken; such captions are not
// `extra`. Throws Error(kBadReference) naming the references that still can mean several captions,
// and those that mean the same clip, and when not one caption has a reference.
Corpus pair_up(const References& references, const std::vector<CaptionEntry>& captions,
               MatchBy match = MatchBy::kAuto);

// "a, b, c and 39 more".
std::string list_some(const std::vector<std::string>& names, std::size_t max_named = 10);

}  // namespace caption::eval
