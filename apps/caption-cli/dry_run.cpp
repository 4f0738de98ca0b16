#include "dry_run.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/counted.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "base/join.h"
#include "base/json.h"
#include "base/log.h"
#include "base/open_file.h"
#include "config/choices.h"
#include "config/resources.h"
#include "exit_codes.h"
#include "input_flags.h"
#include "pipeline/time_left.h"
#include "process.h"
#include "records/file_name.h"
#include "write_text.h"

namespace caption::cli {
namespace {

using records::Planned;

// Numbers of captions by planned action.
struct Counts {
  std::int64_t num_clips = 0;
  std::int64_t num_clips_to_read = 0;          // clips that lack a caption
  std::int64_t num_skipped = 0;                // files in folders that are not videos
  std::array<std::int64_t, 5> num_captions{};  // indexed by Planned

  std::int64_t of(Planned planned) const { return num_captions[static_cast<std::size_t>(planned)]; }
  std::int64_t known() const { return of(Planned::kKeep) + of(Planned::kKeepFailed); }
  std::int64_t to_make() const { return of(Planned::kMake) + of(Planned::kMakeAgain); }
};

void print_line(const std::string& name, const std::string& value) {
  std::cout << "  " << name << std::string(name.size() < 10 ? 10 - name.size() : 1, ' ') << value
            << "\n";
}

records::ClipIdentity identity_of(const std::string& path) {
  records::ClipIdentity clip{
      .file = {.path = records::escape_file_name(records::absolute_name(path))}};
  if (::access(path.c_str(), R_OK) != 0) return clip;  // as the run sees a file it cannot open
  if (const std::optional<FileStamp> stamp = stamp_of(path)) {
    clip.file.size_bytes = stamp->size_bytes;
    clip.file.modified_ns = stamp->modified_ns;
  }
  return clip;
}

const char* describe(Planned planned) {
  switch (planned) {
    case Planned::kMake: return "new";
    case Planned::kMakeAgain: return "again";
    case Planned::kKeep: return "known";
    case Planned::kKeepFailed: return "failed";
    case Planned::kTakeOver: return "take over";
  }
  return "";
}

class Planner {
 public:
  Planner(const DryRun& run, records::OutputPreview* preview) : run_(run), preview_(preview) {}

  void add(std::size_t input) {
    if (!is_clip(run_.inputs, input, run_.options.read)) {
      ++counts_.num_skipped;
      return;
    }
    const std::string path(run_.inputs.path(input));
    records::ClipIdentity clip = identity_of(path);
    bool must_be_read = false;
    for (const pipeline::Prompt& prompt : run_.options.prompts) {
      const std::string adapter = pipeline::adapter_name(
          run_.options, pipeline::adapter_of(run_.options, run_.inputs, input, prompt));
      const Planned planned = plan(path, clip, records::caption_key(prompt.name, adapter));
      ++counts_.num_captions[static_cast<std::size_t>(planned)];
      must_be_read = must_be_read || planned == Planned::kMake || planned == Planned::kMakeAgain;
      if (log_level() > LogLevel::kDebug) continue;
      print_line(describe(planned), records::escape_file_name(path) +
                                        (prompt.name.empty() ? "" : " (" + prompt.name + ")"));
    }
    ++counts_.num_clips;
    counts_.num_clips_to_read += must_be_read ? 1 : 0;
  }

  const Counts& counts() const { return counts_; }

 private:
  Planned plan(const std::string& path, records::ClipIdentity& clip, const std::string& caption) {
    const Planned planned = preview_ == nullptr ? Planned::kMake : preview_->plan(clip, caption);
    if (planned != Planned::kMake || run_.options.trust_times || !clip.file.size_bytes) {
      return planned;
    }
    const std::int64_t size_bytes = *clip.file.size_bytes;
    if (preview_ != nullptr && preview_->may_know(size_bytes)) {
      read_digest(path, clip);
      const Planned known = preview_->plan(clip, caption);
      if (known != Planned::kMake) return known;
    }
    return is_copy(path, clip, size_bytes) ? Planned::kTakeOver : planned;
  }

  // Whether another clip of the same content will be captioned. Reads only files whose size
  // another new clip has.
  bool is_copy(const std::string& path, records::ClipIdentity& clip, std::int64_t size_bytes) {
    if (size_bytes == 0) return false;
    records::ClipIdentity& first = new_by_size_.try_emplace(size_bytes, clip).first->second;
    if (first.file.path == clip.file.path) return false;
    read_digest(records::unescape_file_name(first.file.path), first);
    read_digest(path, clip);
    if (!first.id.empty()) new_digests_.try_emplace(first.id, first.file.path);
    if (clip.id.empty()) return false;
    const std::string& known = new_digests_.try_emplace(clip.id, clip.file.path).first->second;
    return known != clip.file.path;
  }

  // Fills the clip's id; leaves it empty where the file cannot be read: the run will say why.
  void read_digest(const std::string& path, records::ClipIdentity& clip) {
    if (!clip.id.empty()) return;
    try {
      clip.id = OpenFile(path).sha256(run_.options.stop).hex();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) throw;
    }
  }

  const DryRun& run_;
  records::OutputPreview* preview_;
  Counts counts_;
  std::unordered_map<std::int64_t, records::ClipIdentity> new_by_size_;  // the first of each size
  std::unordered_map<std::string, std::string> new_digests_;  // SHA-256 to the path of the first
};

std::string describe_time(const DryRun& run, const Counts& counts,
                          const records::OutputPreview* preview) {
  if (counts.to_make() == 0) return "none: nothing is left to be captioned";
  const records::MeanTimes means =
      preview == nullptr ? records::MeanTimes{} : preview->mean_times();
  if (means.num_captions == 0) {
    return "not known yet: caption some clips first, with -o FILE --limit 8; a dry run with that "
           "-o FILE then tells";
  }
  const auto num_devices = static_cast<double>(run.devices.size());
  const double us =
      pipeline::time_needed_us({.read_us = means.decode_ms * 1e3,
                                .vision_us = means.vision_ms * 1e3 / num_devices,
                                .engine_us = means.engine_ms * 1e3 / num_devices},
                               {.clips_to_read = static_cast<double>(counts.num_clips_to_read),
                                .clips_to_encode = static_cast<double>(counts.num_clips_to_read),
                                .captions = static_cast<double>(counts.to_make())},
                               run.options.threads.decode);
  return "about " + pipeline::duration_text(us) + ", at the pace of " +
         counted(means.num_captions, "record") + " in the output";
}

std::string describe_work(const Counts& counts) {
  std::string text = counted(counts.to_make(), "caption");
  if (counts.of(Planned::kMakeAgain) > 0) {
    text += ", " + std::to_string(counts.of(Planned::kMakeAgain)) + " of them made again";
  }
  if (counts.of(Planned::kTakeOver) > 0) {
    text += "; " + counted(counts.of(Planned::kTakeOver), "record") +
            " taken over from files of the same content";
  }
  return text;
}

std::string describe_clips(const Counts& counts, std::int64_t num_unread_folders) {
  std::string text = std::to_string(counts.num_clips);
  if (counts.num_skipped > 0) {
    text +=
        ", and " + counted(counts.num_skipped, "file that is no video", "files that are no videos");
  }
  if (num_unread_folders > 0) {
    text += "; " + counted(num_unread_folders, "folder") + " cannot be read";
  }
  return text;
}

std::string describe_known(const Counts& counts) {
  const std::int64_t num_failed = counts.of(Planned::kKeepFailed);
  std::string text = counted(counts.known(), "caption") +
                     std::string(plural(counts.known(), " has its record", " have their records"));
  if (num_failed > 0) {
    text += ", " + std::to_string(num_failed) + " of them of " +
            std::string(plural(num_failed, "a failure", "failures")) + " (--retry-failed tries " +
            std::string(plural(num_failed, "it", "them")) + " again)";
  }
  return text;
}

// Number of newlines in the file, including the header line of a csv; 0 when it cannot be read.
std::int64_t count_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(1 << 16);
  std::int64_t num_lines = 0;
  while (file) {
    file.read(buffer.data(), std::ssize(buffer));
    num_lines += std::count(buffer.begin(), buffer.begin() + file.gcount(), '\n');
  }
  return num_lines;
}

// Describes where records would be written and what would happen to an existing file.
std::string describe_target(const DryRun& run, const records::OutputPreview* preview) {
  const std::string& path = run.output.path;
  std::string text = describe_output(run.output);
  const std::int64_t num_found = preview == nullptr ? 0 : preview->num_found();
  const std::string found = counted(num_found, "record");
  const std::optional<FileStamp> stamp = stamp_of(path);
  const bool replaces = run.output.overwrite && stamp.has_value() && stamp->size_bytes > 0;
  if (!replaces) return num_found > 0 ? text + ", which holds " + found : text;
  text += ", whose " + counted(count_lines(path), "line") +
          " would be replaced at the end; until "
          "then records are in " +
          records::escape_file_name(real_path(path).string() + ".new");
  return num_found > 0 ? text + ", which holds " + found + " of an interrupted --overwrite" : text;
}

std::string describe_prompts(const std::vector<pipeline::Prompt>& prompts) {
  std::string text;
  for (const pipeline::Prompt& prompt : prompts) {
    text += (text.empty() ? "" : ", ") +
            (prompt.name.empty() ? json_quote(prompt.text) : json_quote(prompt.name));
  }
  return text;
}

// Describes what comes before each clip: "a system prompt and 2 examples, 340 tokens".
std::string describe_lead(const DryRun& run) {
  std::string text = run.options.system.empty() ? "" : "a system prompt";
  if (!run.options.examples.empty()) {
    text += (text.empty() ? "" : " and ") + counted(std::ssize(run.options.examples), "example");
  }
  return text + ", " + counted(run.num_lead_tokens, "token");
}

std::string describe_model(const DryRun& run) {
  const config::ModelSection& named = run.preset.model;
  const std::filesystem::path place =
      config::find_model(named.is_composed ? named.llm : named.path, run.locations);
  return records::escape_file_name(place.string()) + ", " +
         std::string(config::choice_name(run.preset.quantization.weights)) + " weights, preset " +
         run.preset.name;
}

}  // namespace

int dry_run(const DryRun& run) {
  const std::unique_ptr<records::OutputPreview> preview = preview_output(
      run.output, run.manifest,
      run.options.trust_times ? records::KnownBy::kTimes : records::KnownBy::kDigest);
  const bool is_locked = preview != nullptr && preview->is_being_written();
  Planner planner(run, preview.get());
  for (std::size_t i = 0; i < run.inputs.size(); ++i) planner.add(i);
  const Counts& counts = planner.counts();
  std::cout << "dry run: nothing is written\n";
  print_line("clips", describe_clips(counts, run.inputs.num_unread_folders()));
  print_line("known", describe_known(counts));
  print_line("to do", describe_work(counts));
  print_line("output", describe_target(run, preview.get()));
  print_line("model", describe_model(run));
  if (run.devices.size() > 1) print_line("devices", join(run.devices));
  print_line(run.options.prompts.size() == 1 ? "prompt" : "prompts",
             describe_prompts(run.options.prompts));
  if (!run.options.system.empty() || !run.options.examples.empty()) {
    print_line("before", describe_lead(run));
  }
  print_line("time", describe_time(run, counts, preview.get()));
  flush_stdout();
  // As the run would end: refused, or without the clips of a folder.
  if (is_locked) {
    return fail(records::escape_file_name(run.output.path) +
                    ": another run is writing it; a run would be refused until that one has ended",
                kExitUsage);
  }
  return run.inputs.num_unread_folders() > 0 ? kExitClipsFailed : kExitOk;
}

}  // namespace caption::cli
