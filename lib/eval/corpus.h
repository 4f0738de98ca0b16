// eval/corpus.h: reads captions and references from files and pairs them by clip.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caption::eval {

// Which part of a path identifies a clip. Ids are compared in NFC (macOS writes names in NFD).
enum class MatchBy {
  kAuto,  // stem for a label folder, else name; path if these repeat within a file or folder
  kPath,  // "a/clip_07.mp4"; also matches files whose whole path ends in it
  kName,  // "clip_07.mp4"
  kStem,  // "clip_07"
};
std::string_view match_by_name(MatchBy match);  // "auto", "path", "name", "stem"

struct ReferenceEntry {
  std::string video;                  // a path; of a label file without .json and "labels" folders
  std::vector<std::string> captions;  // empty if all references belong to named prompts
  std::string where;                  // "refs.jsonl:12", for messages
  // References for captions that answer a named prompt, by the name of the prompt.
  std::map<std::string, std::vector<std::string>> of_prompts = {};
  // Whether `video` is that of a label file: the name of a clip with or without its suffix.
  bool is_label = false;
};

struct References {
  std::vector<ReferenceEntry> entries;
  bool is_label_folder = false;
};

struct CaptionEntry {
  std::string video;  // escaped by records/file_name.h, or raw
  std::string caption;
  bool is_failed = false;  // status "failed": the clip has no caption
  std::string where;
  std::string prompt = {};     // name of the prompt that it answers; empty: none
  std::string adapter = {};    // name of the adapter that it was made with; empty: none
  bool is_suspicious = false;  // status "suspicious": scored, and listed in the report
  std::string path = {};       // "file.path"; empty where the record has none
  std::string content = {};    // "id", the SHA-256 of the clip; empty where the record has none
  bool is_absent = false;      // failed because the file did not exist
  std::string settings = {};   // "settings", which stands for the run's configuration, or empty
};

struct Captions {
  std::vector<CaptionEntry> entries;
  // Records replaced by a later one of the same clip, prompt and adapter.
  std::int64_t num_superseded = 0;
};

// Collects the errors of all lines and files of the inputs.
class Problems {
 public:
  // With `cancelled`, which must outlive this, reading throws Error(kCancelled) soon after it has
  // become true.
  explicit Problems(const std::atomic<bool>* cancelled = nullptr) : cancelled_(cancelled) {}

  // Throws Error(kCancelled) if it is time to. Called between two lines or files.
  void throw_if_cancelled() const;
  void add(std::string message);  // "refs.jsonl:12: why"
  // Adds the problem of a last line that has no newline, as a run that was killed leaves it.
  void add_torn(std::string message);
  // Whether the only problem is such a line.
  std::int64_t count() const { return count_; }
  bool is_torn_only() const { return count_ == 1 && num_torn_ == 1; }
  const std::vector<std::string>& shown() const { return shown_; }  // at most the first ten
  // The first problem, and how many more there are; empty without one.
  std::string summary() const;
  // Throws Error(kBadReference) with summary() if there is a problem.
  void throw_if_any() const;

 private:
  static constexpr std::size_t kMaxShown = 10;
  const std::atomic<bool>* cancelled_;
  std::vector<std::string> shown_;
  std::int64_t count_ = 0;
  std::int64_t num_torn_ = 0;
};

// A path of captions or references that means standard input.
inline constexpr std::string_view kStandardInput = "-";

// Reads references from a JSONL file or from a folder of label files.
// JSONL: {"video": ..., "captions": [...]} or {"video": ..., "caption": ...}; "prompts": {"NAME":
// [...], ...} holds references for captions that answer named prompts, in addition or instead.
// Lines may end in CRLF; a byte order mark is skipped.
// Folder: every *.json in a folder named "labels" at any depth or, if there is none, every *.json,
// hidden files and folders excepted; the reference is the string at the dotted path `label_field`.
// NAME.json is the label of NAME.mp4, and so is NAME.mp4.json.
// Every line or file that cannot be used is a problem that names file and line: unreadable, not
// JSON, a missing key, a blank reference, a text above 32 KiB. An input without references is a
// problem too. Throws Error(kIo | kOutOfMemory).
References read_references(const std::filesystem::path& path, std::string_view label_field,
                           Problems& problems);
// The same, but throws as Problems::throw_if_any() when there are problems.
References read_references(const std::filesystem::path& path,
                           std::string_view label_field = "annotation.description_kr");

// Reads captions from JSONL with `video`, `caption` and optionally `status` ("ok", "truncated",
// "suspicious", "failed"; "looped", of version 0.1, is read as "suspicious"): the output of
// `caption-cli run`, or simpler. Problems as for read_references(); an incomplete last line is one
// too.
// An empty caption counts as a caption. The file is append-only: the last record of a clip (the
// same "file.path", or the same "video" if one has no path), prompt and adapter counts; a
// record with "moved_from" also replaces the record of the same "id" under that old name. Unknown
// keys are ignored.
Captions read_captions(const std::filesystem::path& path, Problems& problems);
Captions read_captions(const std::filesystem::path& path);  // throws as above

// The captions that answer one prompt and were made with one adapter: the named ones, or the only
// ones; the score of a mixture is that of none of its parts. The empty name stands for captions
// without one. Throws Error(kUsage) with the names when there are several and none is named, when
// there is none of that name, and when one is named but no caption names its prompt or adapter.
std::vector<CaptionEntry> choose_captions(std::vector<CaptionEntry> captions,
                                          const std::optional<std::string>& prompt,
                                          const std::optional<std::string>& adapter = {});

// If any entry has texts for `prompt` (empty: the captions name none), returns the references with
// these texts in place of the others. Throws Error(kBadReference) with the entries that have none,
// when other entries have them or when these entries have texts for other prompts only.
References choose_references(References references, const std::string& prompt);

struct Segment {
  std::string id;
  std::vector<std::string> references;
  std::optional<std::string> caption;  // std::nullopt when missing or failed
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

// Pairs references and captions. The name of a reference matches whether it is raw or escaped as in
// records/file_name.h. When several captions match a reference, those of files that did not exist
// are dropped, and of several with the same content the last caption is taken; dropped captions are
// not `extra`. Throws Error(kBadReference) with the references that still match several captions,
// with those that name the same clip, and when no caption has a reference.
Corpus pair_up(const References& references, const std::vector<CaptionEntry>& captions,
               MatchBy match = MatchBy::kAuto);

// As pair_up(), but does not throw when no caption has a reference.
Corpus match_up(const References& references, const std::vector<CaptionEntry>& captions,
                MatchBy match = MatchBy::kAuto);

// The names as a list for messages: "a, b, c and 39 more".
std::string list_some(const std::vector<std::string>& names, std::size_t max_named = 10);

}  // namespace caption::eval
