// The accesses of a kernel's threads, and their asynchronous copies.
#include <link.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/cuda/running_block.h"
#include "tests/support/cuda/state.h"

namespace caption::cuda_emulator {
namespace {

constexpr std::size_t kCopyBytes = 16;

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

bool is_within(std::uintptr_t address, const void* begin, std::size_t size_bytes) {
  return address >= address_of(begin) && address - address_of(begin) < size_bytes;
}

struct Segment {
  std::uintptr_t begin = 0;
  std::size_t size_bytes = 0;
};

// The parts of this program that nobody writes: its code and constants.
std::vector<Segment> find_constant_segments() {
  std::vector<Segment> segments;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type != PT_LOAD || (header.p_flags & PF_W) != 0) continue;
          static_cast<std::vector<Segment>*>(to)->push_back(
              {info->dlpi_addr + header.p_vaddr, header.p_memsz});
        }
        return 1;  // the first entry is the program
      },
      &segments);
  return segments;
}

// Whether memory that is neither shared nor global is a kernel's to read: its parameters, and
// constants of the program.
bool is_constant(const State& s, std::uintptr_t address) {
  static const std::vector<Segment> segments = find_constant_segments();
  return is_within(address, s.params.data(), s.params.size()) ||
         std::any_of(segments.begin(), segments.end(), [address](const Segment& segment) {
           return address >= segment.begin && address - segment.begin < segment.size_bytes;
         });
}

std::string thread_text(const State& s, Direction direction, std::size_t size_bytes) {
  return "thread " + std::to_string(s.running_index) + " of block " + std::to_string(s.block.x) +
         ", " + std::to_string(s.block.y) + ", " + std::to_string(s.block.z) +
         (direction == Direction::kRead ? " reads " : " writes ") + std::to_string(size_bytes) +
         " bytes of ";
}

// Says where an address is that is in no memory which the thread may access.
std::string describe_nowhere(const State& s, std::uintptr_t address) {
  if (is_within(address, s.shared->begin(), s.shared->size_bytes() + kCopyBytes)) {
    return "shared memory, beyond its " + std::to_string(s.shared->size_bytes());
  }
  if (memory().find(address) != nullptr) return "global memory of another GPU";
  return "global memory, in no allocation";
}

AccessKind kind_of(bool is_shared, Direction direction) {
  if (direction == Direction::kRead) {
    return is_shared ? AccessKind::kLoadShared : AccessKind::kLoadGlobal;
  }
  return is_shared ? AccessKind::kStoreShared : AccessKind::kStoreGlobal;
}

Region* find_region(const State& s, std::uintptr_t address) {
  return s.shared->contains(address) ? s.shared.get() : memory().find(address);
}

// Whether an access lies within a region that the launch's GPU has.
bool is_allowed(const State& s, const Region& region, std::uintptr_t address,
                std::size_t size_bytes) {
  const bool is_own = &region == s.shared.get() || region.device() == s.launch->device;
  return is_own && region.offset_of(address) + size_bytes <= region.size_bytes();
}

// A thread that has not waited for the launches before writes no global memory, and reads none that
// they write, of which only those of its graph may still run.
void check_before_wait(State& s, const void* pc, const Region& region, Range bytes,
                       Direction direction) {
  const bool is_of_earlier_launch =
      s.first_phase_of_graph != 0 && region.is_written_since(s.first_phase_of_graph, bytes);
  if (direction == Direction::kRead && !is_of_earlier_launch) return;
  s.add_fault(Fault::kBeforeWait, address_of(pc),
              thread_text(s, direction, bytes.size_bytes) +
                  "global memory, and has not waited for earlier launches" +
                  (direction == Direction::kRead ? " of the graph, which wrote them" : ""));
}

[[noreturn]] void end_launch(State& s) {
  s.is_ended = true;
  for (;;) s.running->fiber.suspend();
}

void perform(Copy& copy) {
  if (copy.is_done) return;
  copy.is_done = true;
  if (copy.from == nullptr) {
    std::memset(copy.to, 0, kCopyBytes);
  } else {
    std::memcpy(copy.to, copy.from, kCopyBytes);
  }
}

}  // namespace

void access(const void* pc, const void* pointer, std::size_t size_bytes, Direction direction) {
  State& s = *running_state;
  if (s.running->fiber.has_on_stack(pointer)) {
    if (s.running->has_begun_products) {
      check_registers(s, pc, {address_of(pointer), size_bytes}, direction);
    }
    return;
  }
  const std::uintptr_t address = address_of(pointer);
  Region* const region = find_region(s, address);
  if (region == nullptr || !is_allowed(s, *region, address, size_bytes)) {
    if (region == nullptr && direction == Direction::kRead && is_constant(s, address)) return;
    const bool is_device = region != nullptr || memory().covers(address) ||
                           is_within(address, s.shared->begin(), s.shared->size_bytes() + 65536);
    s.add_fault(is_device ? Fault::kOutOfBounds : Fault::kHostMemory, address_of(pc),
                thread_text(s, direction, size_bytes) +
                    (is_device ? describe_nowhere(s, address) : "the host's memory"));
    end_launch(s);
  }
  const bool is_shared = region == s.shared.get();
  const char* const where = is_shared ? "shared memory, " : "global memory, ";
  if (address % size_bytes != 0) {
    s.add_fault(Fault::kMisaligned, address_of(pc),
                thread_text(s, direction, size_bytes) + where + "at byte " +
                    std::to_string(region->offset_of(address)));
    end_launch(s);
  }
  if (s.options.counts_costs) {
    s.running->accesses.push_back({.pc = address_of(pc),
                                   .address = address,
                                   .size_bytes = static_cast<std::uint16_t>(size_bytes),
                                   .kind = kind_of(is_shared, direction)});
  }
  if (!is_shared && s.launch->begins_early && !s.running->has_waited) {
    check_before_wait(s, pc, *region, {address, size_bytes}, direction);
  }
  if (is_shared && direction != Direction::kRead) {
    s.remember_shared_write(region->offset_of(address), s.running_index);
  }
  Problem problem;
  if (!region->access(s.now(), {address, size_bytes}, direction, problem)) {
    s.add_fault(problem.fault, address_of(pc),
                thread_text(s, direction, size_bytes) + where + problem.text);
  }
}

void begin_copy_16(const void* pc, void* to, const void* from, bool is_inside) {
  State& s = *running_state;
  if (is_inside) access(pc, from, kCopyBytes, Direction::kRead);
  access(pc, to, kCopyBytes, Direction::kWrite);
  Region* const region = find_region(s, address_of(to));
  if (region != s.shared.get() || (is_inside && s.shared->contains(address_of(from)))) {
    s.add_fault(Fault::kOutOfBounds, address_of(pc), "a copy is from global to shared memory only");
    end_launch(s);
  }
  Copy copy{.to = static_cast<std::byte*>(to),
            .from = is_inside ? static_cast<const std::byte*>(from) : nullptr,
            .region = region};
  region->begin_copy({address_of(to), kCopyBytes});
  if (s.options.seed != 0 && s.random() % 2 == 0) perform(copy);
  s.running->open_copies.push_back(copy);
}

void commit_copy_group() {
  Thread& self = *running_state->running;
  self.copy_groups.push_back(std::move(self.open_copies));
  self.open_copies.clear();
}

void wait_copy_groups(std::size_t groups_left) {
  State& s = *running_state;
  std::vector<std::vector<Copy>>& groups = s.running->copy_groups;
  if (groups.size() <= groups_left) return;
  const auto end = groups.end() - static_cast<std::ptrdiff_t>(groups_left);
  for (auto group = groups.begin(); group != end; ++group) {
    for (Copy& copy : *group) {
      perform(copy);
      copy.region->finish_copy(s.now(), {address_of(copy.to), kCopyBytes});
      s.remember_shared_write(copy.region->offset_of(address_of(copy.to)), s.running_index);
    }
  }
  groups.erase(groups.begin(), end);
}

}  // namespace caption::cuda_emulator
