// backend/mirror.h: the memory of the device kMirror.
//
// The mirror computes with the CPU's kernels, in a range of addresses that faults on every access,
// except while a MirrorAccess exists: while a kernel or a copy runs. Code above the kernels that
// reads or writes device memory as if it were the host's therefore ends with a segmentation fault,
// or, through a typed view, with Error(kInternal). Results have the bits of the CPU.
#pragma once

#include <cstddef>

namespace caption {

// Grants access to all mirror memory. Access is granted to the whole process, so another thread's
// hidden access may go unnoticed meanwhile. Thread-safe; may be nested.
class MirrorAccess {
 public:
  MirrorAccess();
  ~MirrorAccess();
  MirrorAccess(const MirrorAccess&) = delete;
  MirrorAccess& operator=(const MirrorAccess&) = delete;
};

// Whether a MirrorAccess exists.
bool mirror_is_accessible();

// Returns memory aligned to 64 bytes whose first 32 KiB hold 0xFF bytes, which are NaN as f32, bf16
// and f16 and -1 as an index; null when the range is used up. Thread-safe.
std::byte* allocate_mirror(std::size_t size_bytes);
// `size_bytes` is that of the allocation.
void free_mirror(std::byte* begin, std::size_t size_bytes) noexcept;

}  // namespace caption
