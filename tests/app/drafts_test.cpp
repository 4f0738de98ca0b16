// Tests that speculative decoding changes the time of captions and nothing else.
#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/app/process.h"
#include "tests/support/drawn_checkpoint.h"
#include "tests/video/make_clip.h"
#include "weights/checkpoint.h"
#include "weights/safetensors_writer.h"

namespace caption::test {
namespace {

using Arguments = std::vector<std::string>;

std::map<std::string, std::string> captions_of(const std::string& text) {
  std::map<std::string, std::string> captions;
  for (const records::Record& record : parse_records(text)) {
    CHECK(captions.emplace(record.video, record.caption).second);
  }
  return captions;
}

Finished caption(Arguments options) {
  options.insert(options.begin(), {"run", small_video("").string()});
  return run_cli(options);
}

std::string references() {
  return (std::filesystem::path(CAPTION_SOURCE_DIR) / "samples/references.jsonl").string();
}

std::filesystem::path demo_model() {
  return std::filesystem::path(CAPTION_SOURCE_DIR) / "samples/demo-model";
}

// The demonstration model without the decoder's layers but the first; with `is_random`, the
// decoder's matrices are random.
std::string make_small_model(const std::filesystem::path& folder, bool is_random) {
  std::filesystem::copy(demo_model(), folder);
  std::string config = read_text(folder / "config.json");
  const std::string layers = "\"num_hidden_layers\": 4";
  const std::size_t at = config.find(layers);
  REQUIRE(at != std::string::npos);
  write_text(folder / "config.json", config.replace(at, layers.size(), "\"num_hidden_layers\": 1"));
  const auto from = weights::Checkpoint::open(demo_model());
  const auto is_dropped = [](const std::string& name) {
    const bool is_of_layer = name.find("language_model.model.layers.") == 0;
    return is_of_layer && name.find("layers.0.") == std::string::npos;
  };
  std::vector<weights::PlannedTensor> tensors;
  for (const std::string& name : from.names()) {
    if (!is_dropped(name)) tensors.push_back(weights::plan_copy(from, name));
  }
  weights::SafetensorsWriter writer(folder / "model.safetensors", tensors);
  std::mt19937 rng(9);
  for (const weights::PlannedTensor& tensor : tensors) {
    const bool is_drawn = is_random && tensor.name.find("language_model") == 0 &&
                          tensor.name.find("norm") == std::string::npos;
    if (!is_drawn) {
      writer.copy(from, tensor.name);
      continue;
    }
    // bf16 numbers of both signs between 2^-7 and 2^-6.
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.size_bytes));
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
      bytes[i] = static_cast<std::byte>(rng() % 128);
      bytes[i + 1] = static_cast<std::byte>(rng() % 2 == 0 ? 0x3c : 0xbc);
    }
    writer.write(tensor.name, bytes);
  }
  writer.finish();
  return folder.string();
}

// A preset whose draft model always guesses as many tokens as it may.
std::string make_preset(const std::filesystem::path& path, const std::string& more) {
  write_text(path, "model: " + demo_model().string() +
                       "\nspeculative:\n  method: model\n  adaptive: false\n" + more);
  return path.string();
}

TEST_SUITE("app/drafts") {
  TEST_CASE("captions with a draft model are those without, and one with video is right") {
    const TemporaryFolder folder;
    const std::string small = make_small_model(folder.path() / "small", false);
    const std::string random = make_small_model(folder.path() / "random", true);
    const std::string forced = make_preset(folder.path() / "forced.yaml", "");
    const std::string of_text =
        make_preset(folder.path() / "text.yaml", "  draft_video: false\n  num_draft_tokens: 3\n");
    const std::vector<Arguments> generations = {
        {"--frames", "2", "--limit", "6", "--max-num-seqs", "1"},
        {"--frames", "2", "--limit", "4", "--batching", "static", "--stop", "\xEB\x8B\xA4."},
        {"--frames", "2", "--limit", "4", "--temperature", "0.9", "--seed", "7",
         "--repetition-penalty", "1.1"}};
    const std::vector<Arguments> drafts = {
        {"--preset", forced, "--draft-model", demo_model().string()},
        {"--preset", forced, "--draft-model", small},
        {"--preset", of_text, "--draft-model", random},
        {"--drafts", "archive", "--draft-model", small}};
    for (const Arguments& generation : generations) {
      const auto expected = captions_of(caption(generation).out);
      CHECK(expected.size() >= 4);
      for (const Arguments& draft : drafts) {
        CAPTURE(draft);
        Arguments options = generation;
        options.insert(options.end(), draft.begin(), draft.end());
        const Finished finished = caption(options);
        CHECK(finished.exit_code == 0);
        CHECK(captions_of(finished.out) == expected);
      }
    }
    // The model is right in all of its own guesses but those after the end of a caption.
    const Finished own = caption({"--preset", forced, "--draft-model", demo_model().string(),
                                  "--max-num-seqs", "1", "--frames", "2"});
    const std::size_t at = own.err.find("per step; model: ");
    REQUIRE(at != std::string::npos);
    long right = 0;
    long all = 0;
    REQUIRE(std::sscanf(own.err.c_str() + at, "per step; model: %ld of %ld right", &right, &all) ==
            2);
    constexpr long kMostAfterEnd = 7;  // guesses after a caption's end: num_draft_tokens is 8
    CHECK(right >= all - kMostAfterEnd * static_cast<long>(sample_videos().size()));
    CHECK(right > all / 2);
  }

  TEST_CASE("a draft model of another family, with another vocabulary, changes no caption") {
    const TemporaryFolder folder;
    const Arguments generation = {"--frames", "2", "--limit", "4"};
    const auto expected = captions_of(caption(generation).out);
    for (const char* const name : {"qwen3_vl/tied_bf16", "internvl/byte_level_qwen3"}) {
      CAPTURE(std::string(name));
      const testing::DrawnCheckpoint draft(std::filesystem::path(CAPTION_SOURCE_DIR) /
                                           "tests/golden" / name);
      for (const char* const video : {"true", "false"}) {
        const std::string preset = make_preset(folder.path() / "forced.yaml",
                                               "  draft_video: " + std::string(video) + "\n");
        Arguments options = generation;
        options.insert(options.end(), {"--preset", preset, "--draft-model", draft.path()});
        const Finished finished = caption(options);
        CAPTURE(finished.err);
        CHECK(finished.exit_code == 0);
        CHECK(captions_of(finished.out) == expected);
        CHECK(finished.err.find("its vocabulary has ") != std::string::npos);
        CHECK(finished.err.find("per step; model: ") != std::string::npos);
      }
    }
  }

  TEST_CASE("a draft model that cannot guess is one sentence that names it") {
    const TemporaryFolder folder;
    const std::string small = make_small_model(folder.path() / "small", false);
    const auto refusal = [](const Arguments& options) {
      const Finished finished = caption(options);
      CHECK(finished.exit_code != 0);
      CHECK(finished.out.empty());
      Arguments plan = {"plan", "--bandwidth", "100", "--flops", "1000"};
      plan.insert(plan.end(), options.begin(), options.end());
      CHECK(run_cli(plan).exit_code == finished.exit_code);
      return finished.err;
    };
    const auto says = [](const std::string& text, const std::string& part) {
      CAPTURE(text);
      CHECK(text.find(part) != std::string::npos);
    };
    says(refusal({"--drafts", "model"}), "--draft-model names one");
    says(refusal({"--draft-model", small}), "--drafts model guesses with it");
    says(refusal({"--drafts", "model", "--draft-model", "/no/such/folder"}),
         "draft model /no/such/folder: ");
    says(refusal({"--drafts", "model", "--draft-model", demo_model().string(), "--model", small}),
         "larger than the model it would guess for");
    const std::filesystem::path broken = folder.path() / "broken";
    std::filesystem::copy(small, broken);
    write_text(broken / "model.safetensors", "no tensors");
    says(refusal({"--drafts", "model", "--draft-model", broken.string()}),
         "draft model " + broken.string() + ": ");
    for (const char* const count : {"0", "1000"}) {
      const std::string preset = make_preset(folder.path() / "count.yaml",
                                             "  num_draft_tokens: " + std::string(count) + "\n");
      says(refusal({"--preset", preset, "--draft-model", small}), "expected 1 to 32");
    }
  }

  TEST_CASE("the caption of a clip like another one is verified in the step that ends its prompt") {
    const TemporaryFolder folder;
    const std::vector<std::filesystem::path> samples = small_videos();
    constexpr std::size_t kNumFirst = 4;
    REQUIRE(samples.size() >= kNumFirst);
    // Each clip is as many clips before its copy as there are clips, and one thread decodes them in
    // their order, so that no batch has both.
    Arguments clips;
    std::set<std::string> copies;
    for (const bool is_copy : {false, true}) {
      for (std::size_t i = 0; i < kNumFirst; ++i) {
        std::filesystem::path clip = samples[i];
        if (is_copy) {
          // The same pictures in a file of other content: zeros after the end.
          clip = folder.path() / ("copy-" + samples[i].filename().string());
          write_text(clip, read_text(samples[i]) + std::string(64, '\0'));
          copies.insert(clip.string());
        }
        clips.push_back(clip.string());
      }
    }
    const std::string preset = folder.path() / "always.yaml";
    write_text(preset, "model: " + demo_model().string() +
                           "\nspeculative:\n  method: archive\n  adaptive: false\n");
    const auto caption_all = [&](Arguments options) {
      options.insert(options.begin(), {"run", "--frames", "2", "--threads", "1"});
      options.insert(options.end(), clips.begin(), clips.end());
      const Finished finished = run_cli(options);
      CHECK(finished.exit_code == 0);
      return finished.out;
    };
    const std::vector<Arguments> settings = {
        {"--max-num-seqs", "1"},
        {"--max-num-seqs", "2", "--batching", "static", "--prefix-cache", "true"},
        {"--max-num-seqs", "1", "--stop", "\xEB\x8B\xA4."}};
    for (const Arguments& setting : settings) {
      CAPTURE(setting);
      const auto expected = captions_of(caption_all(setting));
      Arguments options = setting;
      options.insert(options.end(), {"--preset", preset});
      const std::string out = caption_all(options);
      CHECK(captions_of(out) == expected);
      std::set<std::string> verified;
      for (const records::Record& record : parse_records(out)) {
        REQUIRE(record.speculation.has_value());
        if (record.speculation->steps != 1) continue;
        for (const records::Speculation::Source& source : record.speculation->sources) {
          if (source.name != "copy") continue;
          CHECK(source.accepted == source.computed);
          verified.insert(record.video);
        }
      }
      CHECK(verified == copies);
    }
  }

  TEST_CASE("a run with beams says that they have no drafts") {
    const TemporaryFolder folder;
    write_text(folder.path() / "archive.yaml", "speculative:\n  method: archive\n");
    const std::string preset = (folder.path() / "archive.yaml").string();
    for (const auto& [drafts, line] :
         {std::pair(Arguments{"--drafts", "ngram"},
                    "warning: run: --drafts has no effect on beams\n"),
          std::pair(Arguments{"--preset", preset},
                    "run: the preset's drafts (archive) have no effect on beams\n")}) {
      Arguments options = {"--num-beams", "2", "--limit", "1", "--frames", "2"};
      options.insert(options.end(), drafts.begin(), drafts.end());
      const Finished beams = caption(options);
      CAPTURE(beams.err);
      CHECK(beams.exit_code == 0);
      const std::size_t first = beams.err.find(line);
      CHECK(first != std::string::npos);
      CHECK(beams.err.find("effect on beams", first + std::string(line).size()) ==
            std::string::npos);
    }
  }

  TEST_CASE("captions with drafts are those without, greedy and drawn") {
    const std::vector<Arguments> generations = {
        {"--frames", "2", "--max-num-seqs", "1"},
        {"--frames", "2", "--limit", "6", "--temperature", "0.9", "--seed", "7",
         "--repetition-penalty", "1.1", "--no-repeat-ngram-size", "4"}};
    const std::vector<Arguments> methods = {{"--drafts", "ngram"},
                                            {"--drafts", "archive"},
                                            {"--drafts", "archive", "--batching", "static"},
                                            {"--drafts", "archive", "--draft-from", references()}};
    for (const Arguments& generation : generations) {
      const auto expected = captions_of(caption(generation).out);
      CHECK(expected.size() >= 6);
      for (const Arguments& method : methods) {
        CAPTURE(method);
        Arguments options = generation;
        options.insert(options.end(), method.begin(), method.end());
        const Finished finished = caption(options);
        CHECK(finished.exit_code == 0);
        CHECK(captions_of(finished.out) == expected);
      }
    }
  }

  TEST_CASE(
      "drafts from references and earlier records are accepted, and the summary counts them") {
    const TemporaryFolder folder;
    const std::string output = (folder.path() / "captions.jsonl").string();
    const auto caption_alone = [](Arguments options) {
      options.insert(options.end(), {"--frames", "2", "--max-num-seqs", "1"});
      return caption(options);
    };
    const Finished first =
        caption_alone({"-o", output, "--drafts", "archive", "--draft-from", references()});
    CHECK(first.err.find("tokens of a caption per step; archive: ") != std::string::npos);
    CHECK(first.err.find(" of the engine's steps, which ") != std::string::npos);
    for (const records::Record& record : parse_records(read_text(output))) {
      REQUIRE(record.speculation.has_value());
      std::int64_t num_accepted = 0;
      for (const records::Speculation::Source& source : record.speculation->sources) {
        CHECK(source.accepted <= source.computed);
        num_accepted += source.accepted;
      }
      // One token of each step is not a draft; the draft that ends an output gives no further one.
      const std::int64_t num_left = record.output_tokens - record.speculation->steps;
      CHECK(num_accepted >= num_left);
      CHECK(num_accepted <= num_left + 1);
    }
    const std::string other = (folder.path() / "other.jsonl").string();
    const Finished second =
        caption_alone({"-o", other, "--drafts", "archive", "--draft-from", output});
    CHECK(second.err.find("tokens of a caption per step; archive: ") != std::string::npos);
    CHECK(captions_of(read_text(other)) == captions_of(read_text(output)));
    const Finished none = caption({"--drafts", "none", "--limit", "1", "--frames", "2"});
    CHECK(none.err.find("tokens of a caption") == std::string::npos);
    CHECK(none.out.find("speculation") == std::string::npos);
  }

  TEST_CASE("a run that ends before the search for layers says so, and the next one begins anew") {
    const TemporaryFolder cache;
    for (int run = 0; run < 2; ++run) {
      const Finished finished =
          run_cli({"run", small_video("").string(), "--drafts", "self", "--limit", "1"}, "",
                  {{"XDG_CACHE_HOME", cache.path().string()}});
      CHECK(finished.exit_code == 0);
      CHECK(finished.err.find("run: drafts: none was computed: the search for the layers to leave "
                              "out is not finished (") != std::string::npos);
      CHECK(finished.err.find("and the next run begins it anew") != std::string::npos);
    }
  }

  TEST_CASE("what cannot be drafted from is one sentence") {
    const TemporaryFolder folder;
    const Finished without = caption({"--draft-from", references()});
    CHECK(without.exit_code == 2);
    CHECK(without.err.find("--drafts archive") != std::string::npos);
    const Finished missing =
        caption({"--drafts", "archive", "--draft-from", (folder.path() / "none.jsonl").string()});
    CHECK(missing.exit_code == 3);
    CHECK(missing.err.find("none.jsonl") != std::string::npos);
    const std::string broken = (folder.path() / "broken.jsonl").string();
    write_text(broken, "{\"video\": \"a.mp4\", \"captions\": [\"바다\"]}\n{\"video\": \n");
    const Finished cut = caption({"--drafts", "archive", "--draft-from", broken});
    CHECK(cut.exit_code != 0);
    CHECK(cut.err.find("broken.jsonl:2") != std::string::npos);
    CHECK(cut.out.empty());
    write_text(broken, "{\"video\": \"a.mp4\", \"captions\": [\"바다\"]}\n{\"video\": ");
    const Finished torn = caption({"--drafts", "archive", "--draft-from", broken});
    CHECK(torn.exit_code == 0);
    CHECK(torn.err.find("its last line is torn, and is left out") != std::string::npos);
    const Finished from_stdin = caption({"--drafts", "archive", "--draft-from", "-"});
    CHECK(from_stdin.exit_code == 2);
    CHECK(from_stdin.err.find("--draft-from -: standard input is not read") != std::string::npos);
    const Finished unknown = caption({"--drafts", "luck"});
    CHECK(unknown.exit_code == 2);
    CHECK(unknown.err.find("none, ngram, archive") != std::string::npos);
  }
}

}  // namespace
}  // namespace caption::test
