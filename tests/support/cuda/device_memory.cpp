#include "tests/support/cuda/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

namespace caption::cuda_emulator {
namespace {

constexpr std::size_t kPageBytes = std::size_t{64} << 10;  // a multiple of every page size
constexpr std::size_t kAlignmentBytes = 256;

std::size_t round_up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

std::string thread_name(int thread) { return "thread " + std::to_string(thread); }

// "thread 3", or "thread 3 of another block" of an access in a phase before the running block's.
std::string thread_name(int thread, std::uint32_t phase, const Moment& now) {
  return thread_name(thread) + (phase < now.first_phase_of_block ? " of another block" : "");
}

// Whether the cell's write is ordered before `now`.
bool write_is_ordered(const Cell& cell, const Moment& now) {
  if (cell.write_phase < now.first_phase_of_launch) return true;
  if (cell.write_phase < now.first_phase_of_block) return now.follows(cell.write_phase);
  if (cell.write_phase != now.phase) return true;
  if (cell.is_atomic) return false;  // there may be more writers than the last
  if (cell.writer == now.thread) return true;
  return cell.writer / 32 == now.warp() && cell.write_epoch != now.epoch;
}

// Whether the cell's reads are ordered before `now`.
bool reads_are_ordered(const Cell& cell, const Moment& now) {
  if (cell.earlier_block_phase >= now.first_phase_of_launch &&
      cell.earlier_block_phase < now.first_phase_of_block) {
    return false;
  }
  if (cell.read_phase < now.first_phase_of_launch) return true;
  if (cell.read_phase < now.first_phase_of_block) return false;
  if (cell.read_phase != now.phase) return true;
  if ((cell.read_warps & ~(1U << now.warp())) != 0) return false;
  return cell.read_epoch != now.epoch || (cell.read_lanes & ~(1U << now.lane())) == 0;
}

void remember_read(Cell& cell, const Moment& now) {
  if (cell.read_phase != now.phase) {
    if (cell.read_phase != 0 && cell.read_phase < now.first_phase_of_block) {
      cell.earlier_block_phase = cell.read_phase;
    }
    cell.read_phase = now.phase;
    cell.read_warps = cell.read_lanes = 0;
  }
  if (cell.reader / 32 != now.warp() || cell.read_epoch != now.epoch) cell.read_lanes = 0;
  cell.reader = static_cast<std::int16_t>(now.thread);
  cell.read_epoch = now.epoch;
  cell.read_warps |= 1U << now.warp();
  cell.read_lanes |= 1U << now.lane();
}

void remember_write(Cell& cell, const Moment& now) {
  cell.write_phase = now.phase;
  cell.write_epoch = now.epoch;
  cell.writer = static_cast<std::int16_t>(now.thread);
  cell.is_initialised = true;
  cell.is_atomic = false;
}

// What an access of a byte finds.
enum class Finding { kNothing, kPendingCopy, kUnorderedWrite, kUnorderedRead, kUninitialised };

// As Region::access(), of one byte.
Finding access_cell(Cell& cell, const Moment& now, Direction direction) {
  if (cell.is_pending) return Finding::kPendingCopy;
  const bool are_both_atomic = direction == Direction::kAtomic && cell.is_atomic;
  if (!are_both_atomic && !write_is_ordered(cell, now)) return Finding::kUnorderedWrite;
  const bool was_initialised = cell.is_initialised;
  if (direction != Direction::kRead) {
    if (!reads_are_ordered(cell, now)) return Finding::kUnorderedRead;
    remember_write(cell, now);
    cell.is_atomic = direction == Direction::kAtomic;
    if (direction == Direction::kWrite) return Finding::kNothing;
  } else {
    remember_read(cell, now);
  }
  return was_initialised ? Finding::kNothing : Finding::kUninitialised;
}

// A sentence for a finding other than kNothing, without the name of the accessing thread.
std::string describe(Finding finding, const Cell& cell, const Moment& now) {
  switch (finding) {
    case Finding::kNothing: break;
    case Finding::kPendingCopy:
      return "a copy of " + thread_name(cell.writer) + " may still write it";
    case Finding::kUnorderedWrite:
      return thread_name(cell.writer, cell.write_phase, now) +
             " wrote it, and nothing orders the two";
    case Finding::kUnorderedRead:
      return thread_name(cell.reader, cell.read_phase, now) +
             " read it, and nothing orders the two";
    case Finding::kUninitialised: return "nobody has written it";
  }
  return {};
}

Fault fault_of(Finding finding) {
  if (finding == Finding::kPendingCopy) return Fault::kUnwaitedCopy;
  return finding == Finding::kUninitialised ? Fault::kUninitialised : Fault::kRace;
}

}  // namespace

const char* fault_name(Fault fault) {
  switch (fault) {
    case Fault::kRace: return "race";
    case Fault::kOutOfBounds: return "out of bounds";
    case Fault::kHostMemory: return "host memory";
    case Fault::kMisaligned: return "misaligned";
    case Fault::kUninitialised: return "uninitialised";
    case Fault::kUnwaitedCopy: return "copy not waited for";
    case Fault::kDivergence: return "divergence";
    case Fault::kBeforeWait: return "before the wait";
    case Fault::kLaunch: return "launch";
  }
  return "?";
}

std::string Region::access(const Moment& now, Range bytes, Direction direction, Fault& fault) {
  Cell* const cells = cells_of(bytes);
  for (std::size_t i = 0; i < bytes.size_bytes; ++i) {
    const Finding finding = access_cell(cells[i], now, direction);
    if (finding == Finding::kNothing) continue;
    fault = fault_of(finding);
    return "byte " + std::to_string(offset_of(bytes.begin) + i) + " of " +
           std::to_string(size_bytes()) + "; " + describe(finding, cells[i], now);
  }
  return {};
}

bool Region::is_written_since(std::uint32_t first, Range bytes) const {
  const Cell* const cells = cells_.data() + offset_of(bytes.begin);
  return std::any_of(cells, cells + bytes.size_bytes,
                     [first](const Cell& cell) { return cell.write_phase >= first; });
}

void Region::begin_copy(Range bytes) {
  Cell* const cells = cells_of(bytes);
  for (std::size_t i = 0; i < bytes.size_bytes; ++i) cells[i].is_pending = true;
}

void Region::finish_copy(const Moment& now, Range bytes) {
  Cell* const cells = cells_of(bytes);
  for (std::size_t i = 0; i < bytes.size_bytes; ++i) {
    cells[i].is_pending = false;
    remember_write(cells[i], now);
  }
}

void Region::initialise(Range bytes) {
  Cell* const cells = cells_of(bytes);
  for (std::size_t i = 0; i < bytes.size_bytes; ++i) cells[i].is_initialised = true;
}

void Region::initialise_as(Range bytes, const Region& source, std::uintptr_t from) {
  Cell* const cells = cells_of(bytes);
  const Cell* const copied = source.cells_.data() + source.offset_of(from);
  for (std::size_t i = 0; i < bytes.size_bytes; ++i) {
    cells[i].is_initialised = copied[i].is_initialised;
  }
}

void Region::forget() { std::fill(cells_.begin(), cells_.end(), Cell{}); }

std::size_t Region::first_uninitialised(Range bytes) const {
  const auto first = cells_.begin() + static_cast<std::ptrdiff_t>(offset_of(bytes.begin));
  const auto last = first + static_cast<std::ptrdiff_t>(bytes.size_bytes);
  const auto found =
      std::find_if(first, last, [](const Cell& cell) { return !cell.is_initialised; });
  return found == last ? size_bytes() : static_cast<std::size_t>(found - cells_.begin());
}

DeviceMemory::DeviceMemory() {
  void* const mapped =
      ::mmap(nullptr, kRangeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  begin_ = static_cast<std::byte*>(mapped);
}

DeviceMemory::~DeviceMemory() { ::munmap(begin_, kRangeBytes); }

std::byte* DeviceMemory::allocate(std::size_t size_bytes, int device) {
  // The first byte lies as late in its pages as its alignment lets it.
  const std::size_t pages_bytes = round_up(std::max<std::size_t>(size_bytes, 1), kPageBytes);
  if (pages_bytes + kGapBytes > kRangeBytes - used_bytes_) throw std::bad_alloc();
  std::byte* const pages = begin_ + used_bytes_;
  if (::mprotect(pages, pages_bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  used_bytes_ += pages_bytes + kGapBytes;
  std::byte* const begin = pages + (pages_bytes - size_bytes) / kAlignmentBytes * kAlignmentBytes;
  std::memset(begin, 0xFF, size_bytes);
  allocations_.emplace(reinterpret_cast<std::uintptr_t>(begin), Region(begin, size_bytes, device));
  return begin;
}

void DeviceMemory::free(std::byte* begin) {
  const auto found = allocations_.find(reinterpret_cast<std::uintptr_t>(begin));
  if (found == allocations_.end()) return;
  const auto first = reinterpret_cast<std::uintptr_t>(begin) / kPageBytes * kPageBytes;
  const std::uintptr_t last = reinterpret_cast<std::uintptr_t>(begin) + found->second.size_bytes();
  const std::size_t pages_bytes = std::max(round_up(last, kPageBytes) - first, kPageBytes);
  // Gives the memory back and keeps the addresses, which no later allocation has.
  ::mmap(reinterpret_cast<void*>(first), pages_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  allocations_.erase(found);
  last_found_ = nullptr;
}

Region* DeviceMemory::find(std::uintptr_t address) {
  if (last_found_ != nullptr && last_found_->contains(address)) return last_found_;
  const auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  Region& region = std::prev(next)->second;
  if (!region.contains(address)) return nullptr;
  last_found_ = &region;
  return &region;
}

}  // namespace caption::cuda_emulator
