#include "records/internal/same_run.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "records/internal/foreign_files.h"
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

}  // namespace caption::records
