// The prefix cache as its user sees it: which tokens are computed and which are found, and that the
// output does not depend on it.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "engine/engine.h"
#include "tests/engine/fake_decoder.h"

namespace caption::engine {
namespace {

namespace fs = std::filesystem;

struct Room {
  ThreadPool pool{1};
  Stream stream{testing::tested_context(), pool};
  FakeDecoder decoder;
};

EngineOptions cached_options(std::int64_t num_pages) {
  EngineOptions options = options_with_pages(num_pages);
  options.prefix_cache = PrefixCache::kOn;
  options.page_identity = {1, 2};
  return options;
}

fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / name;
  fs::remove_all(folder);
  return folder;
}

// Flips a byte in the middle of each file; returns the number of files.
int flip_a_byte_of_every_file(const fs::path& folder) {
  int num_files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(entry.file_size() / 2);
    file.seekg(middle);
    const int byte = file.get();
    file.seekp(middle);
    file.put(static_cast<char>(byte ^ 0x10));
    ++num_files;
  }
  return num_files;
}

// Requests of one family share 45 tokens up to the end of the video, which fill two pages and part
// of a third.
constexpr std::int64_t kSharedTokens = 45;
constexpr std::int64_t kSharedPageTokens = 32;

TEST_SUITE("engine/prefix cache") {
  TEST_CASE("prompts on different videos share what comes before them") {
    constexpr std::int64_t kShown = 40, kOwn = 25;
    const auto vision_of = [](std::int64_t rows, float first) {
      Tensor vision(DType::kF32, Shape{rows, kFakeHidden});
      std::iota(vision.as<float>(), vision.as<float>() + rows * kFakeHidden, first);
      return std::make_shared<const Tensor>(std::move(vision));
    };
    const SharedVision shown = {.tokens = vision_of(kShown, 1), .content = {5, 6}};
    const auto request_of = [&](float video, bool in_one_piece) {
      Request request;
      request.sampling.max_new_tokens = 6;
      for (std::int32_t i = 0; i < 3 + kShown + 4 + kOwn + 2; ++i) {
        const bool is_vision =
            (i >= 3 && i < 3 + kShown) || (i >= 7 + kShown && i < 7 + kShown + kOwn);
        if (is_vision) request.vision_positions.push_back(i);
        request.prompt_ids.push_back(is_vision ? 32000 : i % 40);
      }
      request.leading_vision = {shown};
      request.vision = vision_of(kOwn, video);
      if (in_one_piece) {
        Tensor whole(DType::kF32, Shape{kShown + kOwn, kFakeHidden});
        std::copy_n(shown.tokens->as<float>(), kShown * kFakeHidden, whole.as<float>());
        std::copy_n(request.vision->as<float>(), kOwn * kFakeHidden,
                    whole.as<float>() + kShown * kFakeHidden);
        request.leading_vision.clear();
        request.vision = std::make_shared<const Tensor>(std::move(whole));
      }
      return request;
    };
    for (const std::int32_t step_tokens : {7, 16, 200}) {  // chunks that end anywhere
      CAPTURE(step_tokens);
      Room room;
      EngineOptions options = cached_options(100);
      options.max_num_batched_tokens = step_tokens;
      TestedEngine engine(room.decoder, room.stream, options);
      std::int64_t before = 0;
      for (const float video : {1000.0F, 2000.0F, 3000.0F}) {
        const Request request = request_of(video, false);
        engine.submit(request);
        const std::vector<Completion> completions = run_until_idle(engine);
        REQUIRE(completions.size() == 1);
        CHECK(completions[0].output_ids == expected_output(request));
        CHECK(completions[0].output_ids == expected_output(request_of(video, true)));
        // All full pages before the video: 47 tokens.
        CHECK(engine.stats().prefix_hit_tokens - before == (video == 1000.0F ? 0 : 32));
        before = engine.stats().prefix_hit_tokens;
      }
    }
  }

  TEST_CASE("pieces of vision tokens that are more or fewer than their places are refused") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, cached_options(100));
    Request request = family_request(1, 2, 120);  // 40 vision tokens
    request.leading_vision = {{.tokens = request.vision, .content = {1, 2}}};
    request.vision = nullptr;
    CHECK_NOTHROW(engine.submit(request));
    request.vision_positions.pop_back();
    CHECK_THROWS_WITH_AS(engine.submit(request), doctest::Contains("vision tokens of shape"),
                         Error);
    request.leading_vision.clear();
    CHECK_THROWS_WITH_AS(engine.submit(request), doctest::Contains("vision tokens of shape"),
                         Error);
  }

  TEST_CASE("prompts on one video compute what they share once, also when they come together") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, cached_options(100));
    std::int64_t num_prompt_tokens = 0;
    std::vector<Request> requests;
    for (std::uint64_t i = 0; i < 3; ++i) {
      requests.push_back(family_request(1, 100 + i, 120));
      num_prompt_tokens += std::ssize(requests.back().prompt_ids);
      engine.submit(requests.back());
    }
    const std::vector<Completion> completions = run_until_idle(engine);
    std::int64_t num_cached = 0;
    for (const Completion& c : completions) {
      CHECK(c.output_ids == expected_output(requests[static_cast<std::size_t>(c.id)]));
      num_cached += c.cached_tokens;
    }
    CHECK(num_cached >= 2 * kSharedPageTokens);
    const EngineStats stats = engine.stats();
    CHECK(stats.prefix_hit_tokens == num_cached);
    CHECK(stats.prefix_lookup_tokens == num_prompt_tokens);
    CHECK(stats.prefill_tokens == num_prompt_tokens - num_cached);
    CHECK(stats.prefix_hit_rate() == doctest::Approx(static_cast<double>(num_cached) /
                                                     static_cast<double>(num_prompt_tokens)));
  }

  TEST_CASE("another video, or the same ids with another picture behind them, is no hit") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, cached_options(100));
    const Request one = family_request(1, 100, 120);
    Request other = one;
    Tensor changed = one.vision->clone();
    changed.as<float>()[3] += 1;
    other.vision = std::make_shared<const Tensor>(std::move(changed));
    for (const Request& request : {one, other, family_request(2, 100, 120)}) {
      engine.submit(request);
      const Completion completion = run_until_idle(engine).at(0);
      CHECK(completion.cached_tokens == 0);
      CHECK(completion.output_ids == expected_output(request));
    }
    engine.submit(one);
    CHECK(run_until_idle(engine).at(0).cached_tokens >= kSharedPageTokens);
  }

  TEST_CASE("the content of the vision tokens may be given by who made them") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, cached_options(100));
    Request request = family_request(1, 100, 120);
    request.vision_content = Hash128{5, 5};
    engine.submit(request);
    CHECK(run_until_idle(engine).at(0).cached_tokens == 0);
    engine.submit(request);
    CHECK(run_until_idle(engine).at(0).cached_tokens >= kSharedPageTokens);
    request.vision_content = Hash128{5, 6};
    engine.submit(request);
    CHECK(run_until_idle(engine).at(0).cached_tokens == 0);
  }

  TEST_CASE("requests whose pages are computed otherwise share none") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, cached_options(100));
    Request request = family_request(1, 100, 120);
    engine.submit(request);
    CHECK(run_until_idle(engine).at(0).cached_tokens == 0);
    request.page_identity = Hash128{77, 2};  // as with an adapter
    engine.submit(request);
    CHECK(run_until_idle(engine).at(0).cached_tokens == 0);
    engine.submit(request);
    CHECK(run_until_idle(engine).at(0).cached_tokens >= kSharedPageTokens);
  }

  TEST_CASE("a whole prompt in the cache still computes its last token") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, cached_options(100));
    Request request;
    for (std::int32_t i = 0; i < 48; ++i) request.prompt_ids.push_back(i);  // exactly three pages
    request.sampling.max_new_tokens = 5;
    engine.submit(request);
    run_until_idle(engine);
    engine.submit(request);
    const Completion again = run_until_idle(engine).at(0);
    CHECK(again.cached_tokens == 32);
    CHECK(again.output_ids == expected_output(request));
  }

  TEST_CASE("when memory is short the cache gives way, and the tokens stay the same") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, cached_options(9));
    for (std::uint64_t i = 0; i < 60; ++i) {
      Request request = family_request(i % 2, i, 100);  // leaves three pages
      request.sampling.num_beams = 1;
      engine.submit(request);
      CHECK(run_until_idle(engine).at(0).output_ids == expected_output(request));
    }
    CHECK(engine.stats().evicted_pages > 50);
    CHECK(engine.stats().prefix_hit_tokens > 0);
  }

  TEST_CASE("off, nothing is looked up") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(100));
    for (int i = 0; i < 2; ++i) {
      engine.submit(family_request(1, 100, 120));
      CHECK(run_until_idle(engine).at(0).cached_tokens == 0);
    }
    CHECK(engine.stats().prefix_lookup_tokens == 0);
    CHECK(engine.stats().prefix_hit_rate() == 0);
  }
}

TEST_SUITE("engine/host tier") {
  EngineOptions options_with_host_pages(std::int64_t num_pages, std::int64_t num_host_pages) {
    EngineOptions options = cached_options(num_pages);
    options.host_pages_bytes = num_host_pages * options.kv_cache_bytes / num_pages;
    return options;
  }

  // Ten requests on ten videos, one after the other, and the same again.
  EngineStats run_twice(const EngineOptions& options) {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options);
    for (std::uint64_t i = 0; i < 20; ++i) {
      const Request request = family_request(i % 10, i, 100);
      engine.submit(request);
      CHECK(run_until_idle(engine).at(0).output_ids == expected_output(request));
    }
    return engine.stats();
  }

  TEST_CASE("evicted pages come back, also those that prompts share in part") {
    const EngineStats without = run_twice(options_with_host_pages(9, 0));
    CHECK(without.prefix_hit_tokens == 0);  // nine pages hold three videos
    CHECK(without.host_stored_pages == 0);
    const EngineStats with = run_twice(options_with_host_pages(9, 80));
    CHECK(with.host_hit_tokens == 10 * kSharedTokens);
    CHECK(with.prefix_hit_tokens == with.host_hit_tokens);
    CHECK(with.disk_hit_tokens == 0);
    CHECK(with.prefill_tokens == without.prefill_tokens - 10 * kSharedTokens);
    CHECK(with.host_stored_pages >= 30);
    CHECK(run_twice(options_with_host_pages(9, 6)).host_hit_tokens == 0);  // 6 pages hold 2 videos
  }

  TEST_CASE("a request that gave way finds its prompt again") {
    const auto run = [](std::int64_t num_host_pages) {
      Room room;
      EngineOptions options = options_with_host_pages(10, num_host_pages);
      options.max_num_seqs = 3;
      TestedEngine engine(room.decoder, room.stream, options);
      std::vector<Request> requests;
      for (std::int32_t i = 0; i < 3; ++i) {
        Request& request = requests.emplace_back();
        request.prompt_ids.resize(60, i);
        request.sampling.max_new_tokens = 80;
        engine.submit(request);
      }
      for (const Completion& c : run_until_idle(engine)) {
        CHECK(c.output_ids == expected_output(requests[static_cast<std::size_t>(c.id)]));
      }
      return engine.stats();
    };
    const EngineStats without = run(0);
    const EngineStats with = run(40);
    CHECK(without.preemptions > 0);
    CHECK(with.host_hit_tokens > 0);
    CHECK(with.recomputed_tokens < without.recomputed_tokens);
  }

  TEST_CASE("the disk has what the memory of the host has not") {
    EngineOptions options = options_with_host_pages(9, 6);
    options.disk.folder = fresh_folder("two_tiers");
    const EngineStats stats = run_twice(options);
    CHECK(stats.prefix_hit_tokens == 10 * kSharedTokens);
    CHECK(stats.disk_hit_tokens == 10 * kSharedTokens);
    options.host_pages_bytes *= 10;
    options.disk.folder = fresh_folder("two_tiers");
    CHECK(run_twice(options).disk_hit_tokens == 0);
  }

  TEST_CASE("memory that holds no page, or that no cache uses, is refused") {
    Room room;
    EngineOptions options = options_with_host_pages(10, 1);
    CHECK_NOTHROW(Engine(room.decoder, room.stream, options));
    --options.host_pages_bytes;
    CHECK_THROWS_WITH_AS(Engine(room.decoder, room.stream, options),
                         doctest::Contains("hold none of "), Error);
    options = options_with_host_pages(10, 1);
    options.prefix_cache = PrefixCache::kOff;
    CHECK_THROWS_WITH_AS(Engine(room.decoder, room.stream, options),
                         doctest::Contains("prefix cache"), Error);
  }
}

TEST_SUITE("engine/disk tier") {
  TEST_CASE("the next engine finds the pages of the last") {
    EngineOptions options = cached_options(100);
    options.disk.folder = fresh_folder("disk_tier");
    const Request first = family_request(1, 100, 120);
    const Request second = family_request(1, 101, 120);
    {
      Room room;
      TestedEngine engine(room.decoder, room.stream, options);
      engine.submit(first);
      CHECK(run_until_idle(engine).at(0).output_ids == expected_output(first));
      CHECK(engine.stats().disk_hit_tokens == 0);
    }
    Room room;
    TestedEngine engine(room.decoder, room.stream, options);
    engine.submit(second);
    const Completion completion = run_until_idle(engine).at(0);
    CHECK(completion.cached_tokens == kSharedTokens);
    CHECK(completion.output_ids == expected_output(second));
    CHECK(engine.stats().disk_hit_tokens == kSharedTokens);
  }

  TEST_CASE("pages of another model, or of another precision, are not found") {
    EngineOptions options = cached_options(100);
    options.disk.folder = fresh_folder("disk_tier_others");
    const Request request = family_request(1, 100, 120);
    const auto run = [&](const EngineOptions& with) {
      Room room;
      TestedEngine engine(room.decoder, room.stream, with);
      engine.submit(request);
      const Completion completion = run_until_idle(engine).at(0);
      CHECK(completion.output_ids == expected_output(request));
      return completion.cached_tokens;
    };
    CHECK(run(options) == 0);
    CHECK(run(options) > 0);
    EngineOptions other_model = options;
    other_model.page_identity = {1, 3};
    CHECK(run(other_model) == 0);
    EngineOptions other_dtype = options_with_pages(100, DType::kBF16);
    other_dtype.prefix_cache = PrefixCache::kOn;
    other_dtype.page_identity = options.page_identity;
    other_dtype.disk = options.disk;
    CHECK(run(other_dtype) == 0);
  }

  TEST_CASE("pages that may not be stored are not there for the next engine") {
    EngineOptions options = cached_options(100);
    options.disk.folder = fresh_folder("disk_tier_unsound");
    const Request request = family_request(1, 100, 120);
    const auto find_tokens = [&](bool may_store) {
      options.disk.may_store = [may_store] { return may_store; };
      Room room;
      TestedEngine engine(room.decoder, room.stream, options);
      engine.submit(request);
      CHECK(run_until_idle(engine).at(0).output_ids == expected_output(request));
      return engine.stats().disk_hit_tokens;
    };
    CHECK(find_tokens(false) == 0);
    CHECK(find_tokens(true) == 0);
    CHECK(find_tokens(false) > 0);  // may_store affects writing only
  }

  TEST_CASE("damaged pages are computed again") {
    EngineOptions options = cached_options(100);
    options.disk.folder = fresh_folder("disk_tier_damaged");
    const Request request = family_request(1, 100, 120);
    for (int round = 0; round < 2; ++round) {
      {
        Room room;
        TestedEngine engine(room.decoder, room.stream, options);
        engine.submit(request);
        const Completion completion = run_until_idle(engine).at(0);
        CHECK(completion.output_ids == expected_output(request));
        CHECK(completion.cached_tokens == 0);
      }
      CHECK(flip_a_byte_of_every_file(options.disk.folder) >= 2);
    }
  }

  TEST_CASE("without the prefix cache it is refused") {
    Room room;
    EngineOptions options = options_with_pages(10);
    options.disk.folder = fresh_folder("disk_tier_refused");
    CHECK_THROWS_WITH_AS(Engine(room.decoder, room.stream, options),
                         doctest::Contains("prefix cache"), Error);
  }
}

}  // namespace
}  // namespace caption::engine
