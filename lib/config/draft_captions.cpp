#include "config/draft_captions.h"

#include <utility>

#include "base/error.h"
#include "config/choices.h"
#include "eval/corpus.h"

namespace caption::config {
namespace {

void append(std::vector<std::string>& captions, eval::Captions records) {
  for (eval::CaptionEntry& entry : records.entries) {
    if (!entry.is_failed && !entry.caption.empty()) captions.push_back(std::move(entry.caption));
  }
}

// References have no status and may be several of a clip, so that most of them are no records.
void append_file(std::vector<std::string>& captions, const std::string& path) {
  eval::Problems problems;
  eval::Captions records = eval::read_captions(path, problems);
  if (problems.count() == 0) return append(captions, std::move(records));
  for (eval::ReferenceEntry& entry : eval::read_references(path).entries) {
    for (std::string& caption : entry.captions) captions.push_back(std::move(caption));
    for (auto& [prompt, texts] : entry.of_prompts) {
      for (std::string& caption : texts) captions.push_back(std::move(caption));
    }
  }
}

}  // namespace

pipeline::DraftOptions draft_options(const Preset& preset) {
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
  for (const std::string& path : speculative.draft_from) {
    append_file(drafts.known_captions, path);
  }
  return drafts;
}

std::vector<std::string> earlier_captions(const std::filesystem::path& output) {
  std::vector<std::string> captions;
  eval::Problems ignored;
  try {
    append(captions, eval::read_captions(output, ignored));
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
  }
  return captions;
}

}  // namespace caption::config
