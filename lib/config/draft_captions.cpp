#include "config/draft_captions.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "config/choices.h"
#include "config/option_names.h"
#include "eval/corpus.h"

namespace caption::config {
namespace {

constexpr std::string_view kLabelField = "annotation.description_kr";  // eval's default

void append(std::vector<std::string>& captions, eval::Captions records) {
  for (eval::CaptionEntry& entry : records.entries) {
    if (!entry.is_failed && !entry.caption.empty()) captions.push_back(std::move(entry.caption));
  }
}

constexpr std::size_t kLooked = 4096;

// The first kLooked bytes of a file; empty for a folder.
std::string read_beginning(const std::string& path) {
  std::error_code ignored;  // the reader of the file reports what is wrong with it
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  std::string text(kLooked, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), std::ssize(text));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// Throws Error(kBadReference) for a file whose first bytes are no text, which would be read whole
// otherwise. Accepts UTF-16 with its mark, since the reader refuses it with a message of its own.
void require_text(const std::string& path, std::string_view beginning) {
  const bool is_utf16 = beginning.starts_with("\xFF\xFE") || beginning.starts_with("\xFE\xFF");
  if (is_utf16 || beginning.find('\0') == std::string_view::npos) return;
  throw Error(ErrorCode::kBadReference, path + ": it is no text: a zero byte is among the first " +
                                            std::to_string(kLooked) +
                                            "; JSON lines of captions are expected");
}

// Whether the first line is a reference that cannot be a record, so that a second reading is saved.
bool begins_with_reference(std::string_view beginning) {
  try {
    const std::string_view line = beginning.substr(0, beginning.find('\n'));
    const JsonObject object = JsonObject::parse(line, "", ErrorCode::kBadReference);
    return !object.has("caption") && !object.has("status");
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> captions_of(eval::References references) {
  std::vector<std::string> captions;
  for (eval::ReferenceEntry& entry : references.entries) {
    for (std::string& caption : entry.captions) captions.push_back(std::move(caption));
    for (auto& [prompt, texts] : entry.of_prompts) {
      for (std::string& caption : texts) captions.push_back(std::move(caption));
    }
  }
  return captions;
}

// Whether all lines can be used; without the last one of a run that was killed, which the run that
// goes on with its output cuts off.
bool is_usable(const std::string& path, const eval::Problems& problems) {
  if (problems.count() == 0) return true;
  if (!problems.is_torn_only()) return false;
  log_warning("run", "--draft-from: " + path + ": its last line is torn, and is left out");
  return true;
}

// Whatever the file can rather be: references have no status and may be several of a clip, so that
// most of them are no records. Throws with what is wrong in the better reading.
std::vector<std::string> read_file(const std::string& path, const std::atomic<bool>* cancelled) {
  std::error_code ignored;
  if (std::filesystem::is_fifo(path, ignored)) {
    throw Error(ErrorCode::kUsage,
                path +
                    ": is a FIFO, and captions to guess from are read more than once; save what "
                    "it gives to a file first");
  }
  const std::string beginning = read_beginning(path);
  require_text(path, beginning);
  eval::Problems of_references(cancelled);
  std::optional<eval::References> references;
  if (begins_with_reference(beginning)) {
    references = eval::read_references(path, kLabelField, of_references);
    if (is_usable(path, of_references)) return captions_of(*std::move(references));
  }
  eval::Problems of_records(cancelled);
  eval::Captions records = eval::read_captions(path, of_records);
  if (!records.entries.empty() && is_usable(path, of_records)) {
    std::vector<std::string> captions;
    append(captions, std::move(records));
    return captions;
  }
  if (!references) references = eval::read_references(path, kLabelField, of_references);
  if (of_records.count() < of_references.count()) of_records.throw_if_any();
  of_references.throw_if_any();
  return captions_of(*std::move(references));
}

// `option` is the option's name for messages.
std::vector<std::string> read_draft_from(const std::string& option, const std::string& path,
                                         const std::atomic<bool>* cancelled) {
  try {
    return read_file(path, cancelled);
  } catch (const Error& error) {
    const bool names_file = std::string_view(error.what()).find(path) != std::string_view::npos;
    throw Error(error.code(), option + (names_file ? "" : " " + path) + ": " + error.what());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kOutOfMemory,
                option + " " + path + ": the memory does not suffice for its captions");
  }
}

}  // namespace

pipeline::DraftOptions draft_options(const Preset& preset, const std::atomic<bool>* cancelled) {
  const SpeculativeSection& speculative = preset.speculative;
  if (!speculative.draft_from.empty() && speculative.method != DraftMethod::kArchive) {
    throw Error(ErrorCode::kUsage,
                option_name(preset, "speculative.draft_from") +
                    " gives captions to guess from, which " +
                    option_text(preset, "speculative.method", choice_name(speculative.method)) +
                    " does not use; --drafts archive guesses from captions");
  }
  const std::string option = option_name(preset, "speculative.draft_from");
  pipeline::DraftOptions drafts;
  drafts.how = {.method = speculative.method,
                .max_drafts = static_cast<std::int32_t>(speculative.num_draft_tokens),
                .is_adaptive = speculative.adaptive};
  drafts.model_reads =
      speculative.draft_video ? pipeline::DraftReads::kVideo : pipeline::DraftReads::kText;
  for (const std::string& path : speculative.draft_from) {
    if (path == eval::kStandardInput) {
      throw Error(ErrorCode::kUsage,
                  option +
                      " -: standard input is not read for captions to guess from; name a "
                      "file");
    }
    add_known_captions(read_draft_from(option, path, cancelled), drafts);
  }
  return drafts;
}

void add_known_captions(std::vector<std::string> captions, pipeline::DraftOptions& drafts) {
  std::vector<std::string>& known = drafts.known_captions;
  std::move(captions.begin(), captions.end(), std::back_inserter(known));
  std::int64_t left = drafts.max_archive_bytes;
  const auto last_dropped = std::find_if(known.rbegin(), known.rend(), [&](const auto& caption) {
    left -= std::ssize(caption);
    return left < 0;
  });
  known.erase(known.begin(), last_dropped.base());
}

std::vector<std::string> earlier_captions(const std::filesystem::path& output,
                                          const std::atomic<bool>* cancelled) {
  std::vector<std::string> captions;
  eval::Problems ignored(cancelled);
  try {
    append(captions, eval::read_captions(output, ignored));
  } catch (const Error& error) {
    if (is_of_machine(error.code()) || error.code() == ErrorCode::kCancelled) throw;
  }
  return captions;
}

}  // namespace caption::config
