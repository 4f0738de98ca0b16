// The files beside the weights of a model's folder, which quantize copies.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "quantise/make_gguf.h"
#include "quantise/quantise_checkpoint.h"
#include "tests/quantise/folders.h"

namespace caption::quantise {
namespace {

namespace fs = std::filesystem;
using namespace testing;

// Returns what quantize says of a folder, before it has made anything of it.
std::string refusal_of(const fs::path& model) {
  const fs::path output = new_folder("quantise_others/output");
  try {
    quantise_checkpoint({.model = model, .output = output, .format = "int8"});
  } catch (const Error& error) {
    CHECK(error_code_name(error.code()) == error_code_name(ErrorCode::kBadModel));
    CHECK_FALSE(fs::exists(output));
    return error.what();
  }
  return "no error";
}

TEST_SUITE_BEGIN("quantise/other_files");

TEST_CASE("a file that cannot be copied is refused before weights are made") {
  const fs::path model = new_folder("quantise_others/model");
  fs::copy(demo_model(), model);
  fs::create_symlink(model / "missing", model / "notes.txt");
  CHECK(contains_text(refusal_of(model),
                      "notes.txt: is a link to a file that is not there; quantize copies what a "
                      "model's folder holds beside its weights: put the file back, or remove it"));
  fs::remove(model / "notes.txt");
  std::ofstream(model / "original.zip") << "";
  fs::resize_file(model / "original.zip", (std::uintmax_t{1} << 30) + 1);
  CHECK(contains_text(refusal_of(model),
                      "original.zip: has 1.07 GB, and quantize copies files "
                      "beside the weights of at most 1.07 GB; move it out"));
  fs::resize_file(model / "original.zip", 3);
  CHECK(refusal_of(model) == "no error");
  const fs::path copied = fs::path(CAPTION_TEST_TMP) / "quantise_others/output/original.zip";
  CHECK(read_whole_file(copied) == std::string(3, '\0'));
}

TEST_CASE("a manifest in the model's folder is not that of what is made of it") {
  const fs::path model = new_folder("quantise_others/model");
  fs::copy(demo_model(), model);
  std::ofstream(model / kManifestName) << "{}";
  const fs::path output = new_folder("quantise_others/output");
  const QuantiseOutcome outcome =
      quantise_checkpoint({.model = model, .output = output, .format = "int8"});
  CHECK(outcome.is_complete);
  CHECK(outcome.edited_files.empty());
}

TEST_CASE("the model's own folder is no output") {
  const fs::path model = new_folder("quantise_others/model");
  fs::copy(demo_model(), model);
  const Files before = files_of(model);
  const fs::path link = new_folder("quantise_others/link");
  fs::create_symlink(model, link);
  for (const fs::path& output : {model, link, model / "."}) {
    CHECK_THROWS_WITH_AS(
        quantise_checkpoint({.model = model, .output = output, .format = "int8"}),
        doctest::Contains("is the model's own folder, whose files stay as they are; give another"),
        Error);
    CHECK_THROWS_WITH_AS(make_gguf({.model = model, .output = output, .format = "gguf-f16"}),
                         doctest::Contains("is the model's own folder"), Error);
  }
  CHECK(files_of(model) == before);
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption::quantise
