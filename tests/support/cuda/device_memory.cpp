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
    case Fault::kUnwaitedProduct: return "product not waited for";
    case Fault::kUnorderedProduct: return "product not ordered";
    case Fault::kDivergence: return "divergence";
    case Fault::kBeforeWait: return "before the wait";
    case Fault::kLaunch: return "launch";
  }
  return "?";
}

std::unique_ptr<Region::Word[], Region::Free> Region::make_words(std::size_t count) {
  void* const zeros = std::calloc(std::max<std::size_t>(count, 1), sizeof(Word));
  if (zeros == nullptr) throw std::bad_alloc();
  return std::unique_ptr<Word[], Free>(static_cast<Word*>(zeros));
}

Region::Cells& Region::own_cells_of(const Word& word) {
  return own_cells_[static_cast<std::size_t>(word.own)];
}

const Region::Cells& Region::own_cells_of(const Word& word) const {
  return own_cells_[static_cast<std::size_t>(word.own)];
}

Region::Cells& Region::split(Word& word) {
  if (word.own == 0) {
    if (unused_cells_.empty()) {
      if (own_cells_.empty()) own_cells_.emplace_back();  // index 0
      word.own = static_cast<std::int32_t>(own_cells_.size());
      own_cells_.emplace_back();
    } else {
      word.own = unused_cells_.back();
      unused_cells_.pop_back();
    }
    own_cells_of(word).fill(word.cell);
  }
  return own_cells_of(word);
}

void Region::join(Word& word, const Moment& now) {
  const Cells& cells = own_cells_of(word);
  const Cell& first = cells.front();
  // Who made accesses of earlier launches does not matter any more, only which launch wrote.
  const bool is_joined = std::all_of(cells.begin(), cells.end(), [&](const Cell& cell) {
    if (cell == first) return true;
    return cell.is_initialised == first.is_initialised && !cell.is_pending && !first.is_pending &&
           cell.write_phase == first.write_phase && cell.write_phase < now.first_phase_of_launch &&
           std::max(cell.read_phase, first.read_phase) < now.first_phase_of_launch &&
           std::max(cell.earlier_block_phase, first.earlier_block_phase) <
               now.first_phase_of_launch;
  });
  if (!is_joined) return;
  word.cell = first;
  unused_cells_.push_back(word.own);
  word.own = 0;
}

template <typename Visit>
void Region::visit_cells(Range bytes, Visit&& visit) {
  std::size_t offset = offset_of(bytes.begin);
  const std::size_t end = offset + bytes.size_bytes;
  while (offset < end) {
    Word& word = words_[offset / kWordBytes];
    const std::size_t word_begin = offset / kWordBytes * kWordBytes;
    if (word.own == 0 && offset == word_begin && end - offset >= kWordBytes) {
      if (!visit(word.cell, offset)) return;
      offset += kWordBytes;
      continue;
    }
    Cells& cells = split(word);
    for (; offset < std::min(end, word_begin + kWordBytes); ++offset) {
      if (!visit(cells[offset - word_begin], offset)) return;
    }
  }
}

template <typename Visit>
void Region::visit_cells(Range bytes, Visit&& visit) const {
  std::size_t offset = offset_of(bytes.begin);
  const std::size_t end = offset + bytes.size_bytes;
  while (offset < end) {
    const Word& word = words_[offset / kWordBytes];
    const std::size_t word_begin = offset / kWordBytes * kWordBytes;
    const std::size_t word_end = std::min(end, word_begin + kWordBytes);
    if (word.own == 0) {
      if (!visit(word.cell, offset)) return;
      offset = word_end;
      continue;
    }
    const Cells& cells = own_cells_of(word);
    for (; offset < word_end; ++offset) {
      if (!visit(cells[offset - word_begin], offset)) return;
    }
  }
}

Problem Region::problem_of(Finding finding, const Cell& cell, std::size_t offset,
                           const Moment& now) const {
  return {.fault = fault_of(finding),
          .text = "byte " + std::to_string(offset) + " of " + std::to_string(size_bytes()) + "; " +
                  describe(finding, cell, now)};
}

bool Region::access(const Moment& now, Range bytes, Direction direction, Problem& problem) {
  std::size_t offset = offset_of(bytes.begin);
  const std::size_t end = offset + bytes.size_bytes;
  while (offset < end) {
    Word& word = words_[offset / kWordBytes];
    const std::size_t first = offset % kWordBytes;
    const std::size_t last = std::min(kWordBytes, first + (end - offset));
    const bool is_whole = last - first == kWordBytes;
    if (is_whole && word.own != 0) join(word, now);
    if (is_whole && word.own == 0) {
      const Finding finding = access_cell(word.cell, now, direction);
      if (finding != Finding::kNothing) {
        problem = problem_of(finding, word.cell, offset, now);
        return false;
      }
    } else {
      Cells& cells = split(word);
      for (std::size_t i = first; i < last; ++i) {
        const Finding finding = access_cell(cells[i], now, direction);
        if (finding == Finding::kNothing) continue;
        problem = problem_of(finding, cells[i], offset + i - first, now);
        return false;
      }
    }
    offset += last - first;
  }
  return true;
}

bool Region::is_written_since(std::uint32_t first, Range bytes) const {
  bool is_written = false;
  visit_cells(bytes, [&](const Cell& cell, std::size_t) {
    is_written = cell.write_phase >= first;
    return !is_written;
  });
  return is_written;
}

void Region::begin_copy(Range bytes) {
  visit_cells(bytes, [](Cell& cell, std::size_t) { return cell.is_pending = true; });
}

void Region::finish_copy(const Moment& now, Range bytes) {
  visit_cells(bytes, [&now](Cell& cell, std::size_t) {
    cell.is_pending = false;
    remember_write(cell, now);
    return true;
  });
}

void Region::initialise(Range bytes) {
  visit_cells(bytes, [](Cell& cell, std::size_t) { return cell.is_initialised = true; });
}

void Region::initialise_as(Range bytes, const Region& source, std::uintptr_t from) {
  const auto mark = [&](std::size_t offset_in_range, std::size_t size_bytes, bool is_initialised) {
    visit_cells({bytes.begin + offset_in_range, size_bytes},
                [is_initialised](Cell& cell, std::size_t) {
                  cell.is_initialised = is_initialised;
                  return true;
                });
  };
  // Runs of bytes that are all initialised, or none of which is.
  const std::size_t source_begin = source.offset_of(from);
  std::size_t run_begin = 0;
  bool is_run_initialised = true;
  source.visit_cells({from, bytes.size_bytes}, [&](const Cell& cell, std::size_t offset) {
    if (cell.is_initialised != is_run_initialised) {
      mark(run_begin, offset - source_begin - run_begin, is_run_initialised);
      run_begin = offset - source_begin;
      is_run_initialised = cell.is_initialised;
    }
    return true;
  });
  mark(run_begin, bytes.size_bytes - run_begin, is_run_initialised);
}

void Region::forget() {
  std::fill_n(words_.get(), num_words_, Word{});
  own_cells_.clear();
  unused_cells_.clear();
}

std::size_t Region::first_uninitialised(Range bytes) const {
  std::size_t first = size_bytes();
  visit_cells(bytes, [&first](const Cell& cell, std::size_t offset) {
    if (!cell.is_initialised) first = offset;
    return cell.is_initialised;
  });
  return first;
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
  found_.fill(nullptr);
}

Region* DeviceMemory::look_up(std::uintptr_t address) {
  const auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  Region& region = std::prev(next)->second;
  if (!region.contains(address)) return nullptr;
  found_[address / kFoundBytes % kNumFound] = &region;
  return &region;
}

}  // namespace caption::cuda_emulator
