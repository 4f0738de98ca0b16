// `bench VIDEOS --price`: what options cost, and the table that is kept of a model's formats.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "plan/price_table.h"
#include "tests/app/folders.h"
#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kFormats = {"f32",        "bf16", "int8",       "w8a8", "int4",
                                           "int4-head4", "w4a8", "w4a8-head4", "nf4"};

std::string source_file(const char* name) { return (fs::path(CAPTION_SOURCE_DIR) / name).string(); }

// `bench` on these clips; tables of prices are kept below `cache`.
Finished run_bench(const std::vector<std::string>& clips, const std::vector<std::string>& arguments,
                   const fs::path& cache) {
  std::vector<std::string> all = {"bench"};
  for (const std::string& clip : clips) all.push_back(small_video(clip).string());
  all.insert(all.end(), arguments.begin(), arguments.end());
  return run_cli(all, "", {{"XDG_CACHE_HOME", cache.string()}});
}

std::vector<JsonObject> rows_of(const Finished& finished) {
  CAPTURE(finished.err);
  REQUIRE(finished.exit_code == 0);
  return JsonObject::parse(finished.out, "prices", ErrorCode::kInternal).get_objects("rows");
}

// Four clips with captions of about 230 tokens and one of 46 are enough for a table; eight are to
// be sure.
const std::vector<std::string> kLongClips = {
    "city-000-h264.mp4",     "mountain-011-av1.mp4", "city-004-h264.mkv",   "field-008-vp9.webm",
    "mountain-007-hevc.mp4", "river-001-hevc.mp4",   "bridge-006-h264.mp4", "sea-003-av1.mkv"};
const std::vector<std::string> kLongCaptions = {
    "--prompt", "이 영상을 빠짐없이 아주 길게 설명해 주세요.", "--max-new-tokens", "320"};

std::vector<std::string> with_long_captions(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), kLongCaptions.begin(), kLongCaptions.end());
  return arguments;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

// The only table in a cache.
plan::PriceTable only_table(const fs::path& cache) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(cache / "caption-cli/prices")) {
    found.push_back(entry.path());
  }
  REQUIRE(found.size() == 1);
  return plan::read_price_table(found.front());
}

TEST_SUITE("app/price") {
  TEST_CASE("the price of weights is a row for each format, with scores, KL and a table") {
    const TemporaryFolder cache;
    const Finished finished =
        run_bench(kLongClips,
                  with_long_captions({"--references", source_file("samples/references.jsonl"),
                                      "--price", "weights", "--json", "-"}),
                  cache.path());
    const std::vector<JsonObject> rows = rows_of(finished);
    const plan::PriceTable table = only_table(cache.path());
    REQUIRE(rows.size() == kFormats.size());
    REQUIRE(table.formats.size() == kFormats.size());
    CHECK(table.positions >= plan::kLeastPositions);
    CHECK(table.clips == std::ssize(kLongClips));
    CHECK(table.base_hash.empty());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CAPTURE(kFormats[i]);
      const JsonObject& row = rows[i];
      const plan::FormatPrice& price = table.formats[i];
      CHECK(row.get_string("name", "") == kFormats[i] + " weights");
      CHECK(price.format == kFormats[i]);
      CHECK(row.require_int("compared_captions", 0, 9) == table.clips);
      CHECK(row.require_int("weight_bytes", 1, 1 << 30) == price.weight_bytes);
      CHECK(row.require_int("positions", 1000, 3000) == table.positions);
      CHECK(row.get_double("mean_kl", -1) == price.mean_kl);
      CHECK(row.get_double("p99_kl", -1) == price.p99_kl);
      CHECK(row.get_double("top1_agreement", -1) == price.top1_agreement);
      CHECK(price.meteor_ko == row.get_object("scores")->get_double("meteor-ko", -1));
      CHECK(price.top1_agreement > 0.9);
      CHECK(price.mean_kl < 0.1);
    }
    // The same computation twice gives the same bits; every rounding of matrices moves the logits.
    CHECK(table.formats[0].mean_kl == 0);
    CHECK(table.formats[0].p99_kl == 0);
    CHECK(table.formats[0].top1_agreement == 1);
    CHECK(table.formats[0].equal_captions == 1);
    // The table that comes with the program has more positions.
    CHECK(contains(finished.err, "--dtype auto follows "));
    CHECK_FALSE(table.formats[0].meteor_ko_difference.has_value());
    const double mean_int8 = table.find("int8")->mean_kl;
    CHECK(mean_int8 > 0);
    CHECK(table.find("int4-head4")->mean_kl > mean_int8);
    // What the file holds is bf16, so only KV pages and sums differ.
    CHECK(table.find("bf16")->mean_kl < mean_int8);
    CHECK(table.find("bf16")->meteor_ko_difference == plan::PairedDifference{});
    CHECK(contains(finished.err, "price table of this model: " + cache.path().string()));
  }

  TEST_CASE("the table that comes with the program is that of the demonstration model") {
    const Finished inspected =
        run_cli({"inspect", source_file("samples/demo-model"), "--hash", "--json"});
    const std::string hash =
        JsonObject::parse(inspected.out, "inspect", ErrorCode::kInternal).require_string("hash");
    const plan::PriceTable table =
        plan::read_price_table(plan::price_table_path(source_file("presets/prices"), hash));
    CHECK(table.model_hash == hash);
    CHECK(table.positions >= 1000);
    CHECK(table.clips >= 16);
    for (const std::string& format : kFormats) {
      CAPTURE(format);
      const plan::FormatPrice* const price = table.find(format);
      REQUIRE(price != nullptr);
      CHECK(price->meteor_ko.value_or(0) > 0.9);
      CHECK((price->mean_kl == 0) == (format == "f32"));
    }
  }

  TEST_CASE("divergences do not depend on batches, threads or the order of the same clips") {
    const TemporaryFolder cache;
    const auto prices = [&](const std::vector<std::string>& clips,
                            const std::vector<std::string>& arguments) {
      std::vector<std::string> all = {"--price", "weights", "--price-positions",
                                      "80",      "--json",  "-"};
      all.insert(all.end(), arguments.begin(), arguments.end());
      std::string text;
      for (const JsonObject& row : rows_of(run_bench(clips, all, cache.path()))) {
        text += row.get_string("name", "") + " " + json_number(row.get_double("mean_kl", -1)) +
                " " + json_number(row.get_double("p99_kl", -1)) + "\n";
      }
      return text;
    };
    const std::string together = prices({"city-000-h264.mp4", "mountain-011-av1.mp4"}, {});
    CHECK(together == prices({"mountain-011-av1.mp4", "city-000-h264.mp4"},
                             {"--max-num-seqs", "1", "--threads", "1"}));
  }

  TEST_CASE("a quantised folder is priced against the model that it was made of") {
    const TemporaryFolder folder;
    const std::string made = (folder.path() / "nf4").string();
    REQUIRE(run_cli({"quantize", source_file("samples/demo-model"), "-o", made, "--format", "nf4"})
                .exit_code == 0);
    const fs::path cache = folder.path() / "cache";
    const Finished finished = run_bench(
        kLongClips,
        with_long_captions({"--model", made, "--price-base", source_file("samples/demo-model"),
                            "--price", "weights", "--json", "-"}),
        cache);
    const std::vector<JsonObject> rows = rows_of(finished);
    REQUIRE(rows.size() == 4);
    CHECK(rows[0].get_string("name", "") == "f32 of " + source_file("samples/demo-model"));
    CHECK(rows[0].get_double("mean_kl", -1) == 0);
    CHECK(contains(finished.err, "left out: " + made));
    const plan::PriceTable table = only_table(cache);
    CHECK(table.model_hash != table.base_hash);
    CHECK(table.base_hash.size() == 64);
    CHECK(table.made_as == "nf4");
    REQUIRE(table.formats.size() == 3);
    for (const plan::FormatPrice& price : table.formats) {
      CAPTURE(price.format);
      CHECK(price.mean_kl > 0);  // also f32, which holds the codes
      CHECK((price.format == "f32" || price.format == "bf16" || price.format == "nf4"));
    }
    const Finished without =
        run_bench({"city-000-h264.mp4"},
                  {"--model", made, "--price", "weights", "--price-positions", "9"}, cache);
    CHECK(without.exit_code == 0);
    CHECK(contains(without.err, "no price table is written: the model is quantised"));
    const Finished rounded =
        run_bench({"city-000-h264.mp4"}, {"--price-base", made, "--price", "weights"}, cache);
    CHECK(rounded.exit_code == 2);
    CHECK(contains(rounded.err, made + " is quantised itself"));
    const Finished wrong =
        run_bench({"city-000-h264.mp4"},
                  {"--model", made, "--price-base", "/no/such/model", "--price", "weights"}, cache);
    CHECK(wrong.exit_code == 3);
    CHECK(contains(wrong.err, "/no/such/model"));
  }

  TEST_CASE("drafts are priced in the memory of a run, or refused in a sentence") {
    const TemporaryFolder folder;
    const Finished finished =
        run_bench({"city-000-h264.mp4"},
                  {"--price", "drafts", "--max-num-seqs", "1", "--json", "-"}, folder.path());
    CHECK(rows_of(finished).size() >= 4);
    const std::string broken = (folder.path() / "broken.mp4").string();
    write_text(broken, "no video");
    const Finished none = run_cli({"bench", broken, "--price", "drafts", "--drafts", "none"}, "",
                                  {{"XDG_CACHE_HOME", folder.path().string()}});
    CHECK(none.exit_code == 1);
    CHECK(none.out.empty());
    CHECK(contains(none.err, "--drafts none has no effect: --price drafts measures every method"));
    CHECK(contains(none.err, "no clip could be captioned"));
    const Finished little = run_bench(
        {"city-000-h264.mp4"}, {"--price", "drafts", "--kv-cache-bytes", "200k"}, folder.path());
    CHECK(little.exit_code == 2);
    CHECK(contains(little.err, "raise it to at least"));
  }

  TEST_CASE("no table is kept of fewer positions than were wanted, or without every clip") {
    const TemporaryFolder folder;
    const Finished few = run_bench({"city-000-h264.mp4"}, {"--price", "weights"}, folder.path());
    CHECK(few.exit_code == 0);
    CHECK(contains(few.err, "no price table is written: the captions have"));
    CHECK(contains(few.err, "of 1000 positions; give more clips or prompts"));
    CHECK(contains(few.out, ", 8 frames a clip (arange), prompt \"이 영상을 자세히 설명해"));
    const std::string broken = (folder.path() / "broken.mp4").string();
    write_text(broken, "no video");
    const std::string json = (folder.path() / "prices.json").string();
    const Finished failed = run_bench(
        {"city-000-h264.mp4"},
        {broken, "--price", "weights", "--price-positions", "9", "--json", json}, folder.path());
    CHECK(failed.exit_code == 1);
    CHECK(contains(failed.err, "no price table is written: clips failed"));
    CHECK(count(failed.err, "warning: ") == 1);
    CHECK(fs::file_size(json) > 0);
    const Finished nothing = run_cli({"bench", broken, "--price", "weights"}, "",
                                     {{"XDG_CACHE_HOME", folder.path().string()}});
    CHECK(nothing.exit_code == 1);
    CHECK(nothing.out.empty());
    CHECK(count(nothing.err, "error: bench: no clip could be captioned") == 1);
    CHECK(count(nothing.err, "warning: ") == 1);
    CHECK_FALSE(contains(nothing.err, "bf16"));
    CHECK_FALSE(fs::exists(folder.path() / "caption-cli/prices"));
  }

  TEST_CASE("no table is kept of settings that change the logits") {
    const TemporaryFolder cache;
    const std::vector<std::vector<std::string>> kSettings = {{"--kv-dtype", "bf16"},
                                                             {"--attention", "squeezed"}};
    for (const std::vector<std::string>& setting : kSettings) {
      std::vector<std::string> arguments = {"--price", "weights", "--price-positions", "9"};
      arguments.insert(arguments.end(), setting.begin(), setting.end());
      const Finished finished = run_bench({"city-000-h264.mp4"}, arguments, cache.path());
      CAPTURE(finished.err);
      CHECK(finished.exit_code == 0);
      CHECK(contains(finished.err,
                     "no price table is written: " + setting[0] + " changes the logits"));
    }
  }

  TEST_CASE("a cache that cannot be written costs the table only") {
    const TemporaryFolder folder;
    const fs::path file = folder.path() / "file";
    write_text(file, "no folder");
    const Finished finished =
        run_bench(kLongClips, with_long_captions({"--price", "weights", "--json", "-"}), file);
    const std::vector<JsonObject> rows = rows_of(finished);
    CHECK(rows.size() == kFormats.size());
    CHECK(count(finished.err, "the price table is not kept: ") == 1);
  }

  TEST_CASE("folders that files cannot be written to are found before the formats are measured") {
    const TemporaryFolder folder;
    const Finished report = run_bench(
        {"city-000-h264.mp4"}, {"--price", "weights", "--json", "/no/such/x.json"}, folder.path());
    CHECK(report.exit_code == 5);
    CHECK(contains(report.err, "/no/such/x.json: cannot write: /no/such is no folder"));
    CHECK_FALSE(contains(report.err, "f32"));
    const Finished unwritable =
        run_cli({"bench", sample_video("city-000-h264.mp4").string(), "--price", "weights",
                 "--price-positions", "9"},
                "", {{"XDG_CACHE_HOME", folder.path().string()}, {"TMPDIR", "/no/such/folder"}});
    CHECK(unwritable.exit_code == 5);
    CHECK(contains(unwritable.err, "/no/such/folder: cannot make a temporary file there"));
  }
}

}  // namespace
}  // namespace caption::test
