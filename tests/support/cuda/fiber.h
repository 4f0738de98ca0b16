// tests/support/cuda/fiber.h: functions with stacks of their own that run in turn on one thread. A
// switch takes a few nanoseconds: it saves the registers that a call preserves, and no signal mask.
#pragma once

#include <cstddef>

namespace caption::cuda_emulator {

// x86-64 and AArch64 (System V calling conventions). Used by one thread.
class Fiber {
 public:
  static constexpr std::size_t kStackBytes = std::size_t{64} << 10;

  // `number` spreads the tops of stacks over cache sets, which equal offsets in pages would share.
  // Throws std::bad_alloc. A page below the stack faults when a function needs more of it.
  explicit Fiber(int number);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Prepares a call of `run`, which must not return. What ran here before is given up; its objects
  // are not destroyed.
  void start(void (*run)());
  // Continues the fiber, from the thread's own stack, until it calls suspend().
  void resume();
  // Called on the fiber: returns to the caller of resume().
  void suspend();

  const std::byte* stack() const { return stack_; }  // its lowest byte
  bool has_on_stack(const void* address) const {
    const auto* const byte = static_cast<const std::byte*>(address);
    return byte >= stack_ && byte < stack_ + kStackBytes;
  }

 private:
  std::byte* stack_ = nullptr;
  int number_;
  void* own_ = nullptr;     // stack pointer while the fiber waits
  void* caller_ = nullptr;  // stack pointer of resume()'s caller
};

}  // namespace caption::cuda_emulator
