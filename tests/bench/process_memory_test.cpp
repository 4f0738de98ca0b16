#include "bench/process_memory.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <numeric>
#include <vector>

#include "base/mapped_file.h"

namespace caption::bench {
namespace {

constexpr std::int64_t kPageBytes = 4096;

TEST_SUITE("bench/process_memory") {
  TEST_CASE("memory that is written counts as anonymous, pages of mapped files do not") {
    constexpr std::size_t kBytes = 64U << 20;
    const ProcessMemory before = process_memory();
    REQUIRE(before.anonymous_bytes > 0);
    CHECK(before.anonymous_bytes < before.resident_bytes);
    std::vector<char> written(kBytes, 1);
    const ProcessMemory after = process_memory();
    // The allocator's own memory and the rounding to pages are far below an eighth.
    CHECK(after.anonymous_bytes - before.anonymous_bytes > 7 * std::int64_t{kBytes} / 8);
    CHECK(std::accumulate(written.begin(), written.end(), std::int64_t{0}) == kBytes);

    const MappedFile file(std::filesystem::path(CAPTION_SOURCE_DIR) /
                          "samples/demo-model/model.safetensors");
    const std::span<const std::byte> bytes = file.bytes();
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < bytes.size(); i += kPageBytes) sum += static_cast<int>(bytes[i]);
    REQUIRE(sum > 0);
    const ProcessMemory mapped = process_memory();
    CHECK(mapped.resident_bytes - after.resident_bytes > std::ssize(bytes) / 2);
    CHECK(mapped.anonymous_bytes - after.anonymous_bytes < std::ssize(bytes) / 2);
  }
}

}  // namespace
}  // namespace caption::bench
