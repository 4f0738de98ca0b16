// The dense layer by rows of f32, bf16 or f16 as they are: products and sums in f32, each sum one
// chain of fused multiply-adds in the order of k, for every number of rows.
//
// A block computes 64 features of 8 or 64 rows. It is for exactness, not for speed.
// Traffic  the weight once per block of rows, x once per block of features, f32 in shared memory.
// Measured on no GPU.
#include "kernels/cuda/dense_layer.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/parts.cuh"
#include "kernels/cuda/weight_forms.h"

namespace caption::kernels::cuda {
namespace {

constexpr int kFeatures = 64;  // features per block
constexpr int kColumns = 32;   // columns per step
constexpr int kFeatureThreads = 16;
constexpr int kFeaturesPerThread = kFeatures / kFeatureThreads;

struct Rows {
  ConstNumbers numbers;
  std::int64_t stride;
  int count;
};

struct MultiplyRowsParams {
  Parts<Rows> parts;
  Rows x;
  int columns;
};

// kRows rows of x; kPerThread of them are a thread's. kOperands is 2 for SwiGLU, otherwise 1.
template <int kRows, int kPerThread, int kOperands>
struct MultiplyRows {
  static constexpr int kRowThreads = kRows / kPerThread;
  static constexpr int kThreads = kFeatureThreads * kRowThreads;
  using Params = MultiplyRowsParams;
  // Odd strides, so that a step's elements of a row, and the rows of a column, are in different
  // banks.
  struct Shared {
    float x[kColumns][kRows + 1];
    float weight[kOperands][kColumns][kFeatures + 1];
  };
  using Sums = float[kOperands][kPerThread][kFeaturesPerThread];

  static CAPTION_DEVICE void run(const Params& p) {
    auto& shared = shared_memory<Shared>();
    const int part = p.parts.part_of(block_x());
    const int first_feature = (block_x() - p.parts.part[part].first_block) * kFeatures;
    const int first_row = block_y() * kRows;
    Sums sums = {};
    for (int k = 0; k < p.columns; k += kColumns) {
      load_step(p.x, first_row, k, p.columns, shared.x);
      for (int o = 0; o < kOperands; ++o) {
        load_step(p.parts.part[part + o].weight, first_feature, k, p.columns, shared.weight[o]);
      }
      sync_block();
      multiply_step(shared, sums);
      sync_block();
    }
    store_sums(p, part, first_row, first_feature, sums);
  }

  // The columns [k, k + kColumns) of kStride - 1 rows from `first` on, transposed; zeros beyond the
  // matrix. The lanes of a warp read a row.
  template <int kStride>
  static CAPTION_DEVICE void load_step(const Rows& from, int first, int k, int columns,
                                       float (&to)[kColumns][kStride]) {
    const int column = k + lane_index();
    for (int i = warp_index(); i < kStride - 1; i += kThreads / 32) {
      const int row = first + i;
      float x = 0;
      if (row < from.count && column < columns) {
        x = load_numbers<1>(from.numbers, row * from.stride + column).x[0];
      }
      to[lane_index()][i] = x;
    }
  }

  static CAPTION_DEVICE int feature_of(int i) {
    return thread_index() % kFeatureThreads + i * kFeatureThreads;
  }
  static CAPTION_DEVICE int row_of(int i) {
    return thread_index() / kFeatureThreads + i * kRowThreads;
  }

  static CAPTION_DEVICE void multiply_step(const Shared& shared, Sums& sums) {
    for (int k = 0; k < kColumns; ++k) {
      float x[kPerThread];
      CAPTION_UNROLL
      for (int r = 0; r < kPerThread; ++r) x[r] = shared.x[k][row_of(r)];
      CAPTION_UNROLL
      for (int o = 0; o < kOperands; ++o) {
        CAPTION_UNROLL
        for (int f = 0; f < kFeaturesPerThread; ++f) {
          const float weight = shared.weight[o][k][feature_of(f)];
          CAPTION_UNROLL
          for (int r = 0; r < kPerThread; ++r) sums[o][r][f] = fused(x[r], weight, sums[o][r][f]);
        }
      }
    }
  }

  static CAPTION_DEVICE void store_sums(const Params& p, int part, int first_row, int first_feature,
                                        const Sums& sums) {
    const Output& output = p.parts.part[part].output;
    CAPTION_UNROLL
    for (int r = 0; r < kPerThread; ++r) {
      const int row = first_row + row_of(r);
      CAPTION_UNROLL
      for (int f = 0; f < kFeaturesPerThread; ++f) {
        const int feature = first_feature + feature_of(f);
        if (row >= p.x.count || feature >= output.features) continue;
        if constexpr (kOperands == 1) {
          store_sum(output, row, feature, sums[0][r][f]);
        } else {
          store_swiglu(output, p.parts.part[1].output, row, feature, sums[0][r][f], sums[1][r][f]);
        }
      }
    }
  }
};

Rows rows_of(ConstView view) {
  return {.numbers = numbers_of(view),
          .stride = view.row_stride(),
          .count = static_cast<int>(view.dim(0))};
}

template <int kRows, int kPerThread>
void launch_multiply_rows(Stream& stream, const MultiplyRowsParams& params, bool is_swiglu) {
  const Grid grid{.x = static_cast<unsigned>(params.parts.blocks),
                  .y = (static_cast<unsigned>(params.x.count) + kRows - 1) / kRows};
  if (is_swiglu) return launch<MultiplyRows<kRows, kPerThread, 2>>(stream, grid, params);
  launch<MultiplyRows<kRows, kPerThread, 1>>(stream, grid, params);
}

}  // namespace

void multiply_rows(Stream& stream, const DenseLayer& layer) {
  const MultiplyRowsParams params{
      .parts = parts_of(layer, kFeatures,
                        [](const Weight& weight) { return rows_of(RowsForm::of(weight).rows()); }),
      .x = rows_of(layer.x),
      .columns = static_cast<int>(layer.x.dim(1))};
  if (params.x.count <= 8) {
    launch_multiply_rows<8, 2>(stream, params, layer.is_swiglu);
  } else {
    launch_multiply_rows<64, 4>(stream, params, layer.is_swiglu);
  }
}

}  // namespace caption::kernels::cuda
