// Any bytes as a file of captions or references, of which drafts are guessed, too, and as a label
// file: entries, or problems that name the file. Input: the file.
#include <string>

#include "eval/corpus.h"
#include "tests/fuzz/files.h"

namespace caption::eval {
namespace {

void check_problems(const Problems& problems) {
  fuzz::require(problems.count() >= std::ssize(problems.shown()), "shown problems are counted");
  for (const std::string& message : problems.shown()) {
    fuzz::require(is_valid_utf8(message), "messages are valid UTF-8");
    fuzz::require(message.find('\n') == std::string::npos, "messages are one line");
    fuzz::require(message.find("label.json") != std::string::npos, "a problem names its file");
  }
}

void read(const std::filesystem::path& folder) {
  Problems of_captions;
  const Captions captions = read_captions(folder / "label.json", of_captions);
  check_problems(of_captions);
  fuzz::require(!captions.entries.empty() || of_captions.count() > 0, "no caption is a problem");
  for (const CaptionEntry& entry : captions.entries) {
    fuzz::require(is_valid_utf8(entry.caption), "captions are valid UTF-8");
  }
  Problems of_references;
  const References references =
      read_references(folder / "label.json", "annotation.description_kr", of_references);
  check_problems(of_references);
  for (const ReferenceEntry& entry : references.entries) {
    fuzz::require(!entry.captions.empty() || !entry.of_prompts.empty(), "an entry has references");
  }
  Problems of_labels;
  read_references(folder, "annotation.description_kr", of_labels);
  check_problems(of_labels);
}

}  // namespace
}  // namespace caption::eval

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  const fuzz::InputFolder folder(fuzz::as_text(bytes, size), {"label.json"});
  eval::read(folder.path());
  return 0;
}
