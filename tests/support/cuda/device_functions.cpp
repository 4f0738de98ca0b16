#include "tests/support/cuda/device_functions.h"

#include <cstring>

#include "tests/support/cuda/running_block.h"
#include "tests/support/cuda/warp_product.h"

namespace caption::cuda_emulator {
namespace {

Place place_of(const void* pc, const std::source_location& place) {
  return {.pc = pc, .file = place.file_name(), .line = place.line()};
}

struct ShuffleArguments {
  std::uint32_t in = 0;
  int from_lane = 0;
  std::uint32_t out = 0;
};

void act_shuffle(void* const* lanes) {
  for (int i = 0; i < kLanes; ++i) {
    auto& own = *static_cast<ShuffleArguments*>(lanes[i]);
    own.out = static_cast<ShuffleArguments*>(lanes[own.from_lane % kLanes])->in;
  }
}

struct VoteArguments {
  bool in = false;
  std::uint32_t out = 0;
};

void act_vote(void* const* lanes) {
  std::uint32_t votes = 0;
  for (int i = 0; i < kLanes; ++i) {
    if (static_cast<VoteArguments*>(lanes[i])->in) votes |= 1U << i;
  }
  for (int i = 0; i < kLanes; ++i) static_cast<VoteArguments*>(lanes[i])->out = votes;
}

struct LdmatrixArguments {
  const std::byte* row = nullptr;
  std::uint32_t out[4] = {};
};

template <bool kTransposed>
void act_ldmatrix(void* const* lanes) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      std::uint16_t pair[2];
      for (int i = 0; i < 2; ++i) {
        const int row = kTransposed ? lane % 4 * 2 + i : lane / 4;
        const int column = kTransposed ? lane / 4 : lane % 4 * 2 + i;
        const auto& source = *static_cast<LdmatrixArguments*>(lanes[matrix * 8 + row]);
        std::memcpy(&pair[i], source.row + 2 * column, 2);
      }
      static_cast<LdmatrixArguments*>(lanes[lane])->out[matrix] =
          pair[0] | static_cast<std::uint32_t>(pair[1]) << 16;
    }
  }
}

template <bool kTransposed>
kernels::cuda::FragmentA run_ldmatrix(const void* row, const char* name, const Place& place) {
  access(place.pc, row, 16, Direction::kRead);
  LdmatrixArguments arguments{.row = static_cast<const std::byte*>(row)};
  meet_warp(name, place, &arguments, act_ldmatrix<kTransposed>);
  kernels::cuda::FragmentA fragment;
  std::memcpy(fragment.pair, arguments.out, sizeof fragment.pair);
  return fragment;
}

template <HalfType kType>
void act_mma(void* const* lanes) {
  multiply_warp(kType, lanes);
}

struct IntegerMmaArguments {
  const kernels::cuda::FragmentA8* a;
  const kernels::cuda::FragmentB8* b;
  kernels::cuda::FragmentC32* c;
};

int byte_of(std::uint32_t four, int i) { return static_cast<std::int8_t>(four >> (8 * i)); }

void act_integer_mma(void* const* lanes) {
  count_matrix_product();
  int a[16][32];
  int b[32][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto& own = *static_cast<IntegerMmaArguments*>(lanes[lane]);
    const int g = lane / 4;
    const int t = lane % 4 * 4;
    for (int i = 0; i < 16; ++i) {  // byte i % 4 of register i / 4
      a[g + i / 4 % 2 * 8][t + i / 8 * 16 + i % 4] = byte_of(own.a->four[i / 4], i % 4);
    }
    for (int i = 0; i < 8; ++i) b[t + i / 4 * 16 + i % 4][g] = byte_of(own.b->four[i / 4], i % 4);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      std::int32_t& sum = static_cast<IntegerMmaArguments*>(lanes[lane])->c->sum[i];
      const auto& row = a[lane / 4 + i / 2 * 8];
      const int column = lane % 4 * 2 + i % 2;
      for (int k = 0; k < 32; ++k) sum += row[k] * b[k][column];
    }
  }
}

struct E4M3MmaArguments {
  const kernels::cuda::FragmentA8* a;
  const kernels::cuda::FragmentB8* b;
  kernels::cuda::FragmentC* c;
};

void act_e4m3_mma(void* const* lanes) {
  count_matrix_product();
  MatrixA8 a;
  MatrixB8 b;
  MatrixC c;
  const auto byte = [](std::uint32_t four, int i) {
    return static_cast<std::uint8_t>(four >> (8 * i));
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto& own = *static_cast<E4M3MmaArguments*>(lanes[lane]);
    const int g = lane / 4;
    const int t = lane % 4 * 4;
    for (int i = 0; i < 16; ++i) {  // byte i % 4 of register i / 4
      a.element[g + i / 4 % 2 * 8][t + i / 8 * 16 + i % 4] = byte(own.a->four[i / 4], i % 4);
    }
    for (int i = 0; i < 8; ++i) {
      b.element[t + i / 4 * 16 + i % 4][g] = byte(own.b->four[i / 4], i % 4);
    }
    for (int i = 0; i < 4; ++i) c.element[g + i / 2 * 8][lane % 4 * 2 + i % 2] = own.c->sum[i];
  }
  multiply_add_e4m3(tensor_core_sums(), a, b, c);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      static_cast<E4M3MmaArguments*>(lanes[lane])->c->sum[i] =
          c.element[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
    }
  }
}

void narrow(float x, BF16& to) { to = to_bf16(x); }
void narrow(float x, F16& to) { to = to_f16(x); }

template <class T>
std::uint16_t exact_sum(T a, T b) {
  const double sum = static_cast<double>(to_float(a)) + to_float(b);
  T rounded;
  narrow(static_cast<float>(sum), rounded);
  return to_float(rounded) == sum ? rounded.bits : 0x5555;
}
template <class T>
std::uint32_t add_pairs(std::uint32_t a, std::uint32_t b) {
  const auto half = [](std::uint32_t pair, int i) {
    return T{static_cast<std::uint16_t>(pair >> (16 * i))};
  };
  return exact_sum(half(a, 0), half(b, 0)) |
         static_cast<std::uint32_t>(exact_sum(half(a, 1), half(b, 1))) << 16;
}

}  // namespace

void multiply_warp(HalfType type, void* const* lanes) {
  count_matrix_product();
  MatrixA a;
  MatrixB b;
  MatrixC c;
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto& own = *static_cast<MmaArguments*>(lanes[lane]);
    const int g = lane / 4;
    const int t = lane % 4 * 2;
    for (int i = 0; i < 8; ++i) {  // half i % 2 of register i / 2
      const int row = g + i / 2 % 2 * 8;
      a.element[row][t + i / 4 * 8 + i % 2] =
          static_cast<std::uint16_t>(own.a->pair[i / 2] >> (16 * (i % 2)));
    }
    for (int i = 0; i < 4; ++i) {
      b.element[t + i / 2 * 8 + i % 2][g] =
          static_cast<std::uint16_t>(own.b->pair[i / 2] >> (16 * (i % 2)));
      c.element[g + i / 2 * 8][t + i % 2] = own.c->sum[i];
    }
  }
  multiply_add(tensor_core_sums(), type, a, b, c);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      static_cast<MmaArguments*>(lanes[lane])->c->sum[i] =
          c.element[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
    }
  }
}

void load_bytes(void* to, const void* from, std::size_t size_bytes) {
  access(__builtin_return_address(0), from, size_bytes, Direction::kRead);
  std::memcpy(to, from, size_bytes);
}

void store_bytes(void* to, const void* from, std::size_t size_bytes) {
  access(__builtin_return_address(0), to, size_bytes, Direction::kWrite);
  std::memcpy(to, from, size_bytes);
}

void wait_copies(std::size_t groups_left) { wait_copy_groups(groups_left); }

}  // namespace caption::cuda_emulator

namespace caption::kernels::cuda {

using namespace cuda_emulator;
using SourcePlace = std::source_location;

int thread_index() { return thread_of_block(); }
int lane_index() { return thread_of_block() % kLanes; }
int warp_index() { return thread_of_block() / kLanes; }
int block_x() { return block_of_grid().x; }
int block_y() { return block_of_grid().y; }
int block_z() { return block_of_grid().z; }
int grid_x() { return extent_of_grid().x; }

void sync_block(SourcePlace place) { meet_block(place_of(__builtin_return_address(0), place)); }

void sync_warp(SourcePlace place) {
  meet_warp("sync_warp", place_of(__builtin_return_address(0), place), nullptr,
            [](void* const*) { begin_warp_epoch(); });
}

void wait_for_launches_before(SourcePlace place) {
  wait_for_launches(place_of(__builtin_return_address(0), place));
}

float shuffle_xor(float x, int mask, SourcePlace place) {
  ShuffleArguments arguments{.in = std::bit_cast<std::uint32_t>(x),
                             .from_lane = lane_index() ^ mask};
  meet_warp("shuffle_xor", place_of(__builtin_return_address(0), place), &arguments, act_shuffle);
  return std::bit_cast<float>(arguments.out);
}

std::uint32_t shuffle(std::uint32_t x, int lane, SourcePlace place) {
  ShuffleArguments arguments{.in = x, .from_lane = lane};
  meet_warp("shuffle", place_of(__builtin_return_address(0), place), &arguments, act_shuffle);
  return arguments.out;
}

std::uint32_t vote(bool x, SourcePlace place) {
  VoteArguments arguments{.in = x};
  meet_warp("vote", place_of(__builtin_return_address(0), place), &arguments, act_vote);
  return arguments.out;
}

std::uint32_t atomic_add(std::uint32_t* to, std::uint32_t x) {
  access(__builtin_return_address(0), to, sizeof *to, Direction::kAtomic);
  const std::uint32_t before = *to;
  *to = before + x;
  return before;
}

void atomic_or(std::uint32_t* to, std::uint32_t x) {
  access(__builtin_return_address(0), to, sizeof *to, Direction::kAtomic);
  *to |= x;
}

std::uint32_t arrive(std::uint32_t* counter) {
  access(__builtin_return_address(0), counter, sizeof *counter, Direction::kAtomic);
  arrive_block(counter);
  return (*counter)++;
}

void copy_16_async(void* to, const void* from, bool is_inside) {
  begin_copy_16(__builtin_return_address(0), to, from, is_inside);
}

void commit_copies() { commit_copy_group(); }

FragmentA ldmatrix_x4(const void* row, SourcePlace place) {
  return run_ldmatrix<false>(row, "ldmatrix_x4", place_of(__builtin_return_address(0), place));
}

FragmentA ldmatrix_x4_trans(const void* row, SourcePlace place) {
  return run_ldmatrix<true>(row, "ldmatrix_x4_trans", place_of(__builtin_return_address(0), place));
}

void mma_bf16(FragmentC& c, const FragmentA& a, const FragmentB& b, SourcePlace place) {
  MmaArguments arguments{&a, &b, &c};
  meet_warp("mma_bf16", place_of(__builtin_return_address(0), place), &arguments,
            act_mma<HalfType::kBF16>);
}

void mma_f16(FragmentC& c, const FragmentA& a, const FragmentB& b, SourcePlace place) {
  MmaArguments arguments{&a, &b, &c};
  meet_warp("mma_f16", place_of(__builtin_return_address(0), place), &arguments,
            act_mma<HalfType::kF16>);
}

void mma_s8(FragmentC32& c, const FragmentA8& a, const FragmentB8& b, SourcePlace place) {
  IntegerMmaArguments arguments{&a, &b, &c};
  meet_warp("mma_s8", place_of(__builtin_return_address(0), place), &arguments, act_integer_mma);
}

void mma_e4m3(FragmentC& c, const FragmentA8& a, const FragmentB8& b, SourcePlace place) {
  E4M3MmaArguments arguments{&a, &b, &c};
  meet_warp("mma_e4m3", place_of(__builtin_return_address(0), place), &arguments, act_e4m3_mma);
}

std::uint32_t add_bf16_pairs(std::uint32_t a, std::uint32_t b) { return add_pairs<BF16>(a, b); }
std::uint32_t add_f16_pairs(std::uint32_t a, std::uint32_t b) { return add_pairs<F16>(a, b); }

}  // namespace caption::kernels::cuda
