// Tests `plan --fit` and `--dtype auto` on the demonstration model, with price tables of the tests'
// own.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/join.h"
#include "base/json.h"
#include "tests/app/folders.h"
#include "tests/app/process.h"
#include "tests/support/drawn_checkpoint.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kHeld = {"f32",  "bf16", "int8",       "int4",      "nf4",
                                        "w8a8", "w4a8", "int4-head4", "w4a8-head4"};

const std::vector<std::string> kMade = {"nf4", "fp4",  "int8",      "w8a8",     "w4a16",
                                        "awq", "gptq", "gguf-q8_0", "gguf-q4_0"};

JsonObject parse(const std::string& text) {
  return JsonObject::parse(text, "stdout", ErrorCode::kInternal);
}

std::string demo_model() { return (fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model").string(); }

std::string demo_hash() {
  return parse(run_cli({"inspect", demo_model(), "--hash", "--json"}).out).get_string("hash", "");
}

// A cache folder with a table of the demonstration model in which `good` loses little and every
// other format much.
class Cache {
 public:
  explicit Cache(const std::string& good) { write(good); }

  void write(const std::string& good) {
    std::string rows;
    for (const std::string& format : kHeld) {
      const bool is_good = format == good || format == "f32";
      rows +=
          std::string(rows.empty() ? "" : ",") + R"({"format":")" + format + R"(","mean_kl":)" +
          (is_good ? "0.001" : "0.5") +
          R"(,"p99_kl":0.6,"top1_agreement":0.9,"meteor_ko_difference":{"value":-0.1,"low":-0.2,)"
          R"("high":0.05},"equal_captions":0.5,"weight_bytes":9,"decode_tokens_per_s":5})";
    }
    const std::string hash = demo_hash();
    const fs::path folder = folder_.path() / "caption-cli/prices";
    fs::create_directories(folder);
    path_ = folder / (hash + ".json");
    write_text(path_, R"({"price_table":1,"model_hash":")" + hash +
                          R"(","arithmetic":"avx2","positions":20000,"clips":16,)" +
                          R"("made_by":"a test","formats":[)" + rows + "]}\n");
  }

  const fs::path& path() const { return path_; }
  Environment environment() const { return {{"XDG_CACHE_HOME", folder_.path().string()}}; }

 private:
  TemporaryFolder folder_;
  fs::path path_;
};

const std::vector<std::string> kRates = {"--bandwidth", "20", "--flops", "200"};

Finished plan_fit(std::vector<std::string> flags, const Environment& environment = {}) {
  flags.insert(flags.begin(), {"plan", "--fit"});
  flags.insert(flags.end(), kRates.begin(), kRates.end());
  return run_cli(flags, "", environment);
}

TEST_SUITE("app/fit") {
  TEST_CASE("every format that the model can be held in has a row, and one is chosen") {
    const Cache cache("nf4");
    const Finished text = plan_fit({}, cache.environment());
    CAPTURE(text.err);
    CHECK(text.exit_code == 0);
    for (const std::string& format : kHeld) CHECK(contains(text.out, " " + format + " "));
    CHECK(contains(text.out, "chosen: nf4 at "));
    CHECK(contains(text.out, "of 20000 positions"));
    CHECK(contains(text.out, "-0.10 [-0.20, +0.050]"));
    CHECK(contains(text.out, cache.path().string()));

    const TemporaryFolder folder;
    const std::string svg = (folder.path() / "formats.svg").string();
    const Finished planned =
        plan_fit({"--json", "--svg", svg, "--batch", "3"}, cache.environment());
    CHECK(planned.exit_code == 0);
    const JsonObject json = parse(planned.out);
    CHECK(json.get_string("choice", "") == "nf4");
    CHECK(json.get_bool("can_run", false));
    CHECK(json.require_int("batch", 0, 99) == 3);
    const std::vector<JsonObject> rows = json.get_objects("formats");
    REQUIRE(rows.size() == kHeld.size() + kMade.size());
    for (std::size_t i = 0; i < kHeld.size(); ++i) {
      CHECK(rows[i].get_string("format", "") == kHeld[i]);
      CHECK(rows[i].get_bool("fits", false));
      CHECK(rows[i].require_int("concurrent_videos", 0, 99) == 3);
      CHECK(rows[i].get_double("decode_tokens_per_s", 0) > 0);
      CHECK(rows[i].get_double("mean_kl", -1) > 0);
      CHECK(rows[i].require_int("memory_bytes", 0, 1LL << 40) >
            rows[i].require_int("weight_bytes", 0, 1LL << 40) +
                rows[i].require_int("kv_bytes", 0, 1LL << 40));
    }
    for (std::size_t i = 0; i < kMade.size(); ++i) {
      const JsonObject& row = rows[kHeld.size() + i];
      const std::string made_as = row.get_string("made_as", "");
      CAPTURE(made_as);
      CHECK((made_as == kMade[i] || made_as == kMade[i] + " --calibrate"));
      CHECK(row.get_bool("fits", false));
      CHECK(row.get_double("mean_kl", -1) > 0);  // the program comes with a table
      CHECK(row.get_double("decode_tokens_per_s", 0) > 0);
    }
    CHECK(contains(text.out, " gptq (calibrated) "));
    CHECK(read_text(svg).ends_with("</svg>\n"));
    CHECK(contains(read_text(svg), "nf4, KL 0.0010"));
  }

  TEST_CASE("without measured prices the report says so, and 4 bits are not chosen") {
    const Finished planned = plan_fit({"--json", "--model", "qwen3-vl-2b"});
    CHECK(planned.exit_code != 0);  // its files are not here
    const std::string chosen = parse(planned.out).get_string("choice", "");
    CHECK((chosen == "bf16" || chosen == "int8"));
    const Finished text = plan_fit({"--model", "qwen3-vl-2b"});
    CHECK(contains(text.out,
                   "not measured: run `caption-cli bench VIDEOS --price weights --model "
                   "qwen3-vl-2b`"));
    CHECK(contains(text.out, "run would not start here"));
  }

  TEST_CASE("a card and a memory that nothing fits give the reason and exit code 4") {
    const Finished card = plan_fit({"--card", "t4", "--model", "qwen3-8b", "--json"});
    const JsonObject json = parse(card.out);
    CHECK(card.exit_code == 4);
    CHECK_FALSE(json.get_bool("can_run", true));
    CHECK(json.get_string("device", "") == "NVIDIA T4 (16 GB)");
    CHECK_FALSE(json.get_objects("formats").at(1).get_bool("fits", true));  // 16.4 GB in bf16
    const Finished nothing = plan_fit({"--memory", "1MiB"});
    CHECK(nothing.exit_code == 4);
    CHECK(contains(nothing.out, "nothing is chosen: none of 9 formats fits; in "));
    CHECK(contains(nothing.out, ", weights alone take "));
    const Finished unwritable = plan_fit({"--svg", "/nonexistent/formats.svg"});
    CHECK(unwritable.exit_code == 5);
    CHECK(unwritable.out.empty());  // refused before the plan
    CHECK(contains(unwritable.err, "/nonexistent/formats.svg: cannot write: "));
    const Finished misnamed = plan_fit({"--svg", "formats.png"});
    CHECK(misnamed.exit_code == 2);
    CHECK(misnamed.out.empty());
    CHECK(contains(misnamed.err, "--svg formats.png: the chart is an SVG; give it a name in .svg"));
  }

  TEST_CASE("the size of the process is counted without pages of a mapped model file") {
#if defined(__SANITIZE_ADDRESS__)
    MESSAGE("skipped: the sanitizer's memory is most of the process");
    return;
#endif
    const Finished alone =
        run_cli({"plan", "--json", "--dtype", "bf16", "--bandwidth", "20", "--flops", "200"});
    // The demonstration model's file has 10 MB, the process without it less than twice that.
    CHECK(parse(alone.out).get_object("bytes")->require_int("fixed", 1, 1LL << 40) < 20'000'000);
  }

  TEST_CASE("a format that the preset asks for in another form is named as left out") {
    const TemporaryFolder folder;
    const std::string preset = (folder.path() / "double.yaml").string();
    write_text(preset, "model: qwen3-8b\nquantization: {weights: nf4, double_quant: true}\n");
    const std::string reason = "nf4: Qwen/Qwen3-8B: holds no nf4 codes with double quantisation";
    const Finished card = plan_fit({"--preset", preset, "--card", "t4"});
    CHECK(contains(card.out, "left out: " + reason));
    const Finished json = plan_fit({"--preset", preset, "--card", "t4", "--json"});
    CHECK(contains(json.out, "\"left_out\":[\"" + reason));
  }

  TEST_CASE("a quantised model has the formats that keep its codes, or all with --requantize") {
    const fs::path golden = fs::path(CAPTION_SOURCE_DIR) / "tests/golden/quantised_captioners";
    const testing::DrawnCheckpoint model(golden / "awq");
    const auto formats_of = [&](std::vector<std::string> flags) {
      flags.insert(flags.end(), {"--json", "--model", model.path().string()});
      std::string names;
      for (const JsonObject& row : parse(plan_fit(flags).out).get_objects("formats")) {
        names += (names.empty() ? "" : ", ") + row.get_string("format", "");
      }
      return names;
    };
    CHECK(formats_of({}) == "f32, bf16");
    CHECK(contains(plan_fit({"--model", model.path().string()}).out,
                   "left out: int8, int4, nf4, w8a8, w4a8, int4-head4, w4a8-head4: would round "
                   "the codes of the file a second time"));
    // None is to be made: quantize takes no codes, and no GGUF files.
    CHECK(formats_of({"--requantize", "true"}) == join(kHeld));
    const TemporaryFolder folder;
    const std::string files = (folder.path() / "files").string();
    REQUIRE(run_cli({"quantize", demo_model(), "-o", files, "--format", "gguf-f16"}).exit_code ==
            0);
    const Finished planned = plan_fit({"--model", files});
    CHECK(planned.exit_code == 0);
    CHECK(contains(planned.out, " bf16 "));
    CHECK_FALSE(contains(planned.out, "(made)"));
  }

  TEST_CASE("a broken table is named and not used") {
    const Cache cache("nf4");
    write_text(cache.path(), "{}");
    const Finished planned = plan_fit({"--json"}, cache.environment());
    CHECK(planned.exit_code == 0);
    CHECK(contains(planned.err, cache.path().string()));
    CHECK(std::count(planned.err.begin(), planned.err.end(), '\n') == 1);
    // The table that the program comes with is used.
    const auto prices = parse(planned.out).get_object("prices");
    REQUIRE(prices.has_value());
    CHECK(prices->get_string("path", "").find("presets/prices/") != std::string::npos);
  }

  TEST_CASE("--dtype auto runs in the chosen format, and a resumed run keeps it") {
    Cache cache("w8a8");
    const TemporaryFolder folder;
    fill(folder.path(), {"a.mp4"});
    const std::string output = (folder.path() / "captions.jsonl").string();
    const std::vector<std::string> run = {"run", (folder.path()).string(), "-o", output, "--dtype",
                                          "auto"};
    std::vector<std::string> arguments_of_dry_run = run;
    arguments_of_dry_run.emplace_back("--dry-run");
    const Finished dry = run_cli(arguments_of_dry_run, "", cache.environment());
    CHECK(dry.exit_code == 0);
    CHECK(contains(dry.out, "w8a8 weights"));
    const Finished first = run_cli(run, "", cache.environment());
    CAPTURE(first.err);
    CHECK(first.exit_code == 0);
    CHECK(contains(first.err, "run: weights as w8a8 at "));
    CHECK_FALSE(fs::is_empty(cache.path().parent_path().parent_path() / "rates"));
    const std::string manifest = read_text(output + ".manifest.json");
    CHECK(contains(manifest, "\"quantization.weights\": \"w8a8\""));

    // The same captions, and the same configuration, as with the format's name.
    const Finished named =
        run_cli({"run", folder.path().string(), "-o", output, "--dtype", "w8a8"});
    CHECK(named.exit_code == 0);
    CHECK(contains(named.err, "resumed"));

    cache.write("int4");
    fs::create_symlink(sample_videos().at(1), folder.path() / "b.mp4");
    CHECK(contains(run_cli(arguments_of_dry_run, "", cache.environment()).out, "w8a8 weights"));
    fs::create_directories(folder.path() / "links");
    const fs::path link = folder.path() / "links/here.jsonl";
    fs::create_symlink(output, link);  // the manifest is beside its target
    std::vector<std::string> through_link = run;
    *(std::find(through_link.begin(), through_link.end(), "-o") + 1) = link.string();
    const Finished again = run_cli(through_link, "", cache.environment());
    CHECK(again.exit_code == 0);
    CHECK(contains(again.err, "run: weights as w8a8, in which the records of "));
    CHECK(read_text(output + ".manifest.json") == manifest);
    CHECK(parse_records(read_text(output)).size() == 2);

    std::vector<std::string> anew = run;
    anew.emplace_back("--overwrite");
    const Finished overwritten = run_cli(anew, "", cache.environment());
    CHECK(overwritten.exit_code == 0);
    CHECK(contains(overwritten.err, "run: weights as int4 at "));
    CHECK(contains(read_text(output + ".manifest.json"), "\"quantization.weights\": \"int4\""));

    // The format is chosen quietly; what else the run does then is not.
    const fs::path torn = folder.path() / "links/torn.jsonl";
    const std::string records = read_text(output);
    write_text(torn, records.substr(0, records.size() - 5));
    anew.insert(anew.end(), {"--dry-run", "--drafts", "archive", "--draft-from", torn.string()});
    const Finished drafted = run_cli(anew, "", cache.environment());
    CHECK(drafted.exit_code == 0);
    const std::string warning = torn.string() + ": its last line is torn, and is left out\n";
    CHECK(contains(drafted.err, warning));
    CHECK(drafted.err.find(warning) == drafted.err.rfind(warning));
  }

  TEST_CASE("auto in a preset is understood by every command") {
    const Cache cache("int8");
    const TemporaryFolder folder;
    const std::string preset = (folder.path() / "mine.yaml").string();
    write_text(preset,
               "# Mine.\ndevice: {type: cpu}\nmodel: samples/demo-model\n"
               "quantization: {weights: auto}\n");
    Environment environment = cache.environment();
    environment.emplace_back("CAPTION_PRESETS", folder.path().string());
    const Finished shown = run_cli({"presets", "--show", "mine"}, "", environment);
    CHECK(contains(shown.out, "  weights: auto  # weights as {auto, f32, bf16,"));
    CHECK(contains(run_cli({"presets"}, "", environment).out, "mine    Mine.\n        runs here"));
    CHECK(contains(run_cli({"doctor"}, "", environment).out, "mine"));
    const Finished inspected = run_cli({"inspect", demo_model()}, "", environment);
    CHECK(contains(inspected.out, "at a time in int8"));
    std::vector<std::string> plan = {"plan", "--preset", "mine", "--json"};
    plan.insert(plan.end(), kRates.begin(), kRates.end());
    const Finished planned = run_cli(plan, "", environment);
    CHECK(planned.exit_code == 0);
    CHECK(parse(planned.out).get_string("weights", "") == "int8, groups of 128");
    CHECK(contains(planned.err, "plan: weights as int8 at "));
    const std::string video = sample_video("city-000-h264.mp4").string();
    const Finished ran = run_cli({"run", "--preset", "mine", video}, "", environment);
    CHECK(ran.exit_code == 0);
    CHECK(contains(ran.err, "run: weights as int8 at "));
    const Finished measured = run_cli({"bench", "--preset", "mine", video}, "", environment);
    CHECK(measured.exit_code == 0);
    CHECK(contains(measured.out, "int8, groups of 128 weights"));
  }

  TEST_CASE("auto that nothing fits ends as a run without memory") {
    const std::string video = sample_video("city-000-h264.mp4").string();
    const Finished ran = run_cli({"run", "--dtype", "auto", "--memory-utilization", "0.05", video,
                                  "--kv-cache-bytes", "100"});
    CHECK(ran.exit_code == 2);
    CHECK(contains(ran.err, "--dtype auto: none of 9 formats fits; in "));
    CHECK(contains(ran.err, "--kv-cache-bytes"));
    CHECK(ran.out.empty());
  }
}

}  // namespace
}  // namespace caption::test
