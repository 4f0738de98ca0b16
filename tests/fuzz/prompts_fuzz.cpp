// Any bytes as a file of prompts, of examples and of paths: an Error(kUsage), or entries as their
// readers promise them. Input: the file.
#include <fcntl.h>
#include <unistd.h>

#include <set>

#include "base/file_descriptor.h"
#include "config/examples.h"
#include "pipeline/find_videos.h"
#include "pipeline/list_entry.h"
#include "pipeline/prompts.h"
#include "tests/fuzz/files.h"

namespace caption {
namespace {

void read_prompts(const std::filesystem::path& path) {
  std::set<std::string> names;
  for (const pipeline::Prompt& prompt : pipeline::read_prompts(path)) {
    fuzz::require(!prompt.text.empty() && names.insert(prompt.name).second,
                  "prompts have a text and a name of their own");
  }
}

void read_examples(const std::filesystem::path& path) {
  for (const std::string& example : config::read_example_file(path)) {
    const std::string again = config::to_json(config::parse_example(example, "example"));
    fuzz::require(again == example, "a written example reads back the same");
  }
}

void read_paths(const std::filesystem::path& path, char separator) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::int64_t last = 0;
  const auto check = [&](std::string_view entry, std::int64_t number) {
    fuzz::require(!entry.empty() && number > last, "paths are not empty and in their order");
    last = number;
    if (!pipeline::is_list_entry(entry)) return;
    pipeline::parse_list_entry(entry, {"video", "adapter"}, "list", "a path is written ./{");
  };
  pipeline::read_path_list({.descriptor = file.get(), .separator = separator, .name = "list"},
                           check);
}

}  // namespace
}  // namespace caption

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  const fuzz::InputFolder folder(fuzz::as_text(bytes, size), {"list"});
  const std::filesystem::path path = folder.path() / "list";
  fuzz::expect_refusal_or_none({ErrorCode::kUsage}, [&] { read_prompts(path); });
  fuzz::expect_refusal_or_none({ErrorCode::kUsage}, [&] { read_examples(path); });
  for (const char separator : {'\n', '\0'}) {
    fuzz::expect_refusal_or_none({ErrorCode::kUsage}, [&] { read_paths(path, separator); });
  }
  return 0;
}
