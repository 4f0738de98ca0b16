// tests/support/cuda/device_memory.h: the emulated GPUs' memory, and who may access which byte.
//
// For each byte a Cell remembers the last write and the reads since, in units of
//   phase   the time between two barriers of a block; every block and barrier begins a new one, and
//           no number occurs twice
//   epoch   the time between two sync_warp() of a warp, or two phases
// Two accesses, at least one of them a write, are ordered when a barrier lies between them, or, of
// one warp, a sync_warp(), or when one thread makes both. Blocks of a launch are ordered by
// arrive() alone, launches always. So a race is found whatever the order in which the emulator runs
// threads. Atomic accesses are no race among themselves; any other access and one of them need a
// barrier.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace caption::cuda_emulator {

enum class Fault {
  kRace,              // two accesses that nothing orders
  kOutOfBounds,       // an access outside shared memory and the allocations of device memory
  kHostMemory,        // an access of memory that a GPU does not see
  kMisaligned,        // an address that is no multiple of the access's size
  kUninitialised,     // a read of a byte that nobody has written
  kUnwaitedCopy,      // an access of bytes that copy_16_async() may not have written yet
  kUnwaitedProduct,   // an access of what a product of a warpgroup may not have read or written yet
  kUnorderedProduct,  // a product of what was written and not shown to products
  kDivergence,        // a collective that not all of its threads reach, or not at one place
  kBeforeWait,        // what a launch that begins early may not do before it waits
  kLaunch,            // a launch that no GPU of the options accepts
};

// "race", "out of bounds", ...
const char* fault_name(Fault fault);

// The phases of a block from `begin` up to but not including `end`.
struct Phases {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

// A thread at a moment of its block.
struct Moment {
  int thread = 0;  // index in the block
  std::uint32_t epoch = 0;
  std::uint32_t phase = 0;
  std::uint32_t first_phase_of_block = 0;
  std::uint32_t first_phase_of_launch = 0;
  const std::vector<Phases>* ordered = nullptr;  // other blocks' phases before this moment

  // Whether a phase of another block of the launch is ordered before this moment.
  bool follows(std::uint32_t other) const {
    return ordered != nullptr && std::any_of(ordered->begin(), ordered->end(), [&](Phases phases) {
             return phases.begin <= other && other < phases.end;
           });
  }
  int warp() const { return thread / 32; }
  int lane() const { return thread % 32; }
};

struct Range {
  std::uintptr_t begin = 0;
  std::size_t size_bytes = 0;
};

enum class Direction { kRead, kWrite, kAtomic };

// What is wrong with an access.
struct Problem {
  Fault fault{};
  std::string text;  // a sentence without the name of the accessing thread
};

// What an access of a byte finds.
enum class Finding { kNothing, kPendingCopy, kUnorderedWrite, kUnorderedRead, kUninitialised };

// One that is all zero bytes belongs to bytes that nobody has accessed.
struct Cell {
  std::uint32_t write_phase = 0;  // 0: no kernel wrote it
  std::uint32_t write_epoch = 0;
  std::uint32_t read_phase = 0;
  std::uint32_t read_epoch = 0;           // epoch of the warp that read last
  std::uint32_t read_warps = 0;           // bit w: warp w has read in read_phase
  std::uint32_t read_lanes = 0;           // that warp's lanes that have read in read_epoch
  std::uint32_t earlier_block_phase = 0;  // phase of a read by a block before read_phase's
  std::int16_t writer = 0;
  std::int16_t reader = 0;
  bool is_initialised = false;
  bool is_atomic = false;   // the last write
  bool is_pending = false;  // copy_16_async() may still write it

  bool operator==(const Cell&) const = default;
};

// The bytes of an allocation, or of a block's shared memory, with their cells. The four bytes of a
// word have one cell as long as all accesses are of the whole word, which most are.
class Region {
 public:
  Region(std::byte* begin, std::size_t size_bytes, int device = 0)
      : begin_(begin),
        size_bytes_(size_bytes),
        device_(device),
        num_words_((size_bytes + kWordBytes - 1) / kWordBytes),
        words_(make_words(num_words_)) {}

  std::byte* begin() const { return begin_; }
  std::size_t size_bytes() const { return size_bytes_; }
  int device() const { return device_; }  // the GPU whose memory it is
  bool contains(std::uintptr_t address) const {
    const auto first = reinterpret_cast<std::uintptr_t>(begin_);
    return address >= first && address - first < size_bytes_;
  }
  std::size_t offset_of(std::uintptr_t address) const {
    return address - reinterpret_cast<std::uintptr_t>(begin_);
  }

  // Checks an access within the region and remembers it. Returns whether nothing is wrong with it;
  // otherwise `problem` tells of the first byte at fault.
  bool access(const Moment& now, Range bytes, Direction direction, Problem& problem);
  // Whether a kernel has written one of the bytes in a phase from `first` on.
  bool is_written_since(std::uint32_t first, Range bytes) const;
  // The bytes are a copy's destination: to be read by nobody until finish_copy().
  void begin_copy(Range bytes);
  void finish_copy(const Moment& now, Range bytes);
  // The host has written the bytes.
  void initialise(Range bytes);
  // The bytes are a copy of those of `source` from the address `from` on.
  void initialise_as(Range bytes, const Region& source, std::uintptr_t from);
  // Nobody has written any byte.
  void forget();
  // The offset of the first byte that nobody has written; size_bytes() if there is none.
  std::size_t first_uninitialised(Range bytes) const;

 private:
  static constexpr std::size_t kWordBytes = 4;
  using Cells = std::array<Cell, kWordBytes>;
  struct Word {
    Cell cell;             // stands for all bytes of the word
    std::int32_t own = 0;  // where its bytes have cells of their own: their index in own_cells_
  };
  struct Free {
    void operator()(Word* words) const { std::free(words); }
  };
  // Words that nobody has accessed are zero bytes: those of large regions are memory that the
  // system provides when a word is used.
  static std::unique_ptr<Word[], Free> make_words(std::size_t count);

  // Calls visit(cell, offset of its first byte) for the cells of a range, in order, until it
  // returns false. Gives the bytes of words that the range covers in part cells of their own.
  template <typename Visit>
  void visit_cells(Range bytes, Visit&& visit);
  // As visit_cells, of cells that remain as they are: that of a word stands for the part in the
  // range.
  template <typename Visit>
  void visit_cells(Range bytes, Visit&& visit) const;
  Problem problem_of(Finding finding, const Cell& cell, std::size_t offset,
                     const Moment& now) const;
  Cells& split(Word& word);
  Cells& own_cells_of(const Word& word);  // `word` must have some
  const Cells& own_cells_of(const Word& word) const;
  // Gives a word one cell again where later accesses cannot tell.
  void join(Word& word, const Moment& now);

  std::byte* begin_;
  std::size_t size_bytes_;
  int device_;
  std::size_t num_words_;
  std::unique_ptr<Word[], Free> words_;
  std::vector<Cells> own_cells_;            // the first belongs to no word
  std::vector<std::int32_t> unused_cells_;  // as Word::own
};

// A range of addresses that faults except in allocations. These begin at multiples of 256 bytes, as
// cudaMalloc's, and end where they end: what follows belongs to none, and so does all memory within
// kGapBytes. New memory holds 0xFF bytes, NaN in every floating type and -1 as an index.
class DeviceMemory {
 public:
  static constexpr std::size_t kGapBytes = std::size_t{1} << 20;

  DeviceMemory();
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Throws std::bad_alloc when the range is used up. An allocation of no bytes has an address, too.
  std::byte* allocate(std::size_t size_bytes, int device = 0);
  void free(std::byte* begin);
  // Whether an address is in the range, allocated or not.
  bool covers(std::uintptr_t address) const {
    return address >= reinterpret_cast<std::uintptr_t>(begin_) &&
           address < reinterpret_cast<std::uintptr_t>(begin_) + kRangeBytes;
  }
  // The allocation that holds an address, or null.
  Region* find(std::uintptr_t address) {
    if (!covers(address)) return nullptr;
    Region* const found = found_[address / kFoundBytes % kNumFound];
    return found != nullptr && found->contains(address) ? found : look_up(address);
  }
  // Keyed by their first addresses.
  const std::map<std::uintptr_t, Region>& allocations() const { return allocations_; }

 private:
  static constexpr std::size_t kRangeBytes = std::size_t{256} << 30;
  static constexpr std::size_t kFoundBytes = std::size_t{64} << 10;
  static constexpr std::size_t kNumFound = 256;

  Region* look_up(std::uintptr_t address);

  std::byte* begin_ = nullptr;
  std::size_t used_bytes_ = 0;  // addresses are not used twice
  std::map<std::uintptr_t, Region> allocations_;
  // The allocations that look_up() found last, by address: find() is mostly asked for these.
  std::array<Region*, kNumFound> found_{};
};

}  // namespace caption::cuda_emulator
