// The file of --examples.
#include "config/examples.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "config/generation_defaults.h"
#include "config/preset.h"
#include "tests/support/no_descriptors.h"

namespace caption::config {
namespace {

template <class Call>
ErrorCode code_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  FAIL_CHECK("nothing was thrown");
  return ErrorCode::kInternal;
}

TEST_SUITE("config/examples") {
  TEST_CASE(
      "what is wrong with the file is one of the command line, a lack of descriptors is not") {
    const std::filesystem::path path = std::filesystem::path(CAPTION_TEST_TMP) / "examples.jsonl";
    std::ofstream(path) << R"({"prompt": "?", "caption": "강아지"})"
                        << "\n";
    CHECK(read_example_file(path).size() == 1);
    CHECK(code_of([&] { read_example_file(path.string() + ".absent"); }) == ErrorCode::kUsage);
    const test::NoDescriptors none;
    CHECK(code_of([&] { read_example_file(path); }) == ErrorCode::kOutOfMemory);
  }

  TEST_CASE("a model that cannot be looked for without a descriptor is not said to be absent") {
    Preset preset;
    preset.model.path = "org/absent";
    CHECK_FALSE(find_generation_config(preset, {}).has_value());
    const test::NoDescriptors none;
    CHECK(code_of([&] { find_generation_config(preset, {}); }) == ErrorCode::kOutOfMemory);
  }
}

}  // namespace
}  // namespace caption::config
