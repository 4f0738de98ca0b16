// Known clips are neither decoded nor encoded, and get the same captions.
#include "pipeline/vision_cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "fake_model.h"

namespace caption::pipeline {
namespace {

namespace fs = std::filesystem;

fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / ("vision_cache_" + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

// Makes files that have clips' names and different content.
InputList make_files(const fs::path& folder, int count) {
  InputList inputs;
  for (int i = 0; i < count; ++i) {
    const fs::path path = folder / clip_name(i);
    std::ofstream(path, std::ios::binary) << "film " << i;
    inputs.add(path.string(), Origin::kNamed);
  }
  return inputs;
}

std::int64_t num_files_below(const fs::path& folder) {
  return std::count_if(fs::recursive_directory_iterator(folder), fs::recursive_directory_iterator(),
                       [](const fs::directory_entry& entry) { return entry.is_regular_file(); });
}

struct Run {
  int num_read = 0;
  int num_encoded = 0;
  Outcome outcome;
  KeepingSink sink;
};

Run run_once(const InputList& inputs, const fs::path& cache, const std::string& prompt,
             const Hash128& identity = {1, 1}) {
  Run result;
  FakeModel model;
  std::atomic<int> num_read = 0;
  std::atomic<int> num_encoded = 0;
  model.on_encode = [&](int) { ++num_encoded; };
  Options options = fake_options();
  options.read_clip = [&](const OpenFile& file, const video::ReadOptions& read) {
    ++num_read;
    video::Clip clip = make_clip(file, read);
    clip.warnings = {"a warning"};
    return clip;
  };
  options.prompts = {{"", prompt}};
  options.engine.prefix_cache = engine::PrefixCache::kOn;
  options.engine.page_identity = identity;
  options.engine.disk.folder = cache;
  options.vision_cache = {.folder = cache, .identity = identity};
  result.outcome = run(model, inputs, options, result.sink);
  result.num_read = num_read;
  result.num_encoded = num_encoded;
  return result;
}

// Returns options with the cache below `folder` and one decode thread; `at_first` is called for the
// first clip that is read.
Options options_with(const fs::path& folder, int& num_read,
                     const std::function<void(const OpenFile&)>& at_first) {
  Options options = fake_options();
  options.read_clip = [&num_read, at_first](const OpenFile& file, const video::ReadOptions& read) {
    if (++num_read == 1) at_first(file);
    return make_clip(file, read);
  };
  options.engine.prefix_cache = engine::PrefixCache::kOn;
  options.vision_cache.folder = folder / "cache";
  return options;
}

void check_captions(const Run& run, int shift) {
  for (const records::Record& record : run.sink.kept) {
    const int number = clip_number(fs::path(record.video).filename().string());
    CHECK(record.caption == expected_caption(number, shift));
    CHECK(record.frames_used == 2);
    CHECK(record.window_end_s == doctest::Approx(number / 1000.0));
    CHECK(record.warnings == std::vector<std::string>{"a warning"});
  }
}

TEST_SUITE("pipeline/vision_cache") {
  TEST_CASE("a second run with another prompt decodes and encodes nothing") {
    const fs::path folder = fresh_folder("second");
    const InputList inputs = make_files(folder, 20);
    const Run first = run_once(inputs, folder / "cache", "");
    CHECK(first.num_read == 20);
    CHECK(first.outcome.clips_seen_before == 0);
    const Run second = run_once(inputs, folder / "cache", "+20");
    CHECK(second.num_read == 0);
    CHECK(second.num_encoded == 0);
    CHECK(second.outcome.clips_seen_before == 20);
    CHECK(second.outcome.busy.decode_us == 0);
    CHECK(second.outcome.busy.vision_us == 0);
    REQUIRE(second.sink.kept.size() == 20);
    check_captions(first, 0);
    check_captions(second, 20);
    for (const records::Record& record : second.sink.kept) {
      CHECK(record.decode_ms == 0);
      CHECK(record.vision_ms == 0);
    }
  }

  TEST_CASE("another film under the name, or another identity, is seen anew") {
    const fs::path folder = fresh_folder("changed");
    const InputList inputs = make_files(folder, 2);
    run_once(inputs, folder / "cache", "");
    std::ofstream(std::string(inputs.path(0)), std::ios::binary) << "another film";
    CHECK(run_once(inputs, folder / "cache", "").num_read == 1);
    CHECK(run_once(inputs, folder / "cache", "", {1, 2}).num_read == 2);
    CHECK(run_once(inputs, folder / "cache", "").num_read == 0);
  }

  TEST_CASE("films that XXH3-128 confuses are two films") {
    // XXH3 adds (w ^ secret).low * (w ^ secret).high for each eight-byte word w. Where the low half
    // of w equals that of the public secret, the product is 0, and two such words of different
    // stripes may exchange their high halves without changing the hash. The bytes below are words 1
    // and 2 of the secret, placed so that they meet these words after a key's first 16 bytes,
    // whatever those are.
    const auto colliding = [](char first, char second) {
      std::string bytes(512, '\0');
      bytes.replace(48, 4, "\x7c\x01\x81\x2c");
      bytes.replace(112, 4, "\xde\xd4\x6d\xe9");
      bytes[52] = first;
      bytes[116] = second;
      return bytes;
    };
    const auto xxh3_key = [&](const std::string& film) {
      return hash_string("sixteen bytes: ." + film);
    };
    REQUIRE(xxh3_key(colliding(1, 2)) == xxh3_key(colliding(2, 1)));
    const fs::path folder = fresh_folder("collision");
    InputList inputs;
    for (int i = 0; i < 2; ++i) {
      const fs::path path = folder / clip_name(i);
      std::ofstream(path, std::ios::binary) << (i == 0 ? colliding(1, 2) : colliding(2, 1));
      inputs.add(path.string(), Origin::kNamed);
    }
    for (int round = 0; round < 2; ++round) {
      const Run run = run_once(inputs, folder / "cache", "");
      CHECK(run.num_read == (round == 0 ? 2 : 0));
      REQUIRE(run.sink.kept.size() == 2);
      CHECK(run.sink.kept[0].id != run.sink.kept[1].id);
      check_captions(run, 0);
    }
  }

  TEST_CASE("a film that cannot be read whole is not kept, and read anew by the next run") {
    const fs::path folder = fresh_folder("read_error");
    const InputList inputs = make_files(folder, 1);
    FakeModel model;
    int num_read = 0;
    const Options options = options_with(folder, num_read, [](const OpenFile& file) {
      throw Error(ErrorCode::kIo,
                  file.path().string() + ": cannot be read at byte 4096: Input/output error");
    });
    KeepingSink sink;
    for (int round = 0; round < 3; ++round) run(model, inputs, options, sink);
    REQUIRE(sink.kept.size() == 3);
    CHECK(sink.kept[0].error->code == "io_error");
    CHECK(sink.kept[1].caption == expected_caption(0));
    CHECK(sink.kept[2].caption == expected_caption(0));
    CHECK(num_read == 2);
  }

  TEST_CASE("neither vision tokens nor pages are kept of a model whose files have changed") {
    for (const bool has_vision_cache : {false, true}) {
      CAPTURE(has_vision_cache);
      const fs::path folder = fresh_folder("changed_model");
      const InputList inputs = make_files(folder, 2);
      FakeModel model;
      Options options = fake_options();
      options.prompts = {{"", "+20"}};
      options.engine.prefix_cache = engine::PrefixCache::kOn;
      options.engine.disk.folder = folder / "cache";
      if (has_vision_cache) options.vision_cache.folder = folder / "cache";
      KeepingSink sink;
      model.changed_file = "weights changed";
      CHECK_THROWS_WITH_AS(run(model, inputs, options, sink), "weights changed", Error);
      CHECK(sink.kept.empty());
      CHECK(num_files_below(folder / "cache") == 0);
      model.changed_file.reset();
      run(model, inputs, options, sink);
      CHECK(sink.kept.size() == 2);
      CHECK(num_files_below(folder / "cache/pages") == 2);
      if (has_vision_cache) CHECK(num_files_below(folder / "cache/vision") == 2);
    }
  }

  TEST_CASE("a damaged cache is seen anew, and the captions are the same") {
    set_log_level(LogLevel::kError);
    const fs::path folder = fresh_folder("damaged");
    const InputList inputs = make_files(folder, 3);
    run_once(inputs, folder / "cache", "");
    for (const auto& entry : fs::recursive_directory_iterator(folder / "cache")) {
      if (entry.is_regular_file()) fs::resize_file(entry.path(), entry.file_size() - 1);
    }
    const Run again = run_once(inputs, folder / "cache", "+20");
    CHECK(again.num_read == 3);
    check_captions(again, 20);
    set_log_level(LogLevel::kInfo);
  }

  TEST_CASE("a film that changes while it is decoded is not kept") {
    const fs::path folder = fresh_folder("growing");
    const InputList inputs = make_files(folder, 1);
    FakeModel model;
    int num_read = 0;
    const Options options = options_with(folder, num_read, [](const OpenFile& file) {
      std::ofstream(file.path(), std::ios::binary | std::ios::app) << "more";
    });
    KeepingSink sink;
    run(model, inputs, options, sink);
    make_files(folder, 1);  // restores the bytes that were hashed
    run(model, inputs, options, sink);
    CHECK(num_read == 2);
    run(model, inputs, options, sink);
    CHECK(num_read == 2);
  }

  TEST_CASE("tokens that do not fit the model are not found") {
    const fs::path folder = fresh_folder("shape");
    FakeModel model;
    VisionCache cache({.folder = folder, .max_bytes = 1 << 20}, model);
    auto is_found = [&, key = Hash128{}](const Shape& shape, std::int64_t frames) mutable {
      ++key.low;
      SeenClip clip;
      clip.tokens = Tensor::zeros(DType::kF32, shape);
      clip.shape.num_frames = frames;
      clip.shape.times_s.resize(static_cast<std::size_t>(frames));
      cache.store(key, clip);
      return cache.find(key).has_value();
    };
    CHECK(is_found({1, 2}, 8));
    CHECK_FALSE(is_found({2, 2}, 8));
    SeenClip without_times;
    without_times.tokens = Tensor::zeros(DType::kF32, {1, 2});
    without_times.shape.num_frames = 8;
    cache.store({.high = 1, .low = 1}, without_times);
    CHECK_FALSE(cache.find({.high = 1, .low = 1}).has_value());
    for (const double time_s : {1e300, -1e300, std::nan("")}) {
      SeenClip endless;
      endless.tokens = Tensor::zeros(DType::kF32, {1, 2});
      endless.shape = {.num_frames = 1, .times_s = {time_s}};
      cache.store({.high = 1, .low = 2}, endless);
      CHECK_FALSE(cache.find({.high = 1, .low = 2}).has_value());
    }
    CHECK_FALSE(is_found({1, 3}, 8));
    CHECK_FALSE(is_found({1, 2}, 0));
  }

  TEST_CASE("the corpus of the fuzz target has clips of this layout") {
    const auto is_clip = [](const std::string& name) {
      const MappedFile file(fs::path(CAPTION_SOURCE_DIR) / "tests/fuzz/corpus/seen_clip" / name);
      return parse_seen_clip(file.bytes()).has_value();
    };
    CHECK(is_clip("good"));
    CHECK(is_clip("suspicious"));
    CHECK_FALSE(is_clip("cut"));
    CHECK_FALSE(is_clip("other_layout"));
  }

  TEST_CASE("a file that is not there fails as without a cache") {
    set_log_level(LogLevel::kError);
    const fs::path folder = fresh_folder("missing");
    FakeModel model;
    Options options = fake_options();
    options.read_clip = [](const OpenFile& file, const video::ReadOptions& how) {
      return video::read_clip(file, how);
    };
    options.engine.prefix_cache = engine::PrefixCache::kOn;
    options.vision_cache.folder = folder / "cache";
    KeepingSink sink;
    run(model, list_of({{(folder / "nothing.mp4").string(), Origin::kNamed}}), options, sink);
    REQUIRE(sink.kept.size() == 1);
    CHECK(sink.kept[0].error->code == "not_found");
    set_log_level(LogLevel::kInfo);
  }

  TEST_CASE("the bytes of a clip read back, and no cut or foreign bytes do") {
    SeenClip clip;
    clip.tokens = Tensor::zeros(DType::kF32, {3, 5});
    clip.tokens.as<float>()[14] = 2.5F;
    clip.pixel_content = {3, 4};
    clip.frames_wanted = 8;
    clip.shape.num_frames = 7;
    clip.duration_us = 1'000'000;
    clip.suspicion = "every frame is black";
    clip.warnings = {"한 장면이 없습니다", ""};
    const std::vector<std::byte> bytes = to_bytes(clip);
    const std::optional<SeenClip> back = parse_seen_clip(bytes);
    REQUIRE(back.has_value());
    CHECK(to_bytes(*back) == bytes);
    CHECK(back->tokens.as<float>()[14] == 2.5F);
    CHECK(back->warnings == clip.warnings);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      CHECK_FALSE(parse_seen_clip(std::span(bytes).first(size)).has_value());
    }
    std::vector<std::byte> longer = bytes;
    longer.push_back({});
    CHECK_FALSE(parse_seen_clip(longer).has_value());
    CHECK_FALSE(parse_seen_clip(std::vector<std::byte>(200, std::byte{0xff})).has_value());
    for (std::size_t byte = 0; byte < 8; ++byte) {  // each change makes it another layout
      std::vector<std::byte> other = bytes;
      other[byte] ^= std::byte{1};
      CHECK_FALSE(parse_seen_clip(other).has_value());
    }
    // The layout before the one with a version began with the pixels' content.
    CHECK_FALSE(parse_seen_clip(std::span(bytes).subspan(8)).has_value());
  }
}

}  // namespace
}  // namespace caption::pipeline
