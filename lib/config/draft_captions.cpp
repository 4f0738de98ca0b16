#include "config/draft_captions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "config/choices.h"
#include "eval/corpus.h"

namespace caption::config {
namespace {

constexpr std::string_view kLabelField = "annotation.description_kr";  // eval's default

void append(std::vector<std::string>& captions, eval::Captions records) {
  for (eval::CaptionEntry& entry : records.entries) {
    if (!entry.is_failed && !entry.caption.empty()) captions.push_back(std::move(entry.caption));
  }
}

// Throws Error(kBadReference) for a file whose first bytes are no text, which would be read whole
// otherwise. A folder, and UTF-16 with its mark, which has a message of its own, are left to their
// reader.
void require_text(const std::string& path) {
  constexpr std::size_t kLooked = 4096;
  if (!std::filesystem::is_regular_file(path)) return;
  std::array<char, kLooked> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), std::ssize(bytes));
  const std::string_view text(bytes.data(), static_cast<std::size_t>(file.gcount()));
  const bool is_utf16 = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
  if (is_utf16 || text.find('\0') == std::string_view::npos) return;
  throw Error(ErrorCode::kBadReference, path + ": it is no text: a zero byte is among the first " +
                                            std::to_string(kLooked) +
                                            "; JSON lines of captions are expected");
}

// Whatever the file can rather be: references have no status and may be several of a clip, so that
// most of them are no records. Throws with what is wrong in the better reading.
std::vector<std::string> read_file(const std::string& path, const std::atomic<bool>* cancelled) {
  require_text(path);
  std::vector<std::string> captions;
  eval::Problems of_records(cancelled);
  eval::Captions records = eval::read_captions(path, of_records);
  if (of_records.count() == 0) {
    append(captions, std::move(records));
    return captions;
  }
  eval::Problems of_references(cancelled);
  eval::References references = eval::read_references(path, kLabelField, of_references);
  if (of_records.count() < of_references.count()) of_records.throw_if_any();
  of_references.throw_if_any();
  for (eval::ReferenceEntry& entry : references.entries) {
    for (std::string& caption : entry.captions) captions.push_back(std::move(caption));
    for (auto& [prompt, texts] : entry.of_prompts) {
      for (std::string& caption : texts) captions.push_back(std::move(caption));
    }
  }
  return captions;
}

std::vector<std::string> read_draft_from(const std::string& path,
                                         const std::atomic<bool>* cancelled) {
  try {
    return read_file(path, cancelled);
  } catch (const Error& error) {
    const bool names_file = std::string_view(error.what()).find(path) != std::string_view::npos;
    throw Error(error.code(),
                "--draft-from" + (names_file ? "" : " " + path) + ": " + error.what());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kOutOfMemory,
                "--draft-from " + path + ": the memory does not suffice for its captions");
  }
}

}  // namespace

pipeline::DraftOptions draft_options(const Preset& preset, const std::atomic<bool>* cancelled) {
  const SpeculativeSection& speculative = preset.speculative;
  if (!speculative.draft_from.empty() && speculative.method != DraftMethod::kArchive) {
    throw Error(ErrorCode::kUsage, "--draft-from gives captions to guess from, and --drafts is " +
                                       std::string(choice_name(speculative.method)) +
                                       "; --drafts archive guesses from captions");
  }
  pipeline::DraftOptions drafts;
  drafts.how = {.method = speculative.method,
                .max_drafts = static_cast<std::int32_t>(speculative.num_draft_tokens),
                .is_adaptive = speculative.adaptive};
  drafts.model_reads =
      speculative.draft_video ? pipeline::DraftReads::kVideo : pipeline::DraftReads::kText;
  for (const std::string& path : speculative.draft_from) {
    if (path == eval::kStandardInput) {
      throw Error(ErrorCode::kUsage,
                  "--draft-from -: standard input is not read for captions to guess from; name a "
                  "file");
    }
    add_known_captions(read_draft_from(path, cancelled), drafts);
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
