// Calibrated checkpoints whose calls are stopped, what continues them, and what is told meanwhile.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "base/error.h"
#include "quantise/quantise_checkpoint.h"
#include "tests/quantise/calibration_support.h"
#include "tests/quantise/folders.h"
#include "tests/support/drawn_checkpoint.h"

namespace caption::quantise {
namespace {

namespace fs = std::filesystem;
using namespace testing;

// Completes a checkpoint. Returns what was told last.
QuantiseProgress last_progress(
    QuantiseOptions options, const std::function<void(const QuantiseProgress&)>& on_progress = {}) {
  QuantiseProgress last;
  options.on_progress = [&](const QuantiseProgress& progress) {
    if (on_progress) on_progress(progress);
    last = progress;
  };
  CHECK(quantise_checkpoint(options).is_complete);
  return last;
}

TEST_SUITE_BEGIN("quantise/calibrated_stops");

TEST_CASE("what decides the prompts is named where it differs, and is no difference by itself") {
  Calibration prompts = draw_prompts(1280, 3, 40, 3);
  const auto with = [&](const char* clips, const char* references, const char* limit) {
    Calibration changed = prompts;
    changed.identity = {{"calibration clips", clips},           {"calibration prompts", "p"},
                        {"calibration answers", clips},         {"calibration tokens", clips},
                        {"calibration references", references}, {"calibration limit", limit}};
    return changed;
  };
  const Calibration first = with("c", "r", "100");
  QuantiseOptions options =
      calibrated_options(demo_model(), new_folder("quantise_calibrated/deciding"), "gptq", &first);
  REQUIRE(quantise_checkpoint(options).is_complete);
  const auto refusal = [&](const Calibration& other) {
    options.calibration = &other;
    return calibration_error(options, ErrorCode::kOutputConflict);
  };
  CHECK(contains_text(refusal(with("d", "s", "100")),
                      "are made with other captions (--references);"));
  CHECK(contains_text(refusal(with("d", "r", "90")),
                      "are made with --calibration-tokens 100, not 90;"));
  CHECK(contains_text(refusal(with("d", "s", "90")),
                      "are made with other captions (--references) and with --calibration-tokens "
                      "100, not 90;"));
  CHECK(contains_text(refusal(with("d", "r", "100")), "are made with other videos (--calibrate)"));
  const Calibration equal = with("c", "s", "90");
  options.calibration = &equal;
  CHECK(quantise_checkpoint(options).shards_found == 1);
}

TEST_CASE("a call that was stopped after any layer is continued to the same bytes") {
  const Calibration prompts = draw_prompts(1280, 3, 40, 3);
  for (const char* const format : {"gptq", "awq"}) {
    QuantiseOptions options = calibrated_options(
        demo_model(), new_folder("quantise_calibrated/uninterrupted"), format, &prompts);
    options.max_shard_bytes = 3'000'000;
    REQUIRE(quantise_checkpoint(options).is_complete);
    const Files expected = files_of(options.output);
    for (const auto& [name, content] : expected) CHECK(name.find("layer") == std::string::npos);
    for (const int last : {1, 3, 4, 60}) {
      CAPTURE(format);
      CAPTURE(last);
      options.output = new_folder("quantise_calibrated/interrupted");
      std::atomic<bool> stop{false};
      options.stop = &stop;
      options.on_progress = [&](const QuantiseProgress& progress) {
        CHECK(progress.bytes_done <= progress.bytes_total);
        if (progress.layers_done + progress.tensors_done >= last) stop = true;
      };
      CHECK_FALSE(quantise_checkpoint(options).is_complete);
      CHECK_FALSE(fs::exists(options.output / "config.json"));
      CHECK(fs::exists(options.output / "caption-cli.layer-00000.safetensors"));
      options.stop = nullptr;
      options.on_progress = {};
      // Other prompts are refused by name, and so is none.
      const Calibration others = draw_prompts(1280, 3, 40, 4);
      QuantiseOptions other = options;
      other.calibration = &others;
      CHECK(contains_text(calibration_error(other, ErrorCode::kOutputConflict),
                          "are made with other videos (--calibrate)"));
      other.calibration = nullptr;
      CHECK(contains_text(calibration_error(other, ErrorCode::kOutputConflict),
                          "are made with --calibrate;"));
      CHECK(quantise_checkpoint(options).is_complete);
      CHECK(files_of(options.output) == expected);
      CHECK(quantise_checkpoint(options).is_complete);
      CHECK(files_of(options.output) == expected);
    }
  }
}

TEST_CASE("the layers' files count for the room that a call needs, and for its progress") {
  const Calibration prompts = draw_prompts(1280, 2, 30, 11);
  QuantiseOptions options =
      calibrated_options(demo_model(), new_folder("quantise_calibrated/measured"), "awq", &prompts);
  std::int64_t layers_bytes = 0;   // most bytes of the layers' files
  std::int64_t headers_bytes = 0;  // bytes of headers, which are not counted
  options.on_progress = [&](const QuantiseProgress& progress) {
    if (progress.layer_part > 0) return;
    CHECK(progress.layers_total == 4);
    if (progress.layers_done < 4) CHECK(progress.tensors_done == 0);
    std::int64_t sum = 0;
    std::int64_t headers = 0;
    for (const auto& [name, content] : files_of(options.output)) {
      if (!name.starts_with("caption-cli.layer-")) continue;
      sum += std::ssize(content);
      headers += header_bytes(content);
    }
    layers_bytes = std::max(layers_bytes, sum);
    headers_bytes = std::max(headers_bytes, headers);
  };
  REQUIRE(quantise_checkpoint(options).is_complete);
  std::int64_t whole_bytes = 0;
  for (const auto& [name, content] : files_of(options.output)) {
    if (name != kManifestName) whole_bytes += std::ssize(content);
    if (name.ends_with(".safetensors")) headers_bytes += header_bytes(content);
  }
  options.output = new_folder("quantise_calibrated/room");
  std::int64_t free_bytes = whole_bytes + layers_bytes - headers_bytes - 1;
  options.free_bytes = [&](const fs::path&) { return free_bytes; };
  CHECK(
      contains_text(calibration_error(options, ErrorCode::kIo), "those of single layers included"));
  free_bytes = whole_bytes + layers_bytes;
  std::atomic<bool> stop{false};
  options.stop = &stop;
  options.on_progress = [&](const QuantiseProgress& progress) {
    if (progress.layers_done == 2) stop = true;
  };
  REQUIRE_FALSE(quantise_checkpoint(options).is_complete);
  // Two of four layers are there.
  free_bytes -= layers_bytes / 2;
  stop = false;
  options.on_progress = {};
  CHECK(quantise_checkpoint(options).is_complete);
}

TEST_CASE("a layer's file that is not what the manifest says is made again") {
  const Calibration prompts = draw_prompts(1280, 2, 30, 5);
  QuantiseOptions options =
      calibrated_options(demo_model(), new_folder("quantise_calibrated/whole"), "gptq", &prompts);
  REQUIRE(quantise_checkpoint(options).is_complete);
  const Files expected = files_of(options.output);
  options.output = new_folder("quantise_calibrated/damaged");
  std::atomic<bool> stop{false};
  options.stop = &stop;
  options.on_progress = [&](const QuantiseProgress& progress) { stop = progress.layers_done >= 2; };
  CHECK_FALSE(quantise_checkpoint(options).is_complete);
  std::fstream file(options.output / "caption-cli.layer-00001.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(50'000);
  file.put('\x55').put('\xAA');
  file.close();
  options.stop = nullptr;
  const QuantiseProgress last = last_progress(options);
  CHECK(last.work_done == last.work_total);
  CHECK(files_of(options.output) == expected);
}

TEST_CASE("layers after the last missing one are not computed again") {
  const Calibration prompts = draw_prompts(1280, 2, 30, 6);
  QuantiseOptions options =
      calibrated_options(demo_model(), new_folder("quantise_calibrated/whole"), "gptq", &prompts);
  REQUIRE(quantise_checkpoint(options).is_complete);
  const Files expected = files_of(options.output);
  options.output = new_folder("quantise_calibrated/all_layers");
  std::atomic<bool> stop{false};
  options.stop = &stop;
  std::int64_t whole_work = 0;
  options.on_progress = [&](const QuantiseProgress& progress) {
    whole_work = progress.work_total;
    stop = progress.tensors_done == 1;
  };
  CHECK_FALSE(quantise_checkpoint(options).is_complete);
  REQUIRE(whole_work > 0);
  stop = false;
  const fs::path all_layers = new_folder("quantise_calibrated/some_layers");
  fs::copy(options.output, all_layers);
  QuantiseProgress last = last_progress(options);
  CHECK(last.layers_done == 4);
  CHECK(last.work_total == 0);
  CHECK(files_of(options.output) == expected);
  // The first of four layers is made again, and those after it are kept.
  options.output = all_layers;
  fs::remove(all_layers / "caption-cli.layer-00000.safetensors");
  last = last_progress(options);
  CHECK(last.layers_done == 4);
  CHECK(last.work_done == last.work_total);
  CHECK(last.work_total == whole_work / 4);
  CHECK(files_of(options.output) == expected);
}

TEST_CASE("work within layers is told, is all that was expected, and ends in the same bytes") {
  for (const std::string name :
       {"llama/yarn_mscale", "llama/biased_wide_heads_f16", "mistral/window_linear"}) {
    const DrawnCheckpoint model(golden("families/" + name));
    const Calibration prompts = draw_prompts(decoder_of(model.path()).text->vocab, 3, 300, 12);
    for (const std::string format : {"gptq", "awq"}) {
      // It has 12 rows, which gptq's layout cannot hold.
      if (name == "mistral/window_linear" && format == "gptq") continue;
      CAPTURE(name);
      CAPTURE(format);
      QuantiseOptions options = calibrated_options(
          model.path(), new_folder("quantise_calibrated/untold"), format.c_str(), &prompts, 8);
      REQUIRE(quantise_checkpoint(options).is_complete);
      const Files expected = files_of(options.output);
      options.output = new_folder("quantise_calibrated/told");
      std::atomic<bool> stop{false};
      options.stop = &stop;
      options.on_progress = [&](const QuantiseProgress& p) { stop = p.layers_done == 1; };
      CHECK_FALSE(quantise_checkpoint(options).is_complete);
      stop = false;
      std::int64_t layer_reports = 0;
      QuantiseProgress before;
      const QuantiseProgress last = last_progress(options, [&](const QuantiseProgress& now) {
        CHECK(now.work_done >= before.work_done);
        CHECK(now.work_done <= now.work_total);
        CHECK(now.work_us <= now.layers_us);
        CHECK(now.layers_us <= now.elapsed_us);
        CHECK(now.layer_part >= 0);
        CHECK(now.layer_part <= 1);
        if (now.layers_done == before.layers_done && now.tensors_done == 0) {
          CHECK(now.layer_part > before.layer_part);
          layer_reports += now.layers_done == 1 ? 1 : 0;
        } else if (now.tensors_done == 0) {
          CHECK(before.layer_part == 1);
        }
        before = now;
      });
      CHECK(layer_reports > 30);
      CHECK(last.work_done == last.work_total);
      CHECK(last.bytes_done == last.bytes_total);
      CHECK(files_of(options.output) == expected);
    }
  }
}

TEST_CASE("a call that is stopped within a layer keeps the layers before it") {
  const Calibration prompts = draw_prompts(1280, 3, 40, 13);
  for (const char* const format : {"gptq", "awq"}) {
    CAPTURE(format);
    QuantiseOptions options = calibrated_options(
        demo_model(), new_folder("quantise_calibrated/unstopped"), format, &prompts);
    REQUIRE(quantise_checkpoint(options).is_complete);
    const Files expected = files_of(options.output);
    std::atomic<bool> stop{false};
    options.stop = &stop;
    for (const double part : {0.02, 0.4, 0.8}) {
      CAPTURE(part);
      options.output = new_folder("quantise_calibrated/stopped");
      for (const std::int64_t layer : {0, 2}) {  // each call goes on after the one before it
        CAPTURE(layer);
        std::int64_t reports_after = 0;
        stop = false;
        options.on_progress = [&](const QuantiseProgress& progress) {
          if (stop) ++reports_after;
          if (progress.layers_done >= layer && progress.layer_part >= part) stop = true;
        };
        CHECK_FALSE(quantise_checkpoint(options).is_complete);
        CHECK(reports_after == 0);
        const Files files = files_of(options.output);
        CHECK(files.contains("caption-cli.layer-00000.safetensors") == (layer == 2));
        CHECK_FALSE(files.contains("caption-cli.layer-00002.safetensors"));
        for (const auto& [name, content] : files) CHECK_FALSE(name.ends_with(".partial"));
      }
      stop = false;
      options.on_progress = {};
      CHECK(quantise_checkpoint(options).is_complete);
      CHECK(files_of(options.output) == expected);
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption::quantise
