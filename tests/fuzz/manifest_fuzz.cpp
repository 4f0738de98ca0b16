// Any bytes as a manifest: an Error(kOutputConflict), or settings that are written and read again
// as the same. Input: the file.
#include "records/manifest.h"
#include "tests/fuzz/files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  const fuzz::InputFolder folder(fuzz::as_text(bytes, size), {"manifest.json"});
  fuzz::expect_refusal_or_none({ErrorCode::kOutputConflict}, [&] {
    const auto manifest = records::read_manifest(folder.path() / "manifest.json");
    fuzz::require(manifest.has_value(), "there is a file");
    records::write_manifest(folder.path() / "written.json", *manifest);
    const auto again = records::read_manifest(folder.path() / "written.json");
    fuzz::require(again == manifest, "a written manifest reads back the same");
    fuzz::require(records::settings_key(*again) == records::settings_key(*manifest),
                  "equal settings have one key");
  });
  return 0;
}
