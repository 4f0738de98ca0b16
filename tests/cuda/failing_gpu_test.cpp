// What the program says when its GPU fails: an exit code, one sentence, and nothing lost that was
// done.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

Environment driver_and(const char* variable, const std::string& value) {
  return {{"LD_LIBRARY_PATH", CAPTION_FAKE_DRIVER_FOLDER},
          {"CAPTION_EMULATOR_SEED", "1"},
          {variable, value}};
}

// The arguments that caption two samples one after another.
std::vector<std::string> run_both(const std::filesystem::path& output) {
  return {"run",
          "--preset",
          "cpu",
          "--device",
          "cuda",
          "--dtype",
          "bf16",
          "--kv-dtype",
          "bf16",
          "--max-new-tokens",
          "3",
          "--frames",
          "1",
          "--kv-cache-bytes",
          "2MiB",
          "--max-num-seqs",
          "1",
          "--output",
          output.string(),
          sample_video("bridge-006-h264.mp4").string(),
          sample_video("hanok-005-av1.mp4").string()};
}

TEST_SUITE_BEGIN("cuda/failing_gpu");

TEST_CASE(
    "a GPU that is lost after a clip: exit code 4, its record stays, the rest is made later") {
  const TemporaryFolder folder;
  const std::filesystem::path output = folder.path() / "captions.jsonl";
  const Finished lost =
      run_cli(run_both(output), "", driver_and("CAPTION_EMULATOR_LOSES_AFTER", output.string()));
  CAPTURE(lost.err);
  CHECK(lost.exit_code == 4);
  CHECK(lost.err.find("error: caption-cli: cuda: the GPU is lost (emulated)\n") !=
        std::string::npos);
  const std::string kept = read_text(output);
  const std::vector<records::Record> done = parse_records(kept);
  REQUIRE(done.size() == 1);
  CHECK_FALSE(done[0].caption.empty());

  const Finished continued =
      run_cli(run_both(output), "", driver_and("CAPTION_EMULATOR_LOSES", ""));
  CAPTURE(continued.err);
  CHECK(continued.exit_code == 0);
  const std::string whole = read_text(output);
  CHECK(whole.starts_with(kept));
  const std::vector<records::Record> all = parse_records(whole);
  REQUIRE(all.size() == 2);
  CHECK_FALSE(all[1].caption.empty());
  CHECK(all[1].video != all[0].video);
}

// While weights are placed, and when the engine takes its memory.
TEST_CASE("with CUDA kernels and without a driver the CPU is taken, and one sentence says why") {
  const TemporaryFolder folder;  // what cannot be loaded hides this machine's driver
  write_text(folder.path() / "libcuda.so.1", "no library");
  const Environment nothing = {{"LD_LIBRARY_PATH", folder.path().string()}};
  const std::string why = "no CUDA: there is no NVIDIA driver, or one that is too old (";
  const std::vector<std::string> clip = {"--frames", "1", "--max-new-tokens", "1",
                                         sample_video("bridge-006-h264.mp4").string()};
  const auto run_with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), clip.begin(), clip.end());
    return run_cli(arguments, "", nothing);
  };
  const Finished on_cpu = run_with({"run"});
  CAPTURE(on_cpu.err);
  CHECK(on_cpu.exit_code == 0);
  CHECK(on_cpu.err.find("config: preset cpu chosen for this machine: " + why) != std::string::npos);
  const Finished refused = run_with({"run", "--preset", "cpu", "--device", "cuda"});
  CAPTURE(refused.err);
  CHECK(refused.exit_code == 4);
  CHECK(refused.out.empty());
  CHECK(refused.err.starts_with("error: caption-cli: --device cuda: " + why));
  CHECK(refused.err.ends_with("; --device cpu runs here\n"));
  const Finished doctor = run_cli({"doctor"}, "", nothing);
  CAPTURE(doctor.out);
  CHECK(doctor.out.find("does not run here: " + why) != std::string::npos);
}

TEST_CASE("a GPU that is lost while the model is opened: exit code 4, one line") {
  const TemporaryFolder folder;
  const std::filesystem::path output = folder.path() / "captions.jsonl";
  for (const char* const call : {"0:0", "0:1", "0:100", "0:170"}) {
    CAPTURE(call);
    const Finished lost = run_cli(run_both(output), "", driver_and("CAPTION_EMULATOR_LOSES", call));
    CAPTURE(lost.err);
    CHECK(lost.exit_code == 4);
    CHECK(lost.err.ends_with("cuda: the GPU is lost (emulated)\n"));
    CHECK(std::count(lost.err.begin(), lost.err.end(), '\n') == 1);
    CHECK(parse_records(std::filesystem::exists(output) ? read_text(output) : "").empty());
  }
}

TEST_CASE("a GPU whose memory ends: exit code 4, one line with the numbers and what to lower") {
  const TemporaryFolder folder;
  const std::filesystem::path output = folder.path() / "captions.jsonl";
  for (const char* const allocation : {"0:0", "0:1", "0:30", "0:66"}) {
    CAPTURE(allocation);
    const Finished refused =
        run_cli(run_both(output), "", driver_and("CAPTION_EMULATOR_REFUSES", allocation));
    CAPTURE(refused.err);
    CHECK(refused.exit_code == 4);
    CHECK(refused.err.find("buffer: the GPU has no ") != std::string::npos);
    CHECK(refused.err.find(" of 8.59 GB free); lower memory_utilization, the batch or the KV "
                           "cache, or use a smaller model\n") != std::string::npos);
    CHECK(std::count(refused.err.begin(), refused.err.end(), '\n') == 1);
    CHECK(parse_records(std::filesystem::exists(output) ? read_text(output) : "").empty());
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption::test
