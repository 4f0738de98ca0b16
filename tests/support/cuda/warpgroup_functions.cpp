// Products of warpgroups: their checks, and when they are made.
#include "tests/support/cuda/warpgroup_functions.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "tests/support/cuda/running_block.h"
#include "tests/support/cuda/state.h"
#include "tests/support/cuda/warp_product.h"

namespace caption::cuda_emulator {
namespace {

using kernels::cuda::Bytes16;
using kernels::cuda::FragmentA;
using kernels::cuda::FragmentB;
using kernels::cuda::FragmentC;

constexpr int kGroups = kernels::cuda::kWarpgroupGroups;
constexpr std::size_t kRowBytes = kernels::cuda::kSwizzledUnits * sizeof(Bytes16);
constexpr std::size_t kRowsBytes = 8 * kGroups * kRowBytes;
constexpr std::uintptr_t kSwizzleBytes = 1024;  // bytes after which the swizzle repeats
constexpr std::size_t kSumsBytes = kGroups * sizeof(FragmentC);
constexpr int kStepUnits = 2;

State& state() { return *running_state; }

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

Place place_of(const void* pc, const std::source_location& place) {
  return {.pc = pc, .file = place.file_name(), .line = place.line()};
}

bool overlap(Range bytes, const void* begin, std::size_t size_bytes) {
  return bytes.begin < address_of(begin) + size_bytes &&
         address_of(begin) < bytes.begin + bytes.size_bytes;
}

template <class Visit>
void visit_products(Warp& warp, const Visit& visit) {
  for (auto& group : warp.product_groups) std::for_each(group.begin(), group.end(), visit);
  std::for_each(warp.open_products.begin(), warp.open_products.end(), visit);
}

void add_fault(Fault fault, const Product& product, int thread, const std::string& text) {
  state().add_fault(fault, address_of(product.place.pc),
                    "thread " + std::to_string(thread) + "'s product " + text);
}

// A unit of 16 bytes of the product's columns. The swizzle exchanges bits of the address.
const std::byte* unit_of(const Product& product, int row, int unit) {
  const std::uintptr_t address =
      address_of(product.rows) + static_cast<std::uintptr_t>(row) * kRowBytes +
      static_cast<std::uintptr_t>(kStepUnits * product.step + unit) * sizeof(Bytes16);
  return reinterpret_cast<const std::byte*>(address ^ (address >> 7 & 7) << 4);
}

template <class Check>
void visit_units(const Product& product, const Check& check) {
  for (int row = 0; row < 8 * kGroups; ++row) {
    for (int unit = 0; unit < kStepUnits; ++unit) check(address_of(unit_of(product, row, unit)));
  }
}

// The warp reads its rows of x, which the first lane stands for.
void check_rows(const Product& product, int thread) {
  State& s = state();
  visit_units(product, [&](std::uintptr_t address) {
    Problem problem;
    if (s.shared->access(s.now_of(thread), {address, sizeof(Bytes16)}, Direction::kRead, problem)) {
      return;
    }
    add_fault(problem.fault, product, thread, "reads shared memory, " + problem.text);
  });
}

void check_rows_are_shown(const Product& product, int thread) {
  State& s = state();
  visit_units(product, [&](std::uintptr_t address) {
    const SharedWrite& last = s.shared_writes[s.shared->offset_of(address) / sizeof(Bytes16)];
    if (last.thread < 0) return;
    if (last.clock <= s.threads[static_cast<std::size_t>(last.thread)]->shown_clock) return;
    add_fault(Fault::kUnorderedProduct, product, thread,
              "reads what thread " + std::to_string(last.thread) +
                  " has written and not shown to products");
  });
}

void check_rows_are_shared(const Product& product, int thread) {
  State& s = state();
  const std::uintptr_t begin = address_of(product.rows);
  const bool is_inside = s.shared->contains(begin) &&
                         s.shared->offset_of(begin) + kRowsBytes <= s.shared->size_bytes();
  if (is_inside && begin % kSwizzleBytes == 0) return;
  add_fault(is_inside ? Fault::kMisaligned : Fault::kOutOfBounds, product, thread,
            is_inside ? "has rows at no multiple of 1,024 bytes"
                      : "has rows that are not in shared memory");
  s.is_ended = true;
  for (;;) s.running->fiber.suspend();
}

// The registers of the product's lanes, of which `first` is the first.
void check_is_begun(const Product& product, int first) {
  State& s = state();
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto i = static_cast<std::size_t>(lane);
    const Thread& thread = *s.threads[static_cast<std::size_t>(first + lane)];
    const bool is_touched =
        std::any_of(thread.touched.begin(), thread.touched.end(), [&](Range bytes) {
          return overlap(bytes, product.c[i], kSumsBytes) ||
                 overlap(bytes, product.a[i], sizeof(FragmentA));
        });
    if (!thread.has_begun_products || is_touched) {
      add_fault(Fault::kUnorderedProduct, product, first + lane,
                "has sums or a fragment that were accessed after begin_products()");
    }
  }
}

void make(Product& product) {
  if (std::exchange(product.is_done, true)) return;
  for (int g = 0; g < kGroups; ++g) {
    FragmentB b[kLanes];
    MmaArguments lanes[kLanes];
    void* arguments[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto i = static_cast<std::size_t>(lane);
      for (int half = 0; half < 2; ++half) {
        const std::byte* const unit = unit_of(product, 8 * g + lane / 4, half);
        std::memcpy(&b[i].pair[half], unit + lane % 4 * 4, sizeof b[i].pair[half]);
      }
      lanes[i] = {.a = reinterpret_cast<const FragmentA*>(product.a[i]),
                  .b = &b[i],
                  .c = reinterpret_cast<FragmentC*>(product.c[i]) + g};
      arguments[i] = &lanes[i];
    }
    multiply_warp(HalfType::kBF16, arguments);
  }
}

struct ProductArguments {
  const FragmentA* a;
  FragmentC* c;
  const Bytes16* rows;
  int step;
  Place place;
};

// The number of a warpgroup's first warp.
int first_warp() { return thread_of_block() / kWarpgroupThreads * (kWarpgroupThreads / kLanes); }

template <class Act>
void act_on_warps(const Act& act) {
  for (int i = 0; i < kWarpgroupThreads / kLanes; ++i) {
    const int number = first_warp() + i;
    act(state().warps[static_cast<std::size_t>(number)], number);
    count_accesses(state(), number);
  }
}

void act_multiply(void* const* lanes) {
  const auto of = [lanes](int i) { return *static_cast<const ProductArguments*>(lanes[i]); };
  act_on_warps([&](Warp& warp, int number) {
    Product product{.rows = reinterpret_cast<const std::byte*>(of(0).rows),
                    .step = of(0).step,
                    .place = of(0).place};
    for (int lane = 0; lane < kLanes; ++lane) {
      const int i = number % (kWarpgroupThreads / kLanes) * kLanes + lane;
      product.a[static_cast<std::size_t>(lane)] = reinterpret_cast<const std::byte*>(of(i).a);
      product.c[static_cast<std::size_t>(lane)] = reinterpret_cast<std::byte*>(of(i).c);
      if (of(i).rows != of(0).rows || of(i).step != of(0).step) {
        add_fault(Fault::kDivergence, product, number * kLanes + lane,
                  "has other rows than those of other threads");
      }
    }
    check_rows_are_shared(product, number * kLanes);
    check_is_begun(product, number * kLanes);
    check_rows(product, number * kLanes);
    check_rows_are_shown(product, number * kLanes);
    warp.open_products.push_back(product);
    State& s = state();
    if (s.options.seed != 0 && s.random() % 2 == 0) visit_products(warp, make);
  });
}

void act_begin(void* const*) {
  unwatched_stack = nullptr;  // the running thread is the warpgroup's: its stack is watched
  act_on_warps([](Warp&, int number) {
    for (int lane = 0; lane < kLanes; ++lane) {
      Thread& thread = *state().threads[static_cast<std::size_t>(number * kLanes + lane)];
      thread.has_begun_products = true;
      thread.touched.clear();
    }
  });
}

void act_commit(void* const*) {
  act_on_warps([](Warp& warp, int) {
    warp.product_groups.push_back(std::exchange(warp.open_products, {}));
  });
}

void act_wait(void* const* lanes) {
  const std::size_t left = *static_cast<const std::size_t*>(lanes[0]);
  act_on_warps([left](Warp& warp, int number) {
    if (warp.product_groups.size() <= left) return;
    const auto end = warp.product_groups.end() - static_cast<std::ptrdiff_t>(left);
    for (auto group = warp.product_groups.begin(); group != end; ++group) {
      for (Product& product : *group) {
        check_rows(product, number * kLanes);  // it may have read them as late as now
        make(product);
      }
    }
    warp.product_groups.erase(warp.product_groups.begin(), end);
  });
}

}  // namespace

void check_registers(State& s, const void* pc, Range bytes, Direction direction) {
  s.running->touched.push_back(bytes);
  const auto lane = static_cast<std::size_t>(s.running_index % kLanes);
  visit_products(s.warp(), [&](const Product& product) {
    const bool is_of_sums = overlap(bytes, product.c[lane], kSumsBytes);
    const bool is_of_fragment =
        direction != Direction::kRead && overlap(bytes, product.a[lane], sizeof(FragmentA));
    if (!is_of_sums && !is_of_fragment) return;
    s.add_fault(Fault::kUnwaitedProduct, address_of(pc),
                "thread " + std::to_string(s.running_index) +
                    (is_of_sums ? " accesses sums of a product that may not be complete"
                                : " writes a fragment that a product may still read"));
  });
}

void wait_products(std::size_t groups_left, const std::source_location& place) {
  meet_warpgroup("wait_products", place_of(__builtin_return_address(0), place), &groups_left,
                 act_wait);
}

}  // namespace caption::cuda_emulator

namespace caption::kernels::cuda {

using namespace cuda_emulator;
using SourcePlace = std::source_location;

void show_to_products() {
  State& s = *running_state;
  s.running->shown_clock = s.write_clock;
}

void begin_products(SourcePlace place) {
  meet_warpgroup("begin_products", place_of(__builtin_return_address(0), place), nullptr,
                 act_begin);
}

void commit_products(SourcePlace place) {
  meet_warpgroup("commit_products", place_of(__builtin_return_address(0), place), nullptr,
                 act_commit);
}

void multiply_warpgroup(FragmentC (&c)[kWarpgroupGroups], const FragmentA& a, const Bytes16* rows,
                        int step, SourcePlace place) {
  ProductArguments arguments{.a = &a,
                             .c = c,
                             .rows = rows,
                             .step = step,
                             .place = place_of(__builtin_return_address(0), place)};
  meet_warpgroup("multiply_warpgroup", arguments.place, &arguments, act_multiply);
}

}  // namespace caption::kernels::cuda
