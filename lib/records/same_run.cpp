#include "records/internal/same_run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "records/internal/lines.h"
#include "records/internal/read_records.h"
#include "records/internal/record_index.h"

namespace caption::records {
namespace {

// Prefix of the names of settings that record what a retry was made with.
constexpr std::string_view kRetriedWith = "retried_with.";

bool begins_with_one_of(const std::string& name, const std::vector<std::string>& begins) {
  return std::any_of(begins.begin(), begins.end(),
                     [&](const std::string& begin) { return name.starts_with(begin); });
}

Manifest without(Manifest manifest, const std::vector<std::string>& begins) {
  std::erase_if(manifest.settings,
                [&](const auto& setting) { return begins_with_one_of(setting.first, begins); });
  return manifest;
}

}  // namespace

bool note_retry(const Retry& retry, Manifest& there, const Manifest& now) {
  if (retry.statuses.empty()) return false;
  std::string changes;
  for (const auto& setting : now.settings) {
    const bool is_changed =
        begins_with_one_of(setting.first, retry.changeable) &&
        std::find(there.settings.begin(), there.settings.end(), setting) == there.settings.end();
    if (is_changed) changes += " " + setting.first + "=" + setting.second;
  }
  if (changes.empty()) return false;
  std::string statuses;
  for (const Status status : retry.statuses) {
    statuses += (statuses.empty() ? "" : ",") + std::string(status_name(status));
  }
  const std::string name = std::string(kRetriedWith) + settings_key(now);
  const bool is_noted = std::any_of(there.settings.begin(), there.settings.end(),
                                    [&](const auto& setting) { return setting.first == name; });
  if (is_noted) return false;
  there.settings.emplace_back(name, statuses + ":" + changes);
  return true;
}

std::set<std::string> accepted_keys(const Manifest& there) {
  std::set<std::string> keys = {settings_key(without(there, {std::string(kRetriedWith)}))};
  for (const auto& setting : there.settings) {
    if (setting.first.starts_with(kRetriedWith)) {
      keys.insert(setting.first.substr(kRetriedWith.size()));
    }
  }
  return keys;
}

std::string key_of_records(const Manifest& there, const Manifest& now) {
  std::string key = settings_key(now);
  return accepted_keys(there).contains(key)
             ? key
             : settings_key(without(there, {std::string(kRetriedWith)}));
}

std::optional<std::filesystem::path> find_left_manifest(const std::filesystem::path& output) {
  namespace fs = std::filesystem;
  const fs::path beside = output.string() + ".new";
  const fs::path left = manifest_path(beside);
  if (fs::exists(beside) || !fs::exists(left)) return std::nullopt;
  const MappedFile bytes(output);
  try {
    const Record first = parse_json_line(first_line(as_text(bytes.bytes())));
    const std::optional<Manifest> theirs = read_manifest(left);
    if (theirs.has_value() && first.settings == settings_key(*theirs)) return left;
  } catch (const Error& error) {
    // The output is a csv, a txt, empty or foreign, or the other file is no manifest.
    if (is_of_machine(error.code())) throw;
  }
  return std::nullopt;
}

namespace {

// If the CPU tier is the only difference, returns how the run can be continued.
std::string tier_remedy(const Manifest& there, const Manifest& now,
                        const std::vector<std::string>& ignored) {
  constexpr std::string_view kDevice = "arithmetic.device";
  constexpr std::string_view kCpu = "cpu ";
  std::vector<std::string> all = ignored;
  all.emplace_back(kDevice);
  if (!describe_differences(without(there, all), without(now, all)).empty()) return {};
  for (const auto& [name, value] : there.settings) {
    if (name != kDevice || !value.starts_with(kCpu)) continue;
    return "; --cpu-tier " + value.substr(kCpu.size()) + " continues it where the CPU has it";
  }
  return {};
}

// Whether the manifests have a setting of the same name.
bool share_a_name(const Manifest& a, const Manifest& b) {
  return std::any_of(a.settings.begin(), a.settings.end(), [&](const auto& one) {
    return std::any_of(b.settings.begin(), b.settings.end(),
                       [&](const auto& other) { return one.first == other.first; });
  });
}

}  // namespace

Manifest require_same_run(const std::filesystem::path& output, Format format,
                          const Manifest& manifest, const Retry& retry) {
  const std::filesystem::path path = find_left_manifest(output).value_or(manifest_path(output));
  const std::optional<Manifest> there = read_manifest(path);
  if (!there) {
    throw Error(ErrorCode::kOutputConflict,
                output.string() + ": exists, but has no manifest (" + path.filename().string() +
                    "), so it is not known what its records were made with; give another -o" +
                    (is_output(output) ? ", or --overwrite to start anew" : ""));
  }
  if (!share_a_name(*there, manifest)) {
    throw Error(ErrorCode::kOutputConflict,
                path.string() +
                    ": has no setting that a run has, so it is no manifest of an output; move it "
                    "away and start anew with --overwrite, or give another -o");
  }
  std::vector<std::string> ignored = {std::string(kRetriedWith)};
  if (!retry.statuses.empty()) {
    ignored.insert(ignored.end(), retry.changeable.begin(), retry.changeable.end());
  }
  const std::string differences =
      describe_differences(without(*there, ignored), without(manifest, ignored));
  if (!differences.empty()) {
    throw Error(ErrorCode::kOutputConflict,
                output.string() + ": belongs to a run with another configuration: " + differences +
                    tier_remedy(*there, manifest, ignored) +
                    "; give another -o, or --overwrite to start anew");
  }
  if (format != Format::kJsonl) {
    throw Error(
        ErrorCode::kOutputConflict,
        output.string() + ": exists, and a " + std::string(format_name(format)) +
            " file cannot be resumed; use another -o, in jsonl to resume it later, or --overwrite");
  }
  return *there;
}

void refuse_to_lose_captions(const std::filesystem::path& beside, const Manifest& manifest) {
  const std::optional<Manifest> there = read_manifest(manifest_path(beside));
  const std::string differences = there.has_value() ? describe_differences(*there, manifest) : "";
  if (there.has_value() && differences.empty()) return;
  RecordIndex index;
  read_records({.path = beside, .use = FileUse::kBeside},
               there.has_value() ? accepted_keys(*there) : std::set<std::string>{}, index);
  if (index.num_usable() == 0) return;
  throw Error(ErrorCode::kOutputConflict,
              beside.string() + ": holds " + counted(index.num_usable(), "caption") +
                  " of an --overwrite that was interrupted, " +
                  (there.has_value()
                       ? "with another configuration: " + differences +
                             "; finish it with that configuration, or delete this file"
                       : "but has no manifest, so it is not known what they were made with; delete "
                         "this file to start anew"));
}

bool is_empty_or_missing(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size_bytes = std::filesystem::file_size(path, error);
  return error || size_bytes == 0;
}

void refuse_special_file(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  throw Error(ErrorCode::kUsage, path.string() + ": is " +
                                     (S_ISDIR(status.st_mode) ? "a folder" : "no regular file") +
                                     "; -o wants a file, and without -o records go to stdout");
}

void refuse_foreign_file(const std::filesystem::path& path) {
  if (is_output(path)) return;
  throw Error(ErrorCode::kOutputConflict,
              path.string() +
                  ": holds neither records nor a manifest, so it is no output of an "
                  "earlier run and is not overwritten; give another -o");
}

void refuse_foreign_manifest(const std::filesystem::path& output, const Manifest& manifest) {
  namespace fs = std::filesystem;
  const fs::path path = manifest_path(output);
  std::error_code error;
  const bool is_file = fs::is_regular_file(path, error);
  if (is_file ? is_empty_or_missing(path) : !fs::exists(path, error)) return;
  try {
    const std::optional<Manifest> there = read_manifest(path);
    if (!there.has_value() || share_a_name(*there, manifest)) return;
  } catch (const Error& unreadable) {
    const bool is_readable = ::access(path.c_str(), R_OK) == 0;
    if (is_file && (unreadable.code() != ErrorCode::kOutputConflict || !is_readable)) throw;
  }
  throw Error(ErrorCode::kOutputConflict,
              path.string() +
                  ": is no manifest of an output, and one of this name is written beside " +
                  output.filename().string() + "; move it away, or give another -o");
}

void restore_manifest(const std::filesystem::path& output, const Manifest& manifest) {
  const std::filesystem::path path = manifest_path(output);
  std::string what = "was removed";
  try {
    const std::optional<Manifest> there = read_manifest(path);
    if (there.has_value() && settings_key(*there) == settings_key(manifest)) return;
    if (there.has_value()) what = "was changed (" + describe_differences(*there, manifest) + ")";
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutputConflict) throw;
    what = "was changed, and is no manifest now,";
  }
  write_manifest(path, manifest);
  log_warning("records", path.string() + ": " + what +
                             " by another program during the run, and is written anew with the "
                             "settings of the records");
}

std::int64_t count_lost_captions(const std::filesystem::path& output, RecordIndex& now) {
  RecordIndex before;
  try {
    read_records({.path = output, .use = FileUse::kReplaced}, {}, before);
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    return 0;
  }
  return std::count_if(before.slots().begin(), before.slots().end(), [&](const RecordSlot& old) {
    const RecordSlot* const here = now.at_place(old.place);
    return old.is_live && old.status != Status::kFailed && here != nullptr &&
           here->status == Status::kFailed;
  });
}

bool is_output(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  try {
    if (read_manifest(manifest_path(path)).has_value()) return true;
  } catch (const Error& error) {
    // A damaged manifest leaves it to the file's own text whether it is an output.
    if (is_of_machine(error.code()) || !fs::is_regular_file(manifest_path(path))) throw;
  }
  const MappedFile file(path);
  const std::string_view text = as_text(file.bytes());
  if (is_csv_of_captions(text)) return true;
  try {
    parse_json_line(first_line(text));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace caption::records
