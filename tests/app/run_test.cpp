// Tests typical uses with good inputs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> captions_of(const std::string& text) {
  std::map<std::string, std::string> captions;
  for (const records::Record& record : parse_records(text)) {
    CHECK(captions.emplace(record.video, record.caption).second);
  }
  return captions;
}

TEST_SUITE("app/run") {
  TEST_CASE("captions do not depend on the batch, its mode or the number of threads") {
    const std::string videos = small_video("").string();
    const Finished whole = run_cli({"run", videos});
    CHECK(whole.exit_code == 0);
    const auto captions = captions_of(whole.out);
    CHECK(captions.size() == sample_videos().size());
    for (const auto& [video, caption] : captions) CHECK(caption != "");
    const std::vector<std::vector<std::string>> variants = {
        {"--max-num-seqs", "1"},
        {"--batching", "static", "--max-num-seqs", "5"},
        {"--threads", "4", "--max-num-batched-tokens", "64"},
        {"--chunked-prefill", "off", "--threads", "1"},
    };
    for (std::vector<std::string> arguments : variants) {
      CAPTURE(arguments[0]);
      arguments.insert(arguments.begin(), {"run", videos, "-q"});
      const Finished finished = run_cli(arguments);
      CHECK(finished.err == "");
      CHECK(captions_of(finished.out) == captions);
    }
  }

  TEST_CASE("captions in f32 do not depend on the CPU's instruction sets") {
    const std::string videos = small_video("").string();
    const auto captions = captions_of(run_cli({"run", videos, "-q", "--dtype", "f32"}).out);
    CHECK(captions.size() == sample_videos().size());
    const Finished plain =
        run_cli({"run", videos, "-q", "--dtype", "f32", "--cpu-tier", "reference"});
    CHECK(captions_of(plain.out) == captions);
    const Finished unknown = run_cli({"run", videos, "--cpu-tier", "sse9"});
    CHECK(unknown.exit_code == 2);
    CHECK(unknown.err.find("one of reference, avx2") != std::string::npos);
  }

  TEST_CASE("fp8 is refused on a CPU, in one sentence that names another format") {
    const std::string refusal =
        "--dtype fp8 needs a GPU of compute capability 8.9 or later (Ada, Hopper); on the CPU use "
        "--dtype w8a8";
    const std::string video = sample_videos().front().string();
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"run", video, "-q"},
          {"run", video, "-q", "--dry-run"},
          {"bench", "--shape", "qwen3-0.6b", "--sweep", "1"},
          {"bench", "--kernels"},
          {"bench", "--shape", "qwen3-0.6b", "--kernels", "--predict", "l4"},
          {"bench", "--shape", "qwen3-0.6b", "--kernels", "--predict", "a100"},
          {"plan", "--bandwidth", "100", "--flops", "1000"},
          {"plan", "--preset", "l4"},
          {"plan", "--card", "t4"},
          {"plan", "--preset", "t4"}}) {
      CAPTURE(command.front());
      CAPTURE(command.back());
      std::vector<std::string> asked = command;
      asked.insert(asked.end(), {"--dtype", "fp8"});
      const Finished finished = run_cli(asked);
      const std::string said = finished.out + finished.err;
      const bool is_plan = command.front() == "plan";
      if (command.back() == "l4") {
        CHECK(said.find("--dtype fp8 needs") == std::string::npos);
        CHECK(said.find("fp8") != std::string::npos);
        CHECK(finished.exit_code == (is_plan ? 4 : 0));  // no CUDA kernels here
        continue;
      }
      CHECK(finished.exit_code == 4);
      const std::string needed = "fp8 needs a GPU of compute capability";
      CHECK(said.find(needed) == said.rfind(needed));
      if (command.back() == "a100" || command.back() == "t4") {
        CHECK(said.find(command.back() == "t4"
                            ? "a GPU of 7.5 use --dtype w8a8"
                            : "a GPU of 8.0 use --dtype w8a8") != std::string::npos);
      } else {
        CHECK(said.find(refusal) != std::string::npos);
        CHECK(said.find(refusal) == said.rfind(refusal));
      }
    }
  }

  TEST_CASE("with quantised weights, too, a caption is what it is alone") {
    const std::string videos = small_video("").string();
    for (const char* dtype : {"int8", "int4", "nf4", "w8a8", "w4a8", "int4-head4", "w4a8-head4"}) {
      CAPTURE(dtype);
      const std::vector<std::string> command = {"run", videos,     "-q", "--dtype",
                                                dtype, "--frames", "2"};
      const auto together = captions_of(run_cli(command).out);
      CHECK(together.size() == sample_videos().size());
      std::vector<std::string> by_itself = command;
      by_itself.insert(by_itself.end(), {"--max-num-seqs", "1", "--max-num-batched-tokens", "37",
                                         "--prefix-cache", "false"});
      const Finished alone = run_cli(by_itself);
      CHECK(captions_of(alone.out) == together);
    }
  }

  TEST_CASE("paths come from standard input, by line or by NUL, and double ones count once") {
    const std::string a = sample_video("city-000-h264.mp4").string();
    const std::string b = sample_video("bridge-006-h264.mp4").string();
    const Finished lines = run_cli({"run", "-"}, a + "\n" + b + "\n" + a + "\n");
    CHECK(lines.exit_code == 0);
    CHECK(parse_records(lines.out).size() == 2);
    CHECK(lines.err.find("already in the list") != std::string::npos);
    const Finished nulls = run_cli({"run", "-0", "-"}, a + '\0' + b + '\0');
    CHECK(parse_records(nulls.out).size() == 2);
  }

  TEST_CASE("a seed makes sampling repeat, another seed makes another caption") {
    const auto sampled = [](const std::string& seed) {
      return run_cli({"run", small_video("").string(), "-q", "--frames", "2", "--temperature",
                      "1.5", "--seed", seed});
    };
    const auto first = captions_of(sampled("1").out);
    CHECK(first == captions_of(sampled("1").out));
    CHECK(first != captions_of(sampled("2").out));
  }

  TEST_CASE("frames, prompt and length reach the model") {
    const std::string video = sample_video("city-000-h264.mp4").string();
    const auto record = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.begin(), {"run", video});
      return parse_records(run_cli(arguments).out).at(0);
    };
    CHECK(record({"--frames", "3"}).frames_used == 3);
    CHECK(record({"--frames", "3"}).vision_tokens == 3 * 16);
    const records::Record cut = record({"--max-new-tokens", "5"});
    CHECK(cut.status == records::Status::kTruncated);
    CHECK(cut.output_tokens == 5);
    CHECK(record({"--prompt", "짧게"}).prompt_tokens < record({}).prompt_tokens);
  }

  TEST_CASE("an empty value after = is empty, and no clip is taken for it") {
    const std::string video = sample_video("city-000-h264.mp4").string();
    const Finished finished = run_cli({"run", "--frames", "2", "--system=", video});
    CHECK(finished.exit_code == 0);
    const auto records = parse_records(finished.out);
    REQUIRE(records.size() == 1);
    CHECK(records.front().caption ==
          parse_records(run_cli({"run", "--frames", "2", video}).out).at(0).caption);
    CHECK(run_cli({"run", "--frames", "2", "--prompt=", video}).exit_code == 2);
    CHECK(run_cli({"run", "--frames=", "2", video}).exit_code == 2);
    CHECK(run_cli({"run", "--dtype=", "bf16", video}).exit_code == 2);
  }

  TEST_CASE("the summary of every output says how many captions are in doubt") {
    const TemporaryFolder folder;
    const ClipSpec spec = {.solid_yuv = {{16, 128, 128}}};
    if (const std::string why = why_not_available(spec); !why.empty()) {
      MESSAGE(why);
      return;
    }
    const std::string black = (folder.path() / "black.mp4").string();
    make_clip(black, spec);
    const std::string video = sample_video("city-000-h264.mp4").string();
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::vector<std::vector<std::string>> outputs = {
        {}, {"--format", "txt"}, {"--format", "csv"}, {"-o", out}};
    for (const std::vector<std::string>& output : outputs) {
      std::vector<std::string> command = {"run", black, video, "--max-new-tokens", "5"};
      command.insert(command.end(), output.begin(), output.end());
      CAPTURE(output);
      const std::string err = run_cli(command).err;
      CHECK(err.find("warning: run: 1 caption is suspicious: its record says why\n") !=
            std::string::npos);
      CHECK(err.find("run: 1 caption is truncated: --max-new-tokens allows longer ones\n") !=
            std::string::npos);
    }
    CHECK(run_cli({"run", video}).err.find("caption is") == std::string::npos);
  }

  TEST_CASE("txt and csv are for readers and tables") {
    const std::string video = sample_video("city-000-h264.mp4").string();
    CHECK(run_cli({"run", video, "--format", "txt"}).out.starts_with(video + ": "));
    CHECK(
        run_cli({"run", video, "--format", "csv"}).out.starts_with("video,prompt,window_begin_s"));
    const TemporaryFolder folder;
    const std::string table = (folder.path() / "c.csv").string();
    CHECK(run_cli({"run", video, "-o", table}).exit_code == 0);
    CHECK(read_text(table).starts_with("\xEF\xBB\xBFvideo,prompt,window_begin_s"));
  }

  TEST_CASE("a reader who leaves ends the run quietly") {
    const std::string command = std::string(CAPTION_BINARY) + " run -q " +
                                small_video("").string() + " 2>&1 >/dev/full | head -c 0; " +
                                CAPTION_BINARY + " run -q " + small_video("").string() +
                                " | head -n 1 >/dev/null";
    CHECK(std::system(command.c_str()) == 0);
    const TemporaryFolder folder;
    const std::string quiet = std::string(CAPTION_BINARY) + " run -q " + small_video("").string() +
                              " 2>" + (folder.path() / "err").string() + " | true";
    CHECK(std::system(quiet.c_str()) == 0);
    CHECK(read_text(folder.path() / "err") == "");
    const Finished told = run_cli_in({.nobody_reads_out = true}, {"run", small_video("").string()});
    CHECK(told.exit_code == 141);
    CHECK(told.err.find("run: nobody reads standard output any more; 0 of ") != std::string::npos);
  }

  TEST_CASE("help, version, presets and inspect are there at once") {
    CHECK(run_cli({"--help"}).out.find("run") != std::string::npos);
    CHECK(run_cli({"run", "--help"}).out.find("--temperature") != std::string::npos);
    CHECK(run_cli({"--version"}).out.starts_with("caption-cli "));
    CHECK(run_cli({"presets"}).out.find("h100") != std::string::npos);
    CHECK(run_cli({"presets", "--show", "cpu"}).out.find("max_num_seqs: 16") != std::string::npos);
    CHECK(run_cli({"inspect", "--machine"}).out.find("cpu") != std::string::npos);
    const Finished model =
        run_cli({"inspect", (fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model").string()});
    CHECK(model.exit_code == 0);
    CHECK(model.out.find("llava_next_video") != std::string::npos);
  }

  TEST_CASE("a shown preset is a preset") {
    const TemporaryFolder folder;
    const std::string file = (folder.path() / "mine.yaml").string();
    write_text(file, run_cli({"presets", "--show", "cpu"}).out);
    const std::string video = sample_video("city-000-h264.mp4").string();
    CHECK(captions_of(run_cli({"run", video, "--preset", file}).out) ==
          captions_of(run_cli({"run", video}).out));
  }

  TEST_CASE("inspect shows the frames the model gets") {
    const TemporaryFolder folder;
    const fs::path clip = folder.path() / "clip.mp4";
    const ClipSpec spec;
    if (const std::string why = why_not_available(spec); !why.empty()) {
      MESSAGE(why);
      return;
    }
    make_clip(clip, spec);
    const Finished finished =
        run_cli({"inspect", clip.string(), "--frames", "4", "--dump-frames",
                 (folder.path() / "frames").string(), "-o", (folder.path() / "s.png").string()});
    CHECK(finished.exit_code == 0);
    CHECK(finished.out.find("frame 45 at") != std::string::npos);
    CHECK(read_text(folder.path() / "frames/frame_003.ppm").starts_with("P6\n128 96\n255\n"));
    CHECK(fs::file_size(folder.path() / "frames/frame_003.ppm") == 14 + 128 * 96 * 3);
    CHECK(read_text(folder.path() / "s.png").starts_with("\x89PNG"));
    // The folder holds the frames of the last film alone, and what is no frame stays.
    std::ofstream(folder.path() / "frames/notes.txt") << "mine";
    const Finished fewer =
        run_cli({"inspect", clip.string(), "--frames", "2", "--dump-frames",
                 (folder.path() / "frames").string(), "-o", (folder.path() / "s.png").string()});
    CHECK(fewer.exit_code == 0);
    CHECK(fs::exists(folder.path() / "frames/frame_001.ppm"));
    CHECK_FALSE(fs::exists(folder.path() / "frames/frame_002.ppm"));
    CHECK_FALSE(fs::exists(folder.path() / "frames/frame_003.ppm"));
    CHECK(fs::exists(folder.path() / "frames/notes.txt"));
    const Finished on_file = run_cli({"inspect", clip.string(), "--dump-frames", clip.string(),
                                      "-o", (folder.path() / "other.png").string()});
    CHECK(on_file.exit_code == 2);
    CHECK(on_file.err == "error: caption-cli: inspect: --dump-frames " + clip.string() +
                             ": is no folder; name one, which may be new\n");
    CHECK_FALSE(fs::exists(folder.path() / "other.png"));
  }
}

}  // namespace
}  // namespace caption::test
