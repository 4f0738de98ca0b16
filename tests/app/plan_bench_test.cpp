// Tests the commands `plan` and `bench`. No times are asserted.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "tests/app/process.h"
#include "tests/support/drawn_checkpoint.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

JsonObject parse(const std::string& text) {
  return JsonObject::parse(text, "stdout", ErrorCode::kInternal);
}

TEST_SUITE("app/plan") {
  TEST_CASE("every preset is planned on any machine, with no model's files") {
    for (const char* preset : {"cpu", "t4", "l4", "a100", "h100"}) {
      CAPTURE(preset);
      // In an environment where no model was downloaded.
      const Finished finished = run_cli(
          {"plan", "--preset", preset, "--json", "--bandwidth", "100", "--flops", "1000"}, "",
          {{"HF_HOME", "/nowhere"}, {"HF_HUB_CACHE", "/nowhere"}, {"HOME", "/nowhere"}});
      const JsonObject json = parse(finished.out);
      CHECK(json.get_bool("fits", false));
      const bool is_cpu = std::string(preset) == "cpu";
      CHECK(json.get_bool("can_run", !is_cpu) == is_cpu);
      CHECK(json.get_strings("obstacles").empty() == is_cpu);
      CHECK(finished.exit_code == (is_cpu ? 0 : 4));
      // A preset's settings fit its own plan: pages for all sequences, prompts within one step.
      CHECK(json.get_strings("warnings").empty());
      CHECK(json.require_int("concurrent_videos", 1, 4096) >=
            json.require_int("max_num_seqs", 1, 4096));
      CHECK(json.require_int("num_pages", 1, 1LL << 40) > 0);
      CHECK(json.get_object("decode")->get_double("tokens_per_s", 0) > 0);
      CHECK(json.get_object("rates")->get_string("source", "") == "as given");
    }
  }

  TEST_CASE("what cannot run at all says why and how, and exits with 4") {
    const Finished finished =
        run_cli({"plan", "--card", "t4", "--model", "qwen3-8b", "--dtype", "bf16"});
    CHECK(finished.exit_code == 4);
    CHECK(finished.out.find("weights alone take 16.4 GB") != std::string::npos);
    CHECK(finished.out.find("would take") != std::string::npos);
  }

  TEST_CASE("each card that is predicted can be planned for, with memory and rates of its own") {
    const auto plan_for = [](const char* card) {
      const Finished finished = run_cli({"plan", "--preset", "h100", "--card", card, "--json"});
      CHECK(finished.exit_code == 4);  // no GPU is here
      return parse(finished.out);
    };
    const JsonObject h100 = plan_for("h100");
    const JsonObject h200 = plan_for("H200");
    CHECK(h200.get_string("device", "") == "NVIDIA H200 SXM (141 GB)");
    CHECK(h200.require_int("num_pages", 1, 1LL << 40) >
          h100.require_int("num_pages", 1, 1LL << 40));
    CHECK(h200.get_object("decode")->get_double("tokens_per_s", 0) >
          h100.get_object("decode")->get_double("tokens_per_s", 0));
    CHECK(run_cli({"plan", "--card", "h300"}).err.find("there are t4, l4, a100, h100, h200") !=
          std::string::npos);
  }

  TEST_CASE("plan says that run would start exactly where it does, and else how it would end") {
    const TemporaryFolder folder;
    const std::string preset = (folder.path() / "absent.yaml").string();
    write_text(preset, "device: {type: cpu}\nmodel: llava-hf/LLaVA-NeXT-Video-7B-hf\n");
    const std::string text_only = (folder.path() / "text").string();
    std::filesystem::create_directory(text_only);
    write_text(text_only + "/config.json", R"({"model_type": "qwen3", "hidden_size": 64})");
    const std::vector<std::vector<std::string>> kCases = {
        {},
        {"--dtype", "w8a8"},
        {"--dtype", "awq"},
        {"--dtype", "f16"},
        {"--dtype", "auto"},
        {"--dtype", "auto", "--kv-cache-bytes", "100"},
        {"--device", "cuda", "--dtype", "bf16"},
        {"--num-beams", "32"},
        {"--prefix-cache", "false", "--kv-cache-dir", (folder.path() / "kv").string()},
        {"--preset", preset},
        {"--model", text_only},
        {"--model", "no/such/folder"},
        {"--model", folder.path().string()},
        {"--adapter", "no/such/folder"},
        {"--kv-cache-bytes", "100"},
        {"--kv-cache-bytes", "543KiB"},
        {"--kv-cache-bytes", "544KiB"},  // 17 pages for the 268 tokens that need a slot
        {"--kv-cache-bytes", "600K", "--prompt", "이 영상을 한 문장으로 요약해 주세요."},
        {"--sampling", "fps=0.1", "--kv-cache-bytes", "400K"},  // two frames for a clip of 10 s
        {"--sampling", "fps=0.1", "--kv-cache-bytes", "64K"},
        {"--max-new-tokens", "884"},
        {"--max-new-tokens", "885"},
        {"--num-beams", "4", "--temperature", "0.5"},
        {"--min-new-tokens", "200"},
        {"--kv-cache-dir", preset},
        {"--drafts", "archive", "--draft-from", "no/such/file.jsonl"},
        {"--drafts", "archive", "--draft-from", preset},
        {"--drafts", "model", "--draft-model", "no/such/folder"},
    };
    const std::string video = sample_video("city-000-h264.mp4").string();
    const Environment nowhere = {
        {"HF_HOME", "/nowhere"}, {"HF_HUB_CACHE", "/nowhere"}, {"HOME", "/nowhere"}};
    for (const std::vector<std::string>& flags : kCases) {
      CAPTURE(flags);
      std::vector<std::string> plan = {"plan", "--json", "--bandwidth", "100", "--flops", "1000"};
      std::vector<std::string> run = {"run", "-q", video};
      plan.insert(plan.end(), flags.begin(), flags.end());
      run.insert(run.end(), flags.begin(), flags.end());
      const int exit_code = run_cli(run, "", nowhere).exit_code;
      const bool runs = exit_code == 0;
      const Finished planned = run_cli(plan, "", nowhere);
      CHECK(planned.exit_code == exit_code);
      const bool can_run = planned.out.find("\"can_run\":true") != std::string::npos;
      CHECK(can_run == runs);
    }
  }

  TEST_CASE("adapters count where they are computed beside the weights") {
    const std::filesystem::path golden = std::filesystem::path(CAPTION_SOURCE_DIR) / "tests/golden";
    const testing::DrawnCheckpoint adapter(golden / "lora/llama_head");
    const auto bytes_of = [&](const std::string& adapter_text, const char* dtype) {
      const Finished planned = run_cli({"plan", "--json", "--bandwidth", "100", "--flops", "1000",
                                        "--model", (golden / "model/llama_bf16").string(),
                                        "--adapter", adapter_text, "--dtype", dtype});
      CAPTURE(planned.err);
      return parse(planned.out).get_object("bytes")->require_int("adapters", 0, 1 << 30);
    };
    const std::string folder = adapter.path().string();
    CHECK(bytes_of(folder, "bf16") == 0);
    CHECK(bytes_of(folder, "nf4") > 0);
    CHECK(bytes_of("a=" + folder, "bf16") > 0);
  }

  TEST_CASE("help lists only what this build can do") {
    const std::string help = run_cli({"run", "--help"}, "", {{"COLUMNS", "120"}}).out;
    CHECK(help.find("auto, f32, bf16, int8, ... [bf16]") != std::string::npos);
    for (const char* absent : {"awq", "gptq", "cuda"}) {
      CAPTURE(absent);
      CHECK(help.find(absent) == std::string::npos);
    }
    const std::string unwritten =
        std::string(CAPTION_BINARY) + " run --help >/dev/full 2>/dev/null";
    CHECK(WEXITSTATUS(std::system(unwritten.c_str())) == 5);
  }

  TEST_CASE("a program without presets says where they are looked for") {
    const TemporaryFolder folder;
    const std::filesystem::path alone = folder.path() / "bin/caption-cli";
    std::filesystem::create_directory(folder.path() / "bin");
    std::filesystem::copy_file(CAPTION_BINARY, alone);
    const std::string said = (folder.path() / "said").string();
    const std::string lack = "no presets are found: none is in " +
                             (folder.path() / "share/caption-cli/presets").string() +
                             ", and CAPTION_PRESETS, which may name their folder, is not set; ";
    for (const char* arguments :
         {"plan --preset nn", "presets", "presets --names", "presets --check"}) {
      CAPTURE(arguments);
      const std::string command =
          "env -u CAPTION_PRESETS " + alone.string() + " " + arguments + " 2>" + said;
      CHECK(WEXITSTATUS(std::system(command.c_str())) == 3);
      CHECK(read_text(said).find(lack) != std::string::npos);
    }
    const std::string help =
        "env -u CAPTION_PRESETS COLUMNS=200 " + alone.string() + " run --help >" + said;
    CHECK(std::system(help.c_str()) == 0);
    CHECK(
        read_text(said).find("no preset cpu can be read, and defaults below are those of an empty "
                             "one") != std::string::npos);
  }

  TEST_CASE("presets says what runs here, and of nothing else that it does") {
    const TemporaryFolder folder;
    write_text((folder.path() / "mine.yaml").string(),
               "# For me.\ndevice: {type: cpu}\nmodel: not-here\n");
    const std::string out =
        run_cli({"presets"}, "", {{"CAPTION_PRESETS", folder.path().string()}}).out;
    const auto state_of = [&](const std::string& name) {
      const std::size_t line = out.find("\n" + name + " ");
      REQUIRE(line != std::string::npos);
      const std::size_t state = out.find("\n", line + 1);
      return out.substr(state + 1, out.find("\n", state + 1) - state - 1);
    };
    CHECK(state_of("cpu") == "        runs here");
    CHECK(state_of("l4").find("does not run here: this build lacks CUDA kernels") !=
          std::string::npos);
    CHECK(state_of("mine").find("does not run here: not-here") != std::string::npos);
  }

  TEST_CASE("a folder of presets that is missing is warned of once") {
    const TemporaryFolder folder;
    const std::string missing = (folder.path() / "missing").string();
    const Finished finished = run_cli({"presets"}, "", {{"CAPTION_PRESETS", missing}});
    CHECK(finished.exit_code == 0);
    CHECK(finished.err == "warning: config: CAPTION_PRESETS names " + missing +
                              ", which is no folder that can be read; it is not used\n");
  }

  TEST_CASE("presets --check prints a line for each preset, or for each contradiction") {
    const Environment nowhere = {
        {"HF_HOME", "/nowhere"}, {"HF_HUB_CACHE", "/nowhere"}, {"HOME", "/nowhere"}};
    const Finished own = run_cli({"presets", "--check"}, "", nowhere);
    CHECK(own.exit_code == 0);
    CHECK(own.err.empty());
    for (const char* line : {"l4      as planned: NVIDIA L4 (24 GB), 12 videos at a time\n",
                             "cpu     as planned: ", "auto    as planned: takes cpu "}) {
      CAPTURE(own.out);
      CHECK(own.out.find(line) != std::string::npos);
    }
    const TemporaryFolder folder;
    const std::string mine = (folder.path() / "mine.yaml").string();
    write_text(mine,
               "# Plan for t4\n#   weights  8 GB\n#   tokens  7\n"
               "device: {type: cuda}\nmodel: Qwen/Qwen3-0.6B\n");
    const Finished wrong = run_cli({"presets", "--check", mine, "l4"}, "", nowhere);
    CHECK(wrong.exit_code == 3);
    CHECK(wrong.out == mine + ":2: weights: the comment says \"8 GB\", the plan 1.19 GB\n" + mine +
                           ":3: tokens: the comment says \"7\", the plan 192\n" +
                           "l4      as planned: NVIDIA L4 (24 GB), 12 videos at a time\n");
    write_text(mine, "\xff");
    const Finished broken = run_cli({"presets", "--check", mine, "l4"}, "", nowhere);
    CHECK(broken.exit_code == 3);
    CHECK(broken.err.find("mine.yaml:1:1: not a text in UTF-8") != std::string::npos);
    CHECK(broken.out == "l4      as planned: NVIDIA L4 (24 GB), 12 videos at a time\n");
    write_text(mine, "video: {max_pixels: 100}\n");
    const Finished unsuited = run_cli({"presets", "--check", mine}, "", nowhere);
    CHECK(unsuited.exit_code == 3);
    CHECK(unsuited.err.find(mine + ": --max-pixels") != std::string::npos);
    CHECK(run_cli({"presets", "--check", "no-such"}, "", nowhere).exit_code == 3);
    CHECK(run_cli({"presets", "--check", "--show", "l4"}, "", nowhere).exit_code == 2);
  }

  TEST_CASE("a composed model is planned from the names of its parts") {
    const TemporaryFolder folder;
    const std::string preset = (folder.path() / "team.yaml").string();
    write_text(preset,
               "device:\n  type: cuda\n  memory_utilization: 0.9\n"
               "model:\n  vision: openai/clip-vit-large-patch14-336\n  llm: Qwen/Qwen3-8B\n"
               "  projector: not-here.safetensors\n"
               "quantization:\n  weights: nf4\n");
    const Finished finished = run_cli({"plan", "--preset", preset, "--card", "l4", "--json"}, "",
                                      {{"HF_HUB_CACHE", "/nowhere"}, {"HOME", "/nowhere"}});
    CHECK(finished.exit_code == 4);
    const JsonObject json = parse(finished.out);
    CHECK(json.get_bool("fits", false));
    CHECK_FALSE(json.get_bool("can_run", true));
    CHECK(json.get_object("tokens_per_video")->require_int("vision", 0, 1 << 20) == 8 * 576);
    CHECK(json.get_object("kv_bytes_per_token")->require_int("bf16", 0, 1 << 20) == 147456);
  }

  TEST_CASE("plan names each obstacle once") {
    const Finished planned =
        run_cli({"plan", "--num-beams", "64", "--bandwidth", "100", "--flops", "1000"});
    CHECK(planned.exit_code == 2);
    const std::string obstacle = "--num-beams 64: beams run together";
    const std::size_t first = planned.out.find(obstacle);
    REQUIRE(first != std::string::npos);
    CHECK(planned.out.find(obstacle, first + 1) == std::string::npos);
  }
}

TEST_SUITE("app/bench") {
  TEST_CASE("a synthetic workload gives a table, or JSON alone on stdout") {
    const Finished table = run_cli({"bench", "--workload", "static-vs-continuous", "--length-scale",
                                    "0.02", "--requests", "6", "--max-num-seqs", "3"});
    CHECK(table.exit_code == 0);
    CHECK(table.out.find("continuous") != std::string::npos);
    CHECK(table.out.find("the same tokens in every run") != std::string::npos);
    CHECK(table.out.find("6 requests of together 384 prompt tokens and") != std::string::npos);

    const TemporaryFolder folder;
    const std::string svg = (folder.path() / "sweep.svg").string();
    const Finished swept =
        run_cli({"bench", "--shape", "demo", "--requests", "4", "--output-tokens", "4", "--sweep",
                 "1,2", "--repeat", "2", "--json", "-", "--svg", svg});
    CHECK(swept.exit_code == 0);
    const JsonObject json = parse(swept.out);
    CHECK(json.get_objects("variants").size() == 2);
    CHECK(json.get_objects("variants").at(0).get_objects("runs").size() == 2);
    CHECK(read_text(svg).ends_with("</svg>\n"));
  }

  TEST_CASE("real videos are captioned, timed and scored") {
    const Finished finished =
        run_cli({"bench", sample_video("city-000-h264.mp4").string(), "--references",
                 (std::filesystem::path(CAPTION_SOURCE_DIR) / "samples/references.jsonl").string(),
                 "--json", "-"});
    CHECK(finished.exit_code == 0);
    const JsonObject json = parse(finished.out);
    CHECK(json.get_objects("runs").at(0).require_int("clips", 0, 10) == 1);
    CHECK(json.get_object("scores")->get_object("meteor-ko")->get_double("value", 0) > 0.3);
  }

  TEST_CASE("clips that fail are named apart and are no part of the rates") {
    const TemporaryFolder folder;
    const std::string broken = (folder.path() / "broken.mp4").string();
    write_text(broken, "no video");
    const std::string video = sample_video("city-000-h264.mp4").string();
    const Finished finished =
        run_cli({"bench", video, broken, "--prompt", "a", "--prompt", "b", "--json", "-"});
    CHECK(finished.exit_code == 1);
    const JsonObject run = parse(finished.out).get_objects("runs").at(0);
    CHECK(run.require_int("clips", 0, 10) == 1);
    CHECK(run.require_int("captions", 0, 10) == 2);
    CHECK(run.require_int("failed", 0, 10) == 1);
    const double rate = 1 / run.get_double("seconds", 1);
    CHECK(run.get_double("clips_per_s", 0) == doctest::Approx(rate));
    const Finished nothing = run_cli({"bench", broken});
    CHECK(nothing.exit_code == 1);
    CHECK(nothing.out.find("0 clips captioned, 1 failed") != std::string::npos);
    CHECK(nothing.out.find("clips/s") == std::string::npos);
  }

  TEST_CASE("references that cannot be read are told before anything is captioned") {
    const Finished finished = run_cli(
        {"bench", sample_video("city-000-h264.mp4").string(), "--references", "/nowhere.jsonl"});
    CHECK(finished.exit_code == 3);
    CHECK(finished.err.find("/nowhere.jsonl") != std::string::npos);
    CHECK(finished.err.find("run 1 of") == std::string::npos);
    const TemporaryFolder folder;
    const std::string others = (folder.path() / "others.jsonl").string();
    write_text(others, R"({"video":"other.mp4","caption":"\uC0B0"})"
                       "\n");
    const Finished unpaired =
        run_cli({"bench", sample_video("city-000-h264.mp4").string(), "--references", others});
    CHECK(unpaired.exit_code == 3);
    CHECK(unpaired.err.find("no caption belongs to a reference") != std::string::npos);
    CHECK(unpaired.err.find("run 1 of") == std::string::npos);
  }

  TEST_CASE("copies of a clip count once, and bench says so") {
    const TemporaryFolder folder;
    const std::filesystem::path video = sample_video("city-000-h264.mp4");
    std::filesystem::copy_file(video, folder.path() / "copy.mp4");
    const Finished finished =
        run_cli({"bench", video.string(), (folder.path() / "copy.mp4").string()});
    CHECK(finished.exit_code == 0);
    CHECK(finished.err.find("1 caption is that of another clip of the same content") !=
          std::string::npos);
    CHECK(finished.out.find("1 clip captioned") != std::string::npos);
  }

  TEST_CASE("bench predicts the steps of a card without one") {
    const Finished finished =
        run_cli({"bench", "--kernels", "--predict", "t4", "--shape", "qwen3-0.6b"});
    CHECK(finished.exit_code == 0);
    CHECK(finished.out.starts_with("qwen3-0.6b on t4, predicted"));
    CHECK(finished.out.find("decoding of 64 sequences") != std::string::npos);
    const Finished codes = run_cli(
        {"bench", "--kernels", "--predict", "l4", "--shape", "qwen3-0.6b", "--dtype", "int4"});
    CHECK(codes.exit_code == 0);
    CHECK(codes.out.starts_with("qwen3-0.6b on l4, predicted, int4"));
    CHECK(codes.out.find("CodeTiles<BF16") != std::string::npos);
    const Finished tower =
        run_cli({"bench", "--kernels", "--predict", "H100", "--shape", "clip-l-336"});
    CHECK(tower.exit_code == 0);
    CHECK(tower.out.find("64 frames: ") != std::string::npos);
  }

  TEST_CASE("options that mean nothing for what is measured are refused by name") {
    struct Case {
      std::vector<std::string> arguments;
      const char* message;
    };
    const Case cases[] = {
        {{"--clips", "3"}, "--clips is for the workload prefix, not for the workload fixed"},
        {{"--workload", "prefix", "--requests", "2"},
         "--requests is for the workloads fixed, mixed"},
        {{"--workload", "mixed", "--output-tokens", "2"}, "not for the workload mixed"},
        {{"--length-scale", "2"}, "--length-scale is for the workloads mixed and static"},
        {{"clip.mp4", "--profile"}, "--profile is for synthetic workloads, not for videos"},
        {{"clip.mp4", "--sweep", "1,2"},
         "--sweep is for synthetic workloads, --kernels and --price, not for videos"},
        {{"clip.mp4", "--kernels"}, "--kernels measures no videos"},
        {{"clip.mp4", "--shape", "demo"}, "--shape measures no videos"},
        {{"--price", "kv"}, "bench: --price kv needs videos to caption\n"},
        {{"--price", "kv", "--references", "x"}, "bench: --price kv needs videos to caption\n"},
        {{"--shape", "demo", "--price", "weights"}, "bench: --price weights needs videos"},
        {{"--price", "drafts"}, "--price drafts needs videos to caption, or a --shape that has"},
        {{"--references", "x"}, "bench: --references needs videos to caption\n"},
        {{"clip.mp4", "--price-base", "x"}, "bench: --price-base is for --price weights\n"},
        {{"--kernels", "--repeat", "2"},
         "--repeat is for workloads, videos, towers, --loading and --price, not for"},
        {{"--shape", "clip-l-336", "--requests", "2"}, "not for a shape without a decoder"},
        {{"--shape", "demo", "--sweep", "4,1,4"}, "--sweep names 4 twice"},
        {{"--shape", "clip-l-336", "--kernels", "--sweep", "2"},
         "not for --kernels of a shape without a decoder"},
        {{"--shape", "clip-l-336", "--kernels", "--prompt-tokens", "2"},
         "not for --kernels of a shape without a decoder"},
    };
    for (const Case& c : cases) {
      std::vector<std::string> arguments = {"bench"};
      arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
      const Finished finished = run_cli(arguments);
      CAPTURE(finished.err);
      CHECK(finished.exit_code == 2);
      CHECK(finished.err.find(c.message) != std::string::npos);
    }
  }

  TEST_CASE("wrong usage is one line and exit code 2") {
    const std::vector<std::vector<std::string>> kCases = {
        {"plan", "--frame-size", "12"},
        {"plan", "--frame-size", "0x10"},
        {"plan", "--frame-size", " 1x 9"},
        {"plan", "--frame-size", "+1x9"},
        {"plan", "--card", "x"},
        {"plan", "--batch", "4"},
        {"plan", "--svg", "x.svg"},
        {"plan", "--fit", "--svg", "x.png"},
        {"plan", "--fit", "--batch", "0"},
        {"plan", "--fit", "--dtype", "int8"},
        {"plan", "--fit", "--card", "x"},
        {"bench", "--shape", "demo", "--dtype", "auto"},
        {"plan", "--output-tokens", "0"},
        {"plan", "--bandwidth", "-1"},
        {"bench", "--shape", "nosuch"},
        {"bench", "--workload", "nosuch"},
        {"bench", "--svg", "x.svg"},
        {"bench", "--shape", "demo", "--sweep", "1,2", "--svg", "x.JPG"},
        {"bench", "--sweep", "0"},
        {"bench", "--references", "x"},
        {"bench", "--output-tokens", "5000"},
        {"bench", "--shape", "demo", "--kv-cache-bytes", "64KiB"},  // too few pages for a request
        {"bench", "--shape", "demo", "--kv-cache-bytes", "1KiB"},   // and for an engine
        {"bench", "--model", "samples/demo-model", "--kv-cache-bytes", "1KiB"},
        {"bench", "clip.mp4", "--shape", "demo"},
        {"bench", "clip.mp4", "--price", "kv", "--price-positions", "9"},
        {"bench", "clip.mp4", "--price-base", "samples/demo-model"},
        {"bench", "clip.mp4", "--price", "weights", "--price-positions", "0"},
        {"bench", "clip.mp4", "--workload", "fixed"},
        {"bench", "--predict", "h100", "--shape", "qwen3-8b"},
        {"bench", "--kernels", "--predict", "h100"},
        {"bench", "--kernels", "--predict", "h300", "--shape", "qwen3-8b"},
        {"bench", "--kernels", "--predict", "h100", "--shape", "qwen3-8b", "--json", "-"},
        {"bench", "--kernels", "--predict", "h100", "--shape", "qwen3-8b", "--dtype", "auto"},
        {"bench", "--tower"},
        {"bench", "--tower", "--shape", "demo", "--sweep", "1"},
        {"bench", "--tower", "--shape", "qwen3-0.6b"},
        {"bench", "--tower", "--shape", "demo", "--frames", "4"},
        {"bench", "--shape", "demo", "--price", "drafts", "--draft-from", "x.jsonl", "--drafts",
         "archive"},
        {"bench", "--shape", "demo", "--price", "drafts", "--draft-model", "x", "--drafts",
         "model"},
        {"bench", "--shape", "demo", "--price", "drafts", "--drafts", "model"},
        {"bench", "--shape", "demo", "--price", "drafts", "--draft-model", "demo:5", "--drafts",
         "model"},
        {"bench", "--shape", "demo", "--price", "drafts", "--draft-model", "demo:1x", "--drafts",
         "model"},
        {"bench", "--shape", "demo", "--price", "drafts", "--draft-model", "qwen3-0.6b:1",
         "--drafts", "model"},
        {"bench", "--shape", "demo", "--price", "drafts", "--draft-model", "demo:1"},
        {"bench", "--shape", "demo", "--price", "drafts", "--drafts", "ngram"},
        {"bench", "--shape", "demo", "--drafts", "ngram"},
        {"bench", "--shape", "demo", "--price", "drafts", "--kernels"},
        {"bench", "--shape", "demo", "--price", "drafts", "--references", "x.jsonl"},
        {"bench", "--shape", "demo", "--price", "drafts", "--num-beams", "2"},
        {"bench", "--shape", "demo", "--price", "drafts", "--max-num-seqs", "4"},
        {"bench", "--shape", "demo", "--price", "drafts", "--output-tokens", "3"},
        {"bench", "--shape", "demo", "--model", "samples/demo-model"},
        {"plan", "--model", "qwen3-vl-2b", "--max-pixels", "4095"},
        {"plan", "--model", "demo", "--max-pixels", "4096"},
    };
    for (const std::vector<std::string>& arguments : kCases) {
      CAPTURE(arguments);
      const Finished finished = run_cli(arguments);
      CHECK(finished.exit_code == 2);
      CHECK(finished.out.empty());
      // Messages about chosen values may precede the error.
      const std::size_t error = finished.err.find("error: caption-cli: ");
      REQUIRE(error != std::string::npos);
      CHECK(std::count(finished.err.begin() + static_cast<std::ptrdiff_t>(error),
                       finished.err.end(), '\n') == 1);
    }
  }
}

}  // namespace
}  // namespace caption::test
