#include "backend/buffer_arena.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "backend/thread_pool.h"
#include "base/error.h"

using caption::Buffer;
using caption::BufferArena;
using caption::Device;
using caption::Error;
using caption::ThreadPool;

TEST_SUITE_BEGIN("backend/buffer_arena");

TEST_CASE("buffers are aligned, lie apart and outlive the arena") {
  ThreadPool pool(2);
  auto arena = std::make_unique<BufferArena>(pool);
  std::vector<Buffer> buffers;
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t size : {1UL, 63UL, 64UL, 65UL, 5000003UL, 20000000UL, 40000000UL}) {
      buffers.push_back(arena->allocate(size));
      const Buffer& buffer = buffers.back();
      CHECK(reinterpret_cast<std::uintptr_t>(buffer.begin()) % 64 == 0);
      CHECK(buffer.size_bytes() == size);
      CHECK(buffer.device() == Device::kCpu);
      const auto number = static_cast<int>(buffers.size());
      std::memset(buffer.begin(), number, 1);
      std::memset(buffer.begin() + size - 1, number, 1);
    }
  }
  arena.reset();
  buffers.erase(buffers.begin());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    CHECK(buffers[i].begin()[0] == std::byte(i + 2));
    CHECK(buffers[i].begin()[buffers[i].size_bytes() - 1] == std::byte(i + 2));
  }
  const std::byte* const begin = buffers.back().begin();
  const Buffer moved = std::move(buffers.back());
  CHECK(moved.begin() == begin);
}

TEST_CASE("a part of a buffer lies in it") {
  const auto whole = std::make_shared<const Buffer>(Device::kCpu, 100);
  CHECK(Buffer::part_of(whole, 64, 36).begin() == whole->begin() + 64);
  CHECK_THROWS_AS(Buffer::part_of(whole, 64, 37), Error);
}

TEST_SUITE_END();
