#include "tests/support/cuda/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

// Pushes the registers that a called function preserves, stores the stack pointer in *save, makes
// `load` the stack pointer and pops the registers of the stack that it belongs to.
extern "C" void caption_switch_stack(void** save, void* load);

#if defined(__x86_64__)
__asm__(R"(
.text
.globl caption_switch_stack
.type caption_switch_stack, @function
caption_switch_stack:
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size caption_switch_stack, .-caption_switch_stack
)");
#elif defined(__aarch64__)
__asm__(R"(
.text
.globl caption_switch_stack
.type caption_switch_stack, %function
caption_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size caption_switch_stack, .-caption_switch_stack
)");
#else
#error "the CUDA emulator has no stack switch for this processor"
#endif

namespace caption::cuda_emulator {
namespace {

constexpr std::size_t kGuardBytes = std::size_t{64} << 10;  // a multiple of every page size

}  // namespace

Fiber::Fiber(int number) : number_(number) {
  void* const mapped = ::mmap(nullptr, kGuardBytes + kStackBytes, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<std::byte*>(mapped) + kGuardBytes;
  if (::mprotect(stack_, kStackBytes, PROT_READ | PROT_WRITE) != 0) {
    ::munmap(mapped, kGuardBytes + kStackBytes);
    throw std::bad_alloc();
  }
}

Fiber::~Fiber() { ::munmap(stack_ - kGuardBytes, kGuardBytes + kStackBytes); }

void Fiber::start(void (*run)()) {
  std::byte* const top = stack_ + kStackBytes - 64 - 64 * (number_ % 64);
  const auto entry = reinterpret_cast<std::uintptr_t>(run);
#if defined(__x86_64__)
  // Six registers, the address to which the switch returns, and the one to which `run` never does:
  // behind it the stack is aligned to 16 bytes, as at a function's first instruction.
  constexpr std::size_t kFrameBytes = 8 * 8;
  constexpr std::size_t kEntryByte = 6 * 8;
#else
  constexpr std::size_t kFrameBytes = 160;
  constexpr std::size_t kEntryByte = 88;  // x30, to which the switch returns
#endif
  std::byte* const frame = top - kFrameBytes;
  std::memset(frame, 0, kFrameBytes);
  std::memcpy(frame + kEntryByte, &entry, sizeof entry);
  own_ = frame;
}

void Fiber::resume() { caption_switch_stack(&caller_, own_); }

void Fiber::suspend() { caption_switch_stack(&own_, caller_); }

}  // namespace caption::cuda_emulator
