#include "pipeline/find_videos.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "base/ascii.h"
#include "base/counted.h"
#include "pipeline/list_entry.h"
#include "records/file_name.h"

namespace caption::pipeline {
namespace {

constexpr std::array<std::string_view, 18> kVideoSuffixes = {
    ".mp4", ".m4v",  ".mov", ".mkv", ".webm", ".avi", ".ts",  ".mts", ".m2ts",
    ".mpg", ".mpeg", ".wmv", ".flv", ".3gp",  ".ogv", ".vob", ".mxf", ".divx"};
constexpr std::size_t kNamesInMessage = 3;
constexpr std::size_t kMaxUnreadable = 100;  // folders listed separately

// Identifies a file or folder independently of its name.
using FileId = std::pair<dev_t, ino_t>;

enum class EntryKind { kFile, kFolder, kSpecial, kMissing, kUnreadable };

EntryKind kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return EntryKind::kFolder;
  return S_ISREG(mode) ? EntryKind::kFile : EntryKind::kSpecial;
}

// Follows links. Sets `id` for a folder.
EntryKind look_at(const char* path, FileId* id = nullptr) {
  struct stat status {};
  if (::stat(path, &status) != 0) {
    const bool is_missing = errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
    return is_missing ? EntryKind::kMissing : EntryKind::kUnreadable;
  }
  if (id != nullptr) *id = {status.st_dev, status.st_ino};
  return kind_of(status.st_mode);
}

// The names in a folder, concatenated, without hidden ones.
class FolderNames {
 public:
  // Returns 0, or the errno with which reading the folder ended; names read before it are kept.
  int read(const std::string& path) {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
    if (folder == nullptr) return errno;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(folder.get());
      if (entry == nullptr) break;
      if (entry->d_name[0] == '.') {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") ++num_hidden_;
        continue;
      }
      names_.push_back({text_.size(), entry->d_type});
      text_.append(entry->d_name, std::strlen(entry->d_name) + 1);
    }
    const int error = errno;
    std::sort(names_.begin(), names_.end(), [this](const Name& a, const Name& b) {
      return std::strcmp(text_.data() + a.at, text_.data() + b.at) < 0;
    });
    return error;
  }

  std::size_t size() const { return names_.size(); }
  std::int64_t num_hidden() const { return num_hidden_; }
  const char* name(std::size_t i) const { return text_.data() + names_[i].at; }
  // DT_REG, DT_LNK, ...; DT_UNKNOWN on file systems that do not report the type.
  unsigned char type(std::size_t i) const { return names_[i].type; }

 private:
  struct Name {
    std::size_t at;
    unsigned char type;
  };
  std::string text_;
  std::vector<Name> names_;
  std::int64_t num_hidden_ = 0;
};

// Counts the path and keeps it while there are fewer than `max_paths`. Returns whether it was kept.
bool note(Skipped& skipped, const std::string& path, std::size_t max_paths = kNamesInMessage) {
  ++skipped.count;
  if (skipped.first_paths.size() >= max_paths) return false;
  skipped.first_paths.push_back(path);
  return true;
}

class Finder {
 public:
  Finder(const PathFilter& filter, const std::atomic<bool>* cancelled)
      : filter_(filter), cancelled_(cancelled) {
    found_.filtered_by = filter.options();
  }

  void add(std::string_view path, Origin origin) {
    switch (found_.inputs.add(path, origin, adapter_)) {
      case InputList::AddResult::kAdded: break;
      case InputList::AddResult::kDuplicate: ++found_.num_duplicates; break;
      case InputList::AddResult::kOtherAdapter:
        throw Error(ErrorCode::kUsage, (list_ == nullptr ? "" : where() + ": ") +
                                           records::escape_file_name(std::string(path)) +
                                           ": named twice, with different adapters; a clip has one "
                                           "in a run");
    }
  }

  // Adds a path that the user named: a folder is walked, everything else becomes a clip.
  void add_named(const std::string& path) {
    FileId id;
    if (look_at(path.c_str(), &id) != EntryKind::kFolder) return add_file(path);
    std::string folder = path;
    root_bytes_ = folder.size() + (folder.ends_with('/') ? 0 : 1);
    walk(folder, id);
  }

  // Adds a line of the list; `number` counts from 1.
  void add_line(std::string_view line, std::int64_t number, const PathList& list) {
    line_number_ = number;
    list_ = &list;
    const bool may_be_json = list.separator != '\0';
    if (may_be_json && is_json_list(line)) {
      throw Error(ErrorCode::kUsage, where() +
                                         ": is a JSON list; a line is a path or {\"video\": PATH}, "
                                         "and a file of this name is written ./[...]");
    }
    if (may_be_json && is_list_entry(line)) {
      add_entry(parse_list_entry(line, {"video", "adapter"}, where(),
                                 "a file whose name begins with {\" or {} is written ./{..."));
    } else {
      add_listed(line);
    }
    list_ = nullptr;
  }

  void add_entry(const JsonObject& entry) {
    const std::string path = entry.require_string("video");
    if (path.empty() || path.find('\0') != std::string::npos) {
      throw Error(ErrorCode::kUsage, where() + ": video: " + json_quote(path) + " is no path");
    }
    if (entry.has("adapter")) {
      adapter_ = find_adapter(list_->adapters, entry.require_string("adapter"), where());
    }
    add_listed(path);
    adapter_ = kNoAdapter;
  }

  void add_listed(std::string_view path) {
    if (claims_to_be_video(path)) return add_file(path);
    add_named(std::string(path));
  }

  FoundVideos take() { return std::move(found_); }

 private:
  // The line of the list that is added now, for messages.
  std::string where() const { return list_->name + ": line " + std::to_string(line_number_); }

  void skip(SkipReason reason, const std::string& path) {
    note(found_.skipped[static_cast<std::size_t>(reason)], path);
  }

  void filter_out(const std::string& path) { note(found_.filtered, path); }

  void add_file(std::string_view named) {
    if (!filter_.passes_named(named)) return filter_out(std::string(named));
    add(named, Origin::kNamed);
  }

  void add_walked(const std::string& path) {
    if (!filter_.empty() && !filter_.passes(below_root(path))) return filter_out(path);
    add(path, Origin::kFolderWalk);
  }

  // Path relative to the walked folder; empty for that folder itself.
  std::string_view below_root(const std::string& path) const {
    return std::string_view(path).substr(std::min(root_bytes_, path.size()));
  }

  void skip_unreadable(const std::string& path, int error) {
    found_.inputs.note_unread_folders(1);
    Skipped& unreadable = found_.skipped[static_cast<std::size_t>(SkipReason::kUnreadable)];
    if (note(unreadable, path, kMaxUnreadable)) found_.unreadable_errors.push_back(error);
  }

  // `path` is the folder's path; it is modified during the walk and restored at its end.
  void walk(std::string& path, FileId id) {
    if (std::find(chain_.begin(), chain_.end(), id) != chain_.end()) {
      return skip(SkipReason::kCycle, path);
    }
    const std::string_view below = below_root(path);
    if (!below.empty() && filter_.excludes_folder(below)) return filter_out(path);
    if (++num_walks_[id] > kMaxWalksOfFolder) return skip(SkipReason::kManyNames, path);
    FolderNames names;
    if (const int error = names.read(path); error != 0) skip_unreadable(path, error);
    found_.num_hidden += names.num_hidden();
    chain_.push_back(id);
    const std::size_t length = path.size();
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!path.ends_with('/')) path += '/';
      path += names.name(i);
      visit(path, names.type(i));
      path.resize(length);
    }
    chain_.pop_back();
  }

  void visit(std::string& path, unsigned char type) {
    if (cancelled_ != nullptr && cancelled_->load()) {
      throw Error(ErrorCode::kCancelled,
                  "interrupted while folders were searched for videos; nothing was done");
    }
    if (type == DT_REG) return add_walked(path);
    FileId id;
    const EntryKind kind = look_at(path.c_str(), &id);
    const int error = errno;
    switch (kind) {
      case EntryKind::kFile: return add_walked(path);
      case EntryKind::kFolder: return walk(path, id);
      case EntryKind::kSpecial: return skip(SkipReason::kSpecialFile, path);
      case EntryKind::kUnreadable:
        if (type == DT_DIR) return skip_unreadable(path, error);
        return add(path, Origin::kNamed);  // opening it reports the error
      case EntryKind::kMissing: break;
    }
    struct stat status {};
    // An entry that was removed since the folder was read is not reported as a dangling link.
    if (::lstat(path.c_str(), &status) == 0) skip(SkipReason::kDanglingLink, path);
  }

  const PathFilter& filter_;
  const std::atomic<bool>* const cancelled_;
  FoundVideos found_;
  AdapterIndex adapter_ = kNoAdapter;  // adapter for the paths that are added now
  const PathList* list_ = nullptr;     // the list whose line is being added; null otherwise
  std::int64_t line_number_ = 0;
  std::size_t root_bytes_ = 0;  // bytes of the walked folder's path with its trailing slash
  std::vector<FileId> chain_;   // folders on the path from the root of the walk to the current one
  std::map<FileId, int> num_walks_;
};

// Returns text such as "a, b and 3 more".
std::string name_some(const std::vector<std::string>& first_paths, std::int64_t count) {
  std::string out;
  for (const std::string& path : first_paths) {
    out += (out.empty() ? "" : ", ") + records::escape_file_name(path);
  }
  const std::int64_t num_more = count - std::ssize(first_paths);
  return num_more > 0 ? out + " and " + std::to_string(num_more) + " more" : out;
}

std::string describe(SkipReason reason, std::int64_t count) {
  switch (reason) {
    case SkipReason::kDanglingLink:
      return counted(count, "link leads nowhere", "links lead nowhere");
    case SkipReason::kSpecialFile:
      return counted(count, "entry is a FIFO, socket or device",
                     "entries are FIFOs, sockets or devices");
    case SkipReason::kUnreadable: break;  // describe_unreadable() lists the folders
    case SkipReason::kCycle:
      return counted(count, "linked folder holds its own link and is not entered again",
                     "linked folders hold their own links and are not entered again");
    case SkipReason::kManyNames:
      return counted(count, "linked folder has", "linked folders have") + " been walked under " +
             std::to_string(kMaxWalksOfFolder) + " other names";
  }
  return {};
}

// Adds a line for each kept folder, and one for the number of those beyond kMaxUnreadable.
void describe_unreadable(const FoundVideos& found, std::vector<std::string>& out) {
  const Skipped& unreadable = found.skipped_for(SkipReason::kUnreadable);
  for (std::size_t i = 0; i < unreadable.first_paths.size(); ++i) {
    out.push_back(records::escape_file_name(unreadable.first_paths[i]) +
                  ": the folder cannot be read (" + describe_errno(found.unreadable_errors[i]) +
                  "); what is in it is left out");
  }
  const std::int64_t num_more = unreadable.count - std::ssize(unreadable.first_paths);
  if (num_more > 0) out.push_back(counted(num_more, "more folder") + " cannot be read");
}

void require_existing(const std::vector<std::string>& arguments) {
  std::vector<std::string> missing;
  std::int64_t num_missing = 0;
  for (const std::string& argument : arguments) {
    if (argument == "-" || look_at(argument.c_str()) != EntryKind::kMissing) continue;
    ++num_missing;
    if (missing.size() < kNamesInMessage) {
      missing.push_back(argument.empty() ? "\"\"" : argument);
    }
  }
  if (num_missing == 0) return;
  throw Error(ErrorCode::kUsage,
              name_some(missing, num_missing) + ": no such file or folder; nothing was done");
}

}  // namespace

bool claims_to_be_video(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  const std::string suffix = to_lower_ascii(name.substr(dot));
  return std::find(kVideoSuffixes.begin(), kVideoSuffixes.end(), suffix) != kVideoSuffixes.end();
}

std::string describe_hidden(const FoundVideos& found) {
  if (found.num_hidden == 0) return {};
  return counted(found.num_hidden, "hidden file or folder was", "hidden files or folders were") +
         " left out";
}

std::vector<std::string> describe_skipped(const FoundVideos& found) {
  std::vector<std::string> out;
  if (found.num_duplicates > 0) {
    out.push_back(counted(found.num_duplicates, "path names a clip that is already in the list",
                          "paths name clips that are already in the list") +
                  "; each clip is captioned once");
  }
  for (std::size_t i = 0; i < kNumSkipReasons; ++i) {
    const Skipped& skipped = found.skipped[i];
    if (skipped.count == 0) continue;
    if (static_cast<SkipReason>(i) == SkipReason::kUnreadable) {
      describe_unreadable(found, out);
      continue;
    }
    out.push_back(describe(static_cast<SkipReason>(i), skipped.count) + ": " +
                  name_some(skipped.first_paths, skipped.count));
  }
  return out;
}

std::string describe_filtered(const FoundVideos& found) {
  const Skipped& filtered = found.filtered;
  if (filtered.count == 0) return {};
  return counted(filtered.count, "file or folder was", "files or folders were") + " left out by " +
         found.filtered_by + ": " + name_some(filtered.first_paths, filtered.count);
}

FoundVideos find_videos(const std::vector<std::string>& arguments, const PathList& list,
                        const PathFilter& filter, const std::atomic<bool>* cancelled) {
  require_existing(arguments);
  Finder finder(filter, cancelled);
  for (const std::string& argument : arguments) {
    if (argument == "-") {
      const auto add_line = [&](std::string_view line, std::int64_t number) {
        finder.add_line(line, number, list);
      };
      read_path_list(list, add_line, cancelled);
    } else {
      finder.add_named(argument);
    }
  }
  return finder.take();
}

}  // namespace caption::pipeline
