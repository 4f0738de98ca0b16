// Two pages have the same hash if and only if their tokens and all tokens before them are the same.
#include "kv/prefix_hash.h"

#include <doctest/doctest.h>

#include <numeric>
#include <set>
#include <vector>

namespace caption::kv {
namespace {

const Hash128 kRoot{11, 12};
const Hash128 kClip{21, 22};

std::vector<std::int32_t> make_ids(std::size_t count) {
  std::vector<std::int32_t> ids(count);
  std::iota(ids.begin(), ids.end(), 100);
  return ids;
}

TEST_SUITE("kv/prefix_hash") {
  TEST_CASE("one hash for every full page") {
    for (const std::size_t count : {0u, 1u, 15u, 16u, 17u, 31u, 32u, 100u}) {
      CAPTURE(count);
      const std::vector<std::int32_t> ids = make_ids(count);
      CHECK(hash_prompt_pages(kRoot, {ids, {}, {}}).size() == count / 16);
    }
  }

  TEST_CASE("a change is seen in its page and in every later one, and in none before") {
    const std::vector<std::int32_t> ids = make_ids(64);
    const auto before = hash_prompt_pages(kRoot, {ids, {}, {}});
    for (const std::size_t at : {0u, 15u, 16u, 40u, 63u}) {
      CAPTURE(at);
      std::vector<std::int32_t> changed = ids;
      ++changed[at];
      const auto after = hash_prompt_pages(kRoot, {changed, {}, {}});
      for (std::size_t page = 0; page < 4; ++page) {
        CHECK((before[page] == after[page]) == (page < at / 16));
      }
    }
    CHECK(hash_prompt_pages(Hash128{11, 13}, {ids, {}, {}})[0] != before[0]);
  }

  TEST_CASE("vision tokens count by what they were made of and their number, not by their id") {
    std::vector<std::int32_t> ids = make_ids(32);
    const std::vector<std::int32_t> positions = {4, 5, 6, 20};
    const auto one = hash_prompt_pages(kRoot, {ids, positions, kClip});
    for (const std::int32_t position : positions) ids[static_cast<std::size_t>(position)] = 7;
    CHECK(hash_prompt_pages(kRoot, {ids, positions, kClip}) == one);
    CHECK(hash_prompt_pages(kRoot, {ids, positions, Hash128{21, 23}})[0] != one[0]);
    CHECK(hash_prompt_pages(kRoot, {ids, {}, kClip})[0] != one[0]);

    // The same clip at another place, or with one token fewer before it, is a different content.
    const std::vector<std::int32_t> moved = {5, 6, 7, 20};
    CHECK(hash_prompt_pages(kRoot, {ids, moved, kClip})[0] != one[0]);
    const std::vector<std::int32_t> fewer = {4, 5, 20, 21};
    CHECK(hash_prompt_pages(kRoot, {ids, fewer, kClip})[1] != one[1]);
  }

  TEST_CASE("contents that several prompts share count as they do alone") {
    std::vector<std::int32_t> ids = make_ids(48);
    std::vector<std::int32_t> positions(30);
    std::iota(positions.begin(), positions.end(), 4);  // 20 of one content, then 10 of another
    const Hash128 shown{31, 32};
    const VisionContent leading[] = {{.num_tokens = 20, .content = shown}};
    const auto pages_of = [&](const Hash128& clip, std::span<const VisionContent> before) {
      return hash_prompt_pages(kRoot, {ids, positions, clip, before});
    };
    const auto one = pages_of(kClip, leading);
    const auto other = pages_of({41, 42}, leading);
    CHECK(one[0] == other[0]);  // tokens 0 to 15
    CHECK(one[1] != other[1]);
    // The first content alone gives the same first page, whatever follows it.
    CHECK(hash_prompt_pages(kRoot, {ids, positions, shown})[0] == one[0]);
    const VisionContent changed[] = {{.num_tokens = 20, .content = {31, 33}}};
    CHECK(pages_of(kClip, changed)[0] != one[0]);
    // Where one content ends and the next begins counts as well.
    const VisionContent shorter[] = {{.num_tokens = 19, .content = shown}};
    CHECK(pages_of(kClip, shorter)[0] == one[0]);
    CHECK(pages_of(kClip, shorter)[1] != one[1]);
    const VisionContent two[] = {{.num_tokens = 20, .content = shown},
                                 {.num_tokens = 10, .content = kClip}};
    CHECK(pages_of({}, two) == one);
  }

  TEST_CASE("prompts that part inside a page share the hash of what comes before") {
    std::vector<std::int32_t> ids = make_ids(40);
    const std::vector<std::int32_t> positions = {4, 5, 17, 18, 19};
    const auto part_of = [&](const Hash128& clip, std::int64_t num_tokens) {
      const PromptContent prompt{ids, positions, clip};
      return hash_prompt_part(kRoot, prompt, hash_prompt_pages(kRoot, prompt), num_tokens);
    };
    const Hash128 part = part_of(kClip, 20);
    const Hash128 first = part_of(kClip, 6);
    ids[20] = 7;  // after the part
    CHECK(part_of(kClip, 20) == part);
    CHECK(part_of(kClip, 21) != part);
    CHECK(part_of(Hash128{21, 23}, 20) != part);
    ids[16] = 7;  // in the part
    CHECK(part_of(kClip, 20) != part);
    ids[16] = 116;
    ids[0] = 7;  // in the first page
    CHECK(part_of(kClip, 20) != part);
    CHECK(part_of(kClip, 6) != first);
  }

  TEST_CASE("ten thousand prompts of one differing token have as many hashes") {
    std::set<Hash128> seen;
    std::vector<std::int32_t> ids = make_ids(16);
    for (std::int32_t i = 0; i < 10'000; ++i) {
      ids[static_cast<std::size_t>(i % 16)] = 1000 + i;
      seen.insert(hash_prompt_pages(kRoot, {ids, {}, {}})[0]);
    }
    CHECK(seen.size() == 10'000);
  }
}

}  // namespace
}  // namespace caption::kv
