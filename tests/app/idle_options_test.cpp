// Every command says which options of its command line change nothing.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/app/folders.h"
#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

TEST_SUITE("app/idle_options") {
  TEST_CASE("plan, bench, inspect and run warn of options without effect") {
    const TemporaryFolder folder;
    const std::string video = sample_video("city-000-h264.mp4").string();
    const std::string sheet = (folder.path() / "sheet.png").string();
    const std::string demo = CAPTION_SOURCE_DIR "/samples/demo-model";
    const std::string examples = (folder.path() / "examples.jsonl").string();
    write_text(examples, "{\"caption\": \"산\"}\n");
    struct Row {
      std::vector<std::string> command;
      std::vector<std::string> warnings;  // none: nothing "has no effect"
    };
    const std::vector<std::string> plan = {"plan", "--flops", "500", "--bandwidth", "50"};
    const std::vector<std::string> bench = {
        "bench", "--shape",         "demo", "--requests",      "2", "--sweep", "1", "--dtype",
        "f32",   "--prompt-tokens", "8",    "--output-tokens", "8", "--json",  "-"};
    const auto with = [](std::vector<std::string> command, const std::vector<std::string>& more) {
      command.insert(command.end(), more.begin(), more.end());
      return command;
    };
    const std::vector<Row> rows = {
        {with(plan, {"--top-p", "0.5"}), {"plan: --top-p has no effect at --temperature 0\n"}},
        {with(plan, {"--top-p", "0.5", "--temperature", "1"}), {}},
        {with(plan, {"--kv-host-bytes", "1GiB"}),
         {"plan: --kv-host-bytes has no effect with --device cpu\n"}},
        {with(plan, {"--kv-host-bytes", "1GiB", "--card", "l4"}), {}},
        {with(plan, {"--frame-size", "640x480"}),
         {"plan: --frame-size has no effect with this --model, which resizes frames of every "}},
        {with(plan, {"--frame-size", "640x480", "--model", "qwen3-vl-2b"}), {}},
        {with(plan, {"--requantize", "true"}),
         {"plan: --requantize has no effect with this --model and --dtype, which round no codes"}},
        {with(plan, {"--prompt", "x", "--prompt-tokens", "9"}),
         {"plan: --prompt has no effect beside --prompt-tokens"}},
        {with(bench, {"--frames", "4", "--temperature", "1", "--max-num-seqs", "2", "--seed", "3"}),
         {"bench: --frames has no effect on the workload fixed\n",
          "bench: --temperature has no effect on the workload fixed\n",
          "bench: --max-num-seqs has no effect beside --sweep"}},
        {with(bench, {"--seed", "3", "--kv-dtype", "f32"}), {}},
        {with(bench, {"--quality", "--adapter", "lora", "--examples", examples}),
         {"bench: --quality has no effect on the workload fixed\n",
          "bench: --adapter has no effect on random weights\n",
          "bench: --examples has no effect on the workload fixed\n"}},
        {with(bench, {"--adapter", "gone", "--examples", "gone.jsonl"}),
         {"bench: --adapter has no effect on random weights\n",
          "bench: --examples has no effect on the workload fixed\n"}},
        {with(bench, {"--speed", "--requantize", "true"}),
         {"bench: --speed has no effect on the workload fixed\n",
          "bench: --requantize has no effect on random weights\n"}},
        {with(bench, {"--attention-threshold", "0.5"}),
         {"bench: --attention-threshold has no effect without --attention squeezed\n"}},
        {{"bench", video, "--max-new-tokens", "2", "--top-p", "0.5", "--json", "-"},
         {"bench: --top-p has no effect at --temperature 0\n"}},
        {{"inspect", video, "-o", sheet, "--hash", "--adapter", "lora"},
         {"inspect: --hash has no effect: it is for models, and none is named\n",
          "inspect: --adapter has no effect: it is for models, and none is named\n"}},
        {{"inspect", video, demo, "--hash", "--frames", "4"}, {}},
        {{"inspect", demo, "--frames", "4", "--sampling", "linspace"},
         {"inspect: --frames has no effect: it is for videos, and none is named\n",
          "inspect: --sampling has no effect: it is for videos, and none is named\n"}},
        {{"inspect", "--machine", "--json"}, {}},
        {{"run", video, "-0", "--max-new-tokens", "2"},
         {"run: -0 has no effect without - in the place of the videos"}},
    };
    for (const Row& row : rows) {
      CAPTURE(row.command);
      const Finished finished = run_cli_in({.folder = folder.path()}, row.command);
      CAPTURE(finished.err);
      if (row.warnings.empty()) CHECK_FALSE(contains(finished.err, "has no effect"));
      for (const std::string& warning : row.warnings) {
        CAPTURE(warning);
        CHECK(contains(finished.err, "warning: " + warning));
      }
    }
  }

  TEST_CASE("bench refuses a wrong list of GPUs, whatever it measures") {
    for (const char* measured : {"--workload=fixed", "--kernels", "--tower", "--price=drafts"}) {
      CAPTURE(std::string(measured));
      const Finished finished = run_cli({"bench", "--shape", "demo", measured, "--devices", "zzz"});
      CHECK(finished.exit_code == 2);
      CHECK(contains(finished.err, "--devices zzz: give the numbers of GPUs"));
    }
  }

  TEST_CASE("--requantize has no effect where the codes of a folder are kept") {
    const TemporaryFolder folder;
    const std::string nf4 = (folder.path() / "nf4").string();
    REQUIRE(run_cli({"quantize", CAPTION_SOURCE_DIR "/samples/demo-model", "-o", nf4, "--format",
                     "nf4", "-q"})
                .exit_code == 0);
    const std::vector<std::string> command = {"run",
                                              sample_video("city-000-h264.mp4").string(),
                                              "--max-new-tokens",
                                              "2",
                                              "--model",
                                              nf4,
                                              "--requantize",
                                              "true"};
    const std::string warning = "--requantize has no effect";
    for (const char* format : {"bf16", "nf4", "f32"}) {
      CAPTURE(std::string(format));
      std::vector<std::string> as = command;
      as.insert(as.end(), {"--dtype", format});
      const Finished kept = run_cli(as);
      CHECK(kept.exit_code == 0);
      CHECK(contains(kept.err, warning));
    }
    std::vector<std::string> rounded = command;
    rounded.insert(rounded.end(), {"--dtype", "w8a8"});
    const Finished finished = run_cli(rounded);
    CHECK(finished.exit_code == 0);
    CHECK_FALSE(contains(finished.err, warning));
  }

  TEST_CASE("--machine --json is one object on a line") {
    const Finished finished = run_cli({"inspect", "--machine", "--json"});
    CHECK(finished.exit_code == 0);
    CHECK(finished.out.starts_with("{\"kind\":\"machine\",\"cpu\":\""));
    CHECK(finished.out.find("\"memory_bytes\":") != std::string::npos);
    CHECK(finished.out.find('\n') == finished.out.size() - 1);
  }
}

}  // namespace
}  // namespace caption::test
