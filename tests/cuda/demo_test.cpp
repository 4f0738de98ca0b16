// The program on the emulated GPU: caption-cli with the emulator's runtime and kernels in place of
// the build's own, and a driver that reports a GPU (tests/backend/fake_cuda_driver.cpp).
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tests/app/process.h"

namespace caption::test {
namespace {

const Environment kDriver = {{"LD_LIBRARY_PATH", CAPTION_FAKE_DRIVER_FOLDER},
                             {"CAPTION_EMULATOR_SEED", "1"}};

// Two GPUs of equal arithmetic; those of kDriver differ.
const Environment kDriverOfTwo = {{"LD_LIBRARY_PATH", CAPTION_FAKE_DRIVER_OF_TWO_FOLDER},
                                  {"CAPTION_EMULATOR_SEED", "1"}};

std::map<std::string, std::string> captions(const std::vector<std::string>& arguments,
                                            const Environment& driver = kDriver) {
  const Finished finished = run_cli(arguments, "", driver);
  CAPTURE(finished.err);
  CHECK(finished.exit_code == 0);
  std::map<std::string, std::string> captions;
  for (const records::Record& record : parse_records(finished.out)) {
    CHECK_FALSE(record.caption.empty());
    captions[record.video] = record.caption;
  }
  return captions;
}

// The arguments that caption two samples of 2 frames on a device with weights of a format.
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
                                        "6",
                                        "--frames",
                                        "2",
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

// GPU 1 of kDriver has compute capability 7.5: it holds weights of 16 bits as f16, for its
// products.
TEST_CASE("captions on a T4 in f16 are those of the CPU in f32, token for token") {
  const auto on_cpu = captions(run_on("cpu", "f32", {"--limit=1"}));
  CHECK(on_cpu.size() == 1);
  std::vector<std::string> on_t4 = run_on("cuda", "bf16", {"--limit=1", "--devices=1"});
  *std::next(std::find(on_t4.begin(), on_t4.end(), "--kv-dtype")) = "f16";
  CHECK(captions(on_t4) == on_cpu);
}

TEST_CASE("captions that are drawn, with penalties, are those of the CPU, token for token") {
  const auto on_cpu = captions(run_on("cpu", "f32", kDrawn));
  CHECK(on_cpu.size() == 1);
  CHECK(on_cpu != captions(run_on("cpu", "f32", {"--limit=1"})));
  CHECK(captions(run_on("cuda", "f32", kDrawn)) == on_cpu);
}

// The arguments that caption two samples of a frame in a few words.
std::vector<std::string> run_briefly(const char* device, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "run", "--preset",         "cpu",  "--device",         device, "--dtype",
      "f32", "--kv-dtype",       "f32",  "--max-new-tokens", "3",    "--frames",
      "1",   "--kv-cache-bytes", "2MiB", "--max-num-seqs",   "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  for (const char* const name : {"bridge-006-h264.mp4", "hanok-005-av1.mp4"}) {
    arguments.push_back(sample_video(name).string());
  }
  return arguments;
}

TEST_CASE("--devices: the captions of the CPU, in beams, whichever GPU makes them, and a plan") {
  const std::vector<std::string> beams = {"--num-beams=2", "--repetition-penalty=1.2"};
  const auto on_cpu = captions(run_briefly("cpu", beams));
  CHECK(on_cpu.size() == 2);
  const std::vector<std::string> on_all = {"--devices", "all", beams[0], beams[1]};
  const Finished all = run_cli(run_briefly("cuda", on_all), "", kDriverOfTwo);
  CAPTURE(all.err);
  CHECK(all.exit_code == 0);
  for (const records::Record& record : parse_records(all.out)) {
    CHECK(record.caption == on_cpu.at(record.video));
  }
  CHECK(all.err.find("a copy of the model on each of GPU 0 (Fake H100), GPU 1 (Fake T4); clips go "
                     "to the one that has room") != std::string::npos);
  CHECK(all.err.find("2 clips captioned in ") != std::string::npos);

  const Finished dry =
      run_cli(run_briefly("cuda", {"--devices", "all", "--dry-run"}), "", kDriverOfTwo);
  CHECK(dry.exit_code == 0);
  CHECK(dry.out.find("devices   GPU 0 (Fake H100), GPU 1 (Fake T4)") != std::string::npos);

  const Finished plan = run_cli({"plan", "--preset", "h100", "--devices", "all"}, "", kDriverOfTwo);
  CHECK(plan.err.find("bytes and speeds are of each of 2 GPUs; the speeds of the GPUs add up") !=
        std::string::npos);
}

TEST_CASE("--devices that cannot be are refused in one line") {
  struct Case {
    const char* devices;
    int exit_code;
    const char* message;
  };
  constexpr Case kCases[] = {
      {"0,1", 2, "GPU 0 (Fake H100) computes as \"cuda hopper\" and GPU 1 (Fake T4) as"},
      {"0,2", 4, "--devices 0,2: GPU 2 is not here, or cannot run the kernels; here: GPU 0"},
      {"1,1", 2, "--devices 1,1: GPU 1 is named twice; name each once"},
      {"both", 2, "--devices both: give the numbers of GPUs with commas between them (0,1), all"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.devices);
    const Finished finished = run_cli(run_briefly("cuda", {"--devices", c.devices}), "", kDriver);
    CAPTURE(finished.err);
    CHECK(finished.exit_code == c.exit_code);
    CHECK(finished.out.empty());
    CHECK(finished.err.find(c.message) != std::string::npos);
    CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
  }
  const Finished on_cpu =
      run_cli({"run", "--preset", "cpu", "--devices", "0,1", "clip.mp4"}, "", kDriver);
  CHECK(on_cpu.exit_code == 2);
  CHECK(on_cpu.err.find("--devices 0,1: the model runs on the CPU; add --device cuda, or leave "
                        "--devices out") != std::string::npos);
}

Finished bench_on_gpu(const std::vector<std::string>& more, const Environment& driver = kDriver) {
  std::vector<std::string> arguments = {"bench", "--preset", "cpu", "--device", "cuda"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_cli(arguments, "", driver);
}

void check_contains(const std::string& text, const std::vector<std::string>& parts) {
  CAPTURE(text);
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("bench measures a workload on the GPU beside the GPU's rates") {
  const Finished finished =
      bench_on_gpu({"--shape", "demo", "--requests", "1", "--prompt-tokens", "3", "--output-tokens",
                    "2", "--kv-cache-bytes", "2MiB", "--max-num-seqs", "1", "--profile"});
  CAPTURE(finished.err);
  CHECK(finished.exit_code == 0);
  check_contains(
      finished.out,
      {"GPU 0 (Fake H100)", "GPU before: ", "B/s copied", "FLOP/s bf16; after",
       "1 request of together 3 prompt tokens and 2 output tokens",
       "outputs: those of one run, compared with no other", "sample_rows", "linear_add down"});
}

TEST_CASE("bench --kernels times the steps on the GPU beside their prediction") {
  const Finished finished = bench_on_gpu(
      {"--shape", "demo", "--kernels", "--prompt-tokens", "3", "--sweep", "1", "--json", "-"});
  CAPTURE(finished.err);
  CHECK(finished.exit_code == 0);
  check_contains(finished.out, {"\"card\":\"h100\"",
                                "\"upload_bytes_per_s\":", "\"step\":\"prefill of 3 tokens\"",
                                "\"step\":\"decoding of 1 sequence of 3 tokens\"",
                                "\"ratio\":", "{\"operation\":\"paged_attention\",\"calls\":4,"});
}

TEST_CASE("what bench does not measure on a GPU is refused in one line") {
  struct Case {
    std::vector<std::string> arguments;
    int exit_code;
    const char* message;
  };
  const Case cases[] = {
      {{"--shape", "clip-l-336", "--kernels"}, 2, "times the steps of a decoder, and clip-l-336"},
      {{"--shape", "demo", "--kernels"}, 2, "prefill of 4,608 tokens: the model has 1024"},
      {{"clip.mp4", "--price", "attention"}, 2, "compressed attention, which runs on the CPU only"},
      {{"--shape", "demo", "--devices", "7"}, 4, "--devices 7: GPU 7 is not here"},
  };
  for (const Case& c : cases) {
    const Finished finished = bench_on_gpu(c.arguments);
    CAPTURE(finished.err);
    CHECK(finished.exit_code == c.exit_code);
    CHECK(finished.out.empty());
    CHECK(finished.err.find(c.message) != std::string::npos);
  }
  const Finished all = bench_on_gpu({"--shape", "demo", "--devices", "all"}, kDriverOfTwo);
  CHECK(all.exit_code == 2);
  CHECK(all.err.find("one GPU is measured at a time, and --devices chooses 2") !=
        std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption::test
