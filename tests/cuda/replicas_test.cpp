// The demonstration model on two emulated GPUs, one of which is lost in the middle.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/caption_model.h"
#include "pipeline/pipeline.h"
#include "records/record_file.h"
#include "tests/support/cuda/emulated_runtime.h"

namespace caption {
namespace {

namespace fs = std::filesystem;

constexpr int kClips = 2;  // each takes seconds
constexpr std::int64_t kPageBytes = 2 << 20;

std::unique_ptr<model::CaptionModel> open_on(int ordinal) {
  return model::open_model({.device = Device::cuda(ordinal), .num_threads = 1},
                           fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model",
                           weights::WeightFormat::kF32);
}

// The first clips of the samples, by name.
pipeline::InputList some_clips(int num_clips = kClips) {
  std::vector<std::string> paths;
  for (const auto& entry :
       fs::directory_iterator(fs::path(CAPTION_SOURCE_DIR) / "samples/videos")) {
    if (entry.path().extension() == ".mp4") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  REQUIRE(paths.size() >= kClips);
  pipeline::InputList list;
  for (int i = 0; i < num_clips; ++i)
    list.add(paths[static_cast<std::size_t>(i)], pipeline::Origin::kNamed);
  return list;
}

pipeline::Options short_captions() {
  pipeline::Options options;
  options.threads = {.decode = 1, .vision = 1, .engine = 1};
  options.read.sampling.num_frames = 1;
  options.engine = {.max_num_seqs = 2, .max_num_batched_tokens = 64};
  options.sampling.temperature = 0;
  options.sampling.max_new_tokens = 3;
  return options;
}

// The models on GPU 0 and GPU 1; opened once.
const std::vector<pipeline::Replica>& two_gpus() {
  static const std::vector<std::unique_ptr<model::CaptionModel>> models = [] {
    std::vector<std::unique_ptr<model::CaptionModel>> opened;
    opened.push_back(open_on(0));
    opened.push_back(open_on(1));
    return opened;
  }();
  static const std::vector<pipeline::Replica> replicas = {
      {.model = models[0].get(), .kv_cache_bytes = kPageBytes, .name = "GPU 0"},
      {.model = models[1].get(), .kv_cache_bytes = kPageBytes, .name = "GPU 1"}};
  return replicas;
}

// Runs that append to one file, so that a later one resumes an earlier one.
class Output {
 public:
  Output() : path_(fs::path(CAPTION_TEST_TMP) / "replicas.jsonl") {
    fs::remove(path_);
    fs::remove(records::manifest_path(path_));
  }

  pipeline::Outcome run(std::span<const pipeline::Replica> replicas, int num_clips = kClips) const {
    records::RecordFile file(path_, records::Format::kJsonl, {.settings = {{"model", "demo"}}},
                             records::Existing::kResume);
    return pipeline::run(replicas, some_clips(num_clips), short_captions(), file);
  }
  // Keyed by video; checks that there is one record of each, with a caption.
  std::map<std::string, std::string> captions() const {
    std::map<std::string, std::string> captions;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      const records::Record record = records::parse_json_line(line);
      CAPTURE(record.video);
      CHECK_FALSE(record.error.has_value());
      CHECK_FALSE(record.caption.empty());
      CHECK(captions.emplace(record.video, record.caption).second);
    }
    return captions;
  }

 private:
  fs::path path_;
};

// The captions of one GPU, and the calls of the runtime that they take, and that the stages take
// which find no clip.
struct Undisturbed {
  Undisturbed() {
    two_gpus();  // opens the models, whose calls do not count
    cuda_emulator::lose_device_at(-1, 1);
    Output().run(std::span(two_gpus()).last(1), 0);
    num_idle_calls = cuda_emulator::count_calls(1);
    const Output output;
    cuda_emulator::lose_device_at(-1, 1);
    output.run(std::span(two_gpus()).last(1));
    num_calls = cuda_emulator::count_calls(1);
    captions = output.captions();
  }

  std::map<std::string, std::string> captions;
  std::int64_t num_calls = 0;
  std::int64_t num_idle_calls = 0;
};

const Undisturbed& undisturbed() {
  static const Undisturbed run;
  return run;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/replicas");

TEST_CASE("two GPUs give the captions of one") {
  REQUIRE(undisturbed().captions.size() == kClips);
  const Output output;
  const pipeline::Outcome outcome = output.run(two_gpus());
  CHECK(outcome.progress.clips_captioned == kClips);
  CHECK(output.captions() == undisturbed().captions);
}

TEST_CASE("when one of two GPUs is lost, every clip has its caption, and only once") {
  const std::int64_t num_idle_calls = undisturbed().num_idle_calls;  // before another Output
  const std::int64_t num_calls = undisturbed().num_calls;
  MESSAGE("calls without clips: " << num_idle_calls << ", with " << kClips << ": " << num_calls);
  REQUIRE(num_calls > num_idle_calls);
  {
    const Output output;
    cuda_emulator::lose_device_at(num_idle_calls + (num_calls - num_idle_calls) / 4, 1);
    CHECK(output.run(two_gpus()).ending == pipeline::Ending::kFinished);
    CHECK(output.captions() == undisturbed().captions);
  }
  // A device that is lost before its stages exist ends the run.
  const Output output;
  cuda_emulator::lose_device_at(0, 1);
  CHECK_THROWS_AS(output.run(two_gpus()), Error);
  CHECK(output.captions().empty());
  cuda_emulator::lose_device_at(-1, 1);
}

TEST_SUITE_END();

}  // namespace caption
