#include "tests/cuda/measured_kernels.h"

#include <cstring>

#include "kernels/cuda/dependent_launch.cuh"

namespace caption::testing {
namespace {

using namespace kernels::cuda;

constexpr int kMostStrideBytes = 132;

struct Bytes8 {
  std::uint32_t word[2];
};

// Reads or writes a lane's number of bytes at `at`.
template <bool kStores>
CAPTION_DEVICE void touch(unsigned char* at, int size_bytes) {
  if constexpr (kStores) {
    if (size_bytes == 2) store(reinterpret_cast<std::uint16_t*>(at), std::uint16_t{0});
    if (size_bytes == 4) store(reinterpret_cast<std::uint32_t*>(at), 0U);
    if (size_bytes == 8) store(reinterpret_cast<Bytes8*>(at), Bytes8{});
    if (size_bytes == 16) store(reinterpret_cast<Bytes16*>(at), Bytes16{});
  } else {
    if (size_bytes == 2) load(reinterpret_cast<const std::uint16_t*>(at));
    if (size_bytes == 4) load(reinterpret_cast<const std::uint32_t*>(at));
    if (size_bytes == 8) load(reinterpret_cast<const Bytes8*>(at));
    if (size_bytes == 16) load(reinterpret_cast<const Bytes16*>(at));
  }
}

struct Accesses {
  unsigned char* memory;
  int size_bytes;
  int stride_bytes;
};

struct GlobalLoads {
  static constexpr int kThreads = 32;
  using Params = Accesses;
  struct Shared {};
  static CAPTION_DEVICE void run(const Params& p) {
    touch<false>(p.memory + lane_index() * p.stride_bytes, p.size_bytes);
  }
};

struct SharedStores {
  static constexpr int kThreads = 32;
  using Params = Accesses;
  struct Shared {
    alignas(128) unsigned char bytes[32 * kMostStrideBytes];
  };
  static CAPTION_DEVICE void run(const Params& p) {
    touch<true>(shared_memory<Shared>().bytes + lane_index() * p.stride_bytes, p.size_bytes);
  }
};

struct RaggedLoads {
  static constexpr int kThreads = 32;
  struct Params {
    const float* memory;
  };
  struct Shared {};
  static CAPTION_DEVICE void run(const Params& p) {
    for (int i = 0; i <= lane_index(); ++i) load(p.memory + 32 * i + lane_index());
  }
};

template <bool kIsBF16>
struct Product {
  static constexpr int kThreads = 32;
  struct Params {
    const std::uint16_t* a;
    const std::uint16_t* b;
    float* c;
  };
  struct Shared {
    alignas(16) std::uint16_t a[16][16];
    alignas(16) std::uint16_t b[16][8];
  };
  static CAPTION_DEVICE void run(const Params& p) {
    auto& shared = shared_memory<Shared>();
    const int lane = lane_index();
    copy_16_async(&shared.a[lane / 2][lane % 2 * 8], p.a + 8 * lane, true);
    if (lane < 16) copy_16_async(shared.b[lane], p.b + 8 * lane, true);
    commit_copies();
    wait_copies<0>();
    sync_warp();
    const FragmentA a = ldmatrix_x4(&shared.a[lane % 16][lane / 16 * 8]);
    const FragmentA both = ldmatrix_x4_trans(shared.b[lane % 16]);  // two matrices, twice
    const FragmentB b = {both.pair[0], both.pair[1]};
    FragmentC c;
    for (int i = 0; i < 4; ++i) {
      c.sum[i] = load(p.c + (lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2);
    }
    if constexpr (kIsBF16) {
      mma_bf16(c, a, b);
    } else {
      mma_f16(c, a, b);
    }
    for (int i = 0; i < 4; ++i) {
      store(p.c + (lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2, c.sum[i]);
    }
  }
};

struct EarlyCopy {
  static constexpr int kThreads = 64;
  struct Params {
    const float* from;
    float* to;
    bool reads_before_waiting;
  };
  struct Shared {
    float number;
  };
  static CAPTION_DEVICE void run(const Params& p) {
    float x = 0;
    if (p.reads_before_waiting) x = load(p.from + thread_index());
    wait_for_launches_before();
    if (!p.reads_before_waiting) x = load(p.from + thread_index());
    store(p.to + thread_index(), x);
  }
};

}  // namespace

void launch_early_copy(void* queue, const float* from, float* to, bool reads_before_waiting) {
  launch_dependent<EarlyCopy>(queue, {}, {from, to, reads_before_waiting});
}

void launch_global_loads(const float* memory, int size_bytes, int stride_bytes) {
  launch<GlobalLoads>(
      nullptr, {},
      {reinterpret_cast<unsigned char*>(const_cast<float*>(memory)), size_bytes, stride_bytes});
}

void launch_shared_stores(int size_bytes, int stride_bytes) {
  launch<SharedStores>(nullptr, {}, {nullptr, size_bytes, stride_bytes});
}

void launch_ragged_loads(const float* memory) { launch<RaggedLoads>(nullptr, {}, {memory}); }

void launch_product(cuda_emulator::HalfType type, const std::uint16_t* a, const std::uint16_t* b,
                    float* c) {
  if (type == cuda_emulator::HalfType::kBF16) {
    launch<Product<true>>(nullptr, {}, {a, b, c});
  } else {
    launch<Product<false>>(nullptr, {}, {a, b, c});
  }
}

}  // namespace caption::testing
