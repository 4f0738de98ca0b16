// The functions that code compiled with -fsanitize=thread calls before each access: here they tell
// the emulator of the accesses of a kernel's threads. The names and types are those of GCC's
// sanitizer.def; no library of ThreadSanitizer is linked.
#include <cstddef>

#include "tests/support/cuda/running_block.h"

using caption::cuda_emulator::access;
using caption::cuda_emulator::Direction;
using caption::cuda_emulator::is_on_unwatched_stack;
using caption::cuda_emulator::is_running;

namespace {

void see(const void* pc, const void* address, std::size_t size_bytes, Direction direction) {
  if (is_on_unwatched_stack(address) || !is_running()) return;
  access(pc, address, size_bytes, direction);
}

// A range: each byte, since the pieces in which a GPU would move them are not known.
void see_range(const void* pc, const void* begin, std::size_t size_bytes, Direction direction) {
  for (std::size_t i = 0; i < size_bytes; ++i) {
    see(pc, static_cast<const std::byte*>(begin) + i, 1, direction);
  }
}

}  // namespace

#define CAPTION_PC __builtin_return_address(0)
#define CAPTION_SEE(bytes)                                                                    \
  void __tsan_read##bytes(void* p) { see(CAPTION_PC, p, bytes, Direction::kRead); }           \
  void __tsan_write##bytes(void* p) { see(CAPTION_PC, p, bytes, Direction::kWrite); }         \
  void __tsan_unaligned_read##bytes(void* p) { see(CAPTION_PC, p, bytes, Direction::kRead); } \
  void __tsan_unaligned_write##bytes(void* p) { see(CAPTION_PC, p, bytes, Direction::kWrite); }

extern "C" {
CAPTION_SEE(1)
CAPTION_SEE(2)
CAPTION_SEE(4)
CAPTION_SEE(8)
CAPTION_SEE(16)
void __tsan_read_range(void* p, std::size_t n) { see_range(CAPTION_PC, p, n, Direction::kRead); }
void __tsan_write_range(void* p, std::size_t n) { see_range(CAPTION_PC, p, n, Direction::kWrite); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
}
