// The program on the emulated GPU: caption-cli with the emulator's runtime and kernels in place of
// the build's own, and a driver that reports a GPU (tests/backend/fake_cuda_driver.cpp).
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/app/process.h"

namespace caption::test {
namespace {

const Environment kDriver = {{"LD_LIBRARY_PATH", CAPTION_FAKE_DRIVER_FOLDER},
                             {"CAPTION_EMULATOR_SEED", "1"}};

std::map<std::string, std::string> captions(const std::vector<std::string>& arguments) {
  const Finished finished = run_cli(arguments, "", kDriver);
  CAPTURE(finished.err);
  CHECK(finished.exit_code == 0);
  std::map<std::string, std::string> captions;
  for (const records::Record& record : parse_records(finished.out)) {
    CHECK_FALSE(record.caption.empty());
    captions[record.video] = record.caption;
  }
  return captions;
}

// The arguments that caption two samples of 3 frames on a device with weights of a format.
std::vector<std::string> run_on(const char* device, const char* format,
                                const std::vector<std::string>& options = {}) {
  std::vector<std::string> arguments = {"run",
                                        "--preset",
                                        "cpu",
                                        "--device",
                                        device,
                                        "--dtype",
                                        format,
                                        "--kv-dtype",
                                        format,
                                        "--max-new-tokens",
                                        "24",
                                        "--frames",
                                        "3",
                                        sample_video("bridge-006-h264.mp4").string(),
                                        sample_video("hanok-005-av1.mp4").string()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return arguments;
}

const std::vector<std::string> kDrawn = {
    "--limit=1",    "--temperature=4",          "--top-k=20",
    "--top-p=0.95", "--repetition-penalty=1.2", "--no-repeat-ngram-size=3"};

TEST_SUITE_BEGIN("cuda/demo");

TEST_CASE("captions in f32 are those of the CPU, token for token") {
  const auto on_cpu = captions(run_on("cpu", "f32"));
  CHECK(on_cpu.size() == 2);
  CHECK(captions(run_on("cuda", "f32")) == on_cpu);
}

TEST_CASE("captions in bf16 are those of the CPU, token for token") {
  const auto on_cpu = captions(run_on("cpu", "bf16"));
  CHECK(on_cpu.size() == 2);
  CHECK(captions(run_on("cuda", "bf16")) == on_cpu);
}

TEST_CASE("captions that are drawn, with penalties, are those of the CPU, token for token") {
  const auto on_cpu = captions(run_on("cpu", "f32", kDrawn));
  CHECK(on_cpu.size() == 1);
  CHECK(on_cpu != captions(run_on("cpu", "f32", {"--limit=1"})));
  CHECK(captions(run_on("cuda", "f32", kDrawn)) == on_cpu);
}

}  // namespace
}  // namespace caption::test
