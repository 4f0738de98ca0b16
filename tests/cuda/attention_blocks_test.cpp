// The blocks of attention's launches: tiles, splits, and when rows are attended split by split. A
// wrong choice gives the same bits, and is slow or has too many states.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/attend.h"
#include "kernels/paged_attention.h"
#include "tests/cuda/testing.h"

using caption::Context;
using caption::Device;
using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::cuda_emulator::Emulation;
using caption::cuda_emulator::Report;
using caption::kernels::AttentionInput;
using caption::kernels::PagedContext;
using caption::kernels::cuda::attend;
using caption::kernels::cuda::AttendParams;
using caption::kernels::cuda::dense_operands;
using caption::kernels::cuda::Grid;
using caption::kernels::cuda::grid_of_tiles;
using caption::kernels::cuda::paged_operands;
using caption::kernels::cuda::Splitting;
using namespace caption::testing;

namespace {

constexpr std::int64_t kDim = 32;

Report report_of(const AttendParams& params, Splitting splitting, int compute_capability = 90) {
  const Emulation emulation;
  ThreadPool pool(1);
  Stream stream(Context{.device = Device::kCuda, .compute_capability = compute_capability}, pool);
  attend(stream, params, splitting);
  stream.synchronize();
  Report report = emulation.report();
  CHECK(report.describe_faults() == "");
  return report;
}

// Frames of rows with as many key heads as heads, which see keys of their own.
struct Frames {
  std::int64_t frames, rows, heads, keys;
};
Report report_of(const Frames& f, Splitting splitting, DType dtype = DType::kBF16,
                 int compute_capability = 90) {
  const DeviceTensor q(random_f32({f.frames * f.rows, f.heads, kDim}, 1));
  const DeviceTensor k(random_of(dtype, {f.frames * f.keys, f.heads, kDim}, 2));
  const DeviceTensor y(DType::kF32, q.view().shape());
  const AttentionInput input{
      .q = q.view(), .k = k.view(), .v = k.view(), .seq_len = f.rows, .kv_len = f.keys, .scale = 1};
  return report_of(dense_operands(input, y.view()), splitting, compute_capability);
}

// The last rows of sequences of one length in pages of 16 tokens. Their block tables have room for
// more tokens than they have, and name one page for all.
struct PagedRows {
  std::int64_t rows;   // rows of queries in a sequence
  std::int64_t group;  // heads per key head
  std::int64_t length, window, most_tokens;
  std::int64_t num_seqs = 1, kv_heads = 1;
};
Report report_of(const PagedRows& p, Splitting splitting) {
  const DeviceTensor q(random_f32({p.num_seqs * p.rows, p.kv_heads * p.group, kDim}, 1));
  const DeviceTensor pages(random_of(DType::kBF16, {1, 16, p.kv_heads, kDim}, 2));
  const DeviceTensor y(DType::kF32, q.view().shape());
  std::vector<std::int32_t> first_rows;
  for (std::int64_t s = 0; s <= p.num_seqs; ++s) {
    first_rows.push_back(static_cast<std::int32_t>(s * p.rows));
  }
  const DeviceTensor rows(indices(first_rows));
  const DeviceTensor lengths(indices(std::vector<std::int32_t>(
      static_cast<std::size_t>(p.num_seqs), static_cast<std::int32_t>(p.length))));
  const DeviceTensor tables(Tensor::zeros(DType::kI32, {p.num_seqs, p.most_tokens / 16}));
  const PagedContext context{.k_pages = pages.view(),
                             .v_pages = pages.view(),
                             .cu_seqlens = rows.view(),
                             .context_lens = lengths.view(),
                             .block_tables = tables.view(),
                             .window = p.window};
  return report_of(paged_operands(q.view(), context, 1, y.view()), splitting);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/attention");

TEST_CASE("a grid has the tiles of every frame, and as many as a batch of sequences may have") {
  const auto has_grid = [](const AttendParams& params, int tile_rows, unsigned x) {
    const Grid grid = grid_of_tiles(params, tile_rows);
    return grid.x == x && grid.y == 3 && grid.z == 1;
  };
  AttendParams frames;
  frames.num_seqs = 5;
  frames.kv_heads = 3;
  frames.group = 4;
  frames.num_splits = 7;
  for (const int seq_len : {16, 17}) {
    frames.seq_len = seq_len;
    CHECK(has_grid(frames, 64, seq_len == 16 ? 5 : 10));
    CHECK(has_grid(frames, 16, seq_len == 16 ? 20 : 25));
  }
  float state = 0;
  frames.states = &state;
  CHECK(grid_of_tiles(frames, 64).z == 7);

  const std::int32_t page = 0;
  AttendParams batch;
  batch.block_tables = &page;
  batch.kv_heads = 3;
  batch.group = 4;
  batch.rows = 20;
  batch.num_seqs = 3;
  CHECK(has_grid(batch, 16, 7));  // two with 1 row and one with 78 have 7 tiles
  batch.num_seqs = 1;
  CHECK(has_grid(batch, 16, 5));
  batch.rows = 2;
  batch.num_seqs = 9;
  CHECK(has_grid(batch, 64, 2));  // two sequences may have a token each
}

TEST_CASE("rows are split where most sequences decode, or where whole tiles keep no GPU busy") {
  // Keys of one split, then of two. A tile has 64 rows, or 16 in splits.
  CHECK(report_of(Frames{1, 17, 1, 256}, Splitting::kAuto).blocks == 1);
  CHECK(report_of(Frames{1, 17, 1, 257}, Splitting::kAuto).blocks == 2 * 2);
  CHECK(report_of(Frames{1, 17, 1, 256}, Splitting::kAll).blocks == 2);
  CHECK(report_of(Frames{1, 17, 1, 257}, Splitting::kNone).blocks == 1);
  // Four key heads, and room for two splits of keys. 264 tiles are enough, unless no sequence has
  // more than 16 rows. n sequences with 17 rows may have 80 n / 64 tiles of 64.
  CHECK(report_of(PagedRows{17, 1, 17, 0, 512, 53, 4}, Splitting::kAuto).blocks == 66 * 4);
  CHECK(report_of(PagedRows{17, 1, 17, 0, 512, 52, 4}, Splitting::kAuto).blocks == 104 * 4 * 2);
  CHECK(report_of(PagedRows{16, 1, 16, 0, 512, 54, 4}, Splitting::kAuto).blocks == 104 * 4 * 2);
}

TEST_CASE("rows whose splits' states would take too much memory are not split") {
  // 2,050 splits with states of 40 numbers: 21 MB for 4 heads, and 84 MB for 16.
  constexpr std::int64_t kMostTokens = 1 << 20;
  CHECK(report_of(PagedRows{16, 4, 16, 0, kMostTokens}, Splitting::kAuto).blocks == 4 * 2050);
  CHECK(report_of(PagedRows{16, 16, 16, 0, kMostTokens}, Splitting::kAuto).blocks == 4);
}

TEST_CASE("rows in a window have blocks for the splits that its keys may be in") {
  constexpr std::int64_t kLength = 2000;
  const auto splits_of = [](std::int64_t rows, std::int64_t window) {
    return report_of(PagedRows{rows, 1, kLength, window, kLength}, Splitting::kAll).blocks;
  };
  CHECK(splits_of(1, 256) == 2);
  CHECK(splits_of(1, 257) == 2);
  CHECK(splits_of(1, 258) == 3);
  CHECK(splits_of(2, 256) == 2);
  CHECK(splits_of(2, 257) == 3);
  CHECK(splits_of(1, 1900) == 6);  // four short splits and two long ones have all keys
  CHECK(splits_of(1, 0) == 6);
}

TEST_CASE("splits of more tiles than there are counters are refused") {
  AttendParams params;
  params.rows = params.num_seqs = Stream::kNumCounters / 2 + 1;
  params.heads = params.kv_heads = 2;
  params.group = params.seq_len = params.kv_len = 1;
  params.head_dim = kDim;
  CHECK_THROWS_AS(report_of(params, Splitting::kAll), Error);
}

TEST_CASE("tensor cores multiply where the GPU has them for the keys' dtype") {
  constexpr Frames kFrames{1, 3, 1, 65};
  for (const Splitting splitting : {Splitting::kNone, Splitting::kAll}) {
    CHECK(report_of(kFrames, splitting, DType::kBF16, 90).matrix_products > 0);
    CHECK(report_of(kFrames, splitting, DType::kF16, 90).matrix_products > 0);
    CHECK(report_of(kFrames, splitting, DType::kF16, 75).matrix_products > 0);
    CHECK(report_of(kFrames, splitting, DType::kBF16, 75).matrix_products == 0);
    CHECK(report_of(kFrames, splitting, DType::kF32, 90).matrix_products == 0);
  }
}

TEST_SUITE_END();
