// The dense layer with codes of 8 and 4 bits in groups of columns. A block computes 16 features of
// up to 32 rows. Its four warps take the slices of K in turn.
//
// Sums       of the products of a group with its codes, by tensor cores from 0 in the order of k;
//            times the group's scale, plus its offset times the group's sum of x, to the slice's
//            sum, group after group; slices are added in their order. So the order depends on the
//            weight only, and a row has the same bits alone and beside others.
// Traffic    1 or half a byte per weight, once per 32 rows; x comes from L1 and L2.
// In flight  11 copies of 512 bytes and more per warp (kTable4: 5); before sm_80, four loads.
// Measured on no GPU.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <type_traits>

#include "kernels/cuda/code_form.h"
#include "kernels/cuda/code_fragments.cuh"
#include "kernels/cuda/code_ring.cuh"

namespace caption::kernels::cuda {
namespace {

constexpr int kSliceColumns = 512;
constexpr int kMostCodeRows = 32;  // with few-row kernels, of which one block has all these rows

// Scales of the features f = lane / 4 and f + 8, and their offsets.
struct GroupNumbers {
  float scale[2];
  float offset[2];
};

template <class T, CodeKind kKind, int kRowGroups>
struct MultiplyCodes {
  static constexpr Gpus kGpus = kGpusOfProducts<T>;
  static constexpr int kThreads = 32 * kCodeWarps;
  using Params = CodeParams;
  using Fragments = CodeFragments<T, kKind>;
  static constexpr int kSteps = Fragments::kSteps;
  static constexpr int kChunks = kSteps / 2;  // chunks of 32 columns
  static_assert(2 * kChunks == kSteps);
  static constexpr bool kInRegisters = std::is_same_v<T, F16>;
  static constexpr int kStages = kInRegisters ? 4 : kKind == CodeKind::kTable4 ? 6 : 12;
  using Ring = CodeRing<kStages, kSteps, kInRegisters>;
  struct Shared {
    typename Ring::Shared ring;
    float sums[kCodeWarps][kRowGroups][4][32];  // each sums one slice
    float totals[2][kRowGroups][4][32];         // one per pass
    typename Fragments::Shared table;
  };
  using Sums = float[kRowGroups][4];
  // The lane's columns of its row of each group of 8 rows, for a tile.
  struct TileOfX {
    Bytes16 chunk[kRowGroups][kChunks];
  };

  static CAPTION_DEVICE void run(const Params& p) {
    auto& shared = shared_memory<Shared>();
    const CodeWork work = work_of_block(p);
    const Fragments fragments(shared.table, p.parts.part[work.first_part].weight.codebook,
                              kCodeWarps);
    if constexpr (kKind == CodeKind::kTable4) sync_block();
    Ring ring(p, work, shared.ring);
    for (int pass = 0; pass < work.num_passes; ++pass) {
      Sums totals = {};
      for (int first = 0; first < p.tiles; first += kCodeWarps * p.tiles_per_slice) {
        Sums sums = {};
        const int begin = first + warp_index() * p.tiles_per_slice;
        const int end = begin + p.tiles_per_slice < p.tiles ? begin + p.tiles_per_slice : p.tiles;
        multiply_slice(p, ring, fragments, begin, end, sums);
        add_slices(shared, sums, totals);
      }
      if (warp_index() == 0) {
        for (int g = 0; g < kRowGroups; ++g) {
          for (int e = 0; e < 4; ++e) shared.totals[pass][g][e][lane_index()] = totals[g][e];
        }
      }
    }
    wait_copies<0>();
    sync_block();
    store_totals(p, work, shared);
  }

  static CAPTION_DEVICE void multiply_slice(const Params& p, Ring& ring, const Fragments& fragments,
                                            int begin, int end, Sums& sums) {
    if (begin >= end) return;
    FragmentC products[kRowGroups] = {};  // sums of one group
    GroupNumbers numbers = {};
    int group = begin * kSteps / p.group_steps - 1;
    int steps_left = 0;  // steps until the group ends
    TileOfX next_x = load_x(p, begin);
    for (int tile = begin; tile < end; ++tile) {
      const TileOfX x = next_x;
      const Bytes16 codes = ring.next();
      if (tile + 1 < end) next_x = load_x(p, tile + 1);
      int begun = 0;  // groups in this tile
      for (int step = 0; step < kSteps; ++step) {
        if (steps_left == 0) {
          if (++group == p.groups) break;  // the rest of the tile is beyond the matrix
          numbers = load_numbers_of_group(p, ring, begun++);
          steps_left = p.group_steps;
        }
        const FragmentA a = fragments.fragment(codes, step);
        for (int g = 0; g < kRowGroups; ++g) {
          const Bytes16& chunk = x.chunk[g][step / 2];
          const int word = step % 2 * 2;
          multiply_fragments(T{}, products[g], a, {{chunk.word[word], chunk.word[word + 1]}});
        }
        if (--steps_left == 0) add_group(p, group, numbers, products, sums);
      }
    }
  }

  static CAPTION_DEVICE TileOfX load_x(const Params& p, int tile) {
    TileOfX x = {};
    for (int g = 0; g < kRowGroups; ++g) {
      const int row = (block_y() * kRowGroups + g) * 8 + lane_index() / 4;
      if (row >= p.rows) continue;
      const std::int64_t first = std::int64_t{row} * p.packed_columns + tile * kChunks * 32;
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        const std::int64_t column = first + chunk * 32 + lane_index() % 4 * 8;
        x.chunk[g][chunk] = load(reinterpret_cast<const Bytes16*>(p.x + column * 2));
      }
    }
    return x;
  }

  static CAPTION_DEVICE GroupNumbers load_numbers_of_group(const Params& p, const Ring& ring,
                                                           int begun) {
    const int at = begun * 8 + lane_index() / 4;
    if (p.has_offsets) {
      const auto four = ring.template number<Packed<float, 4>>(at);
      return {.scale = {four.x[0], four.x[1]}, .offset = {four.x[2], four.x[3]}};
    }
    const auto two = ring.template number<Packed<float, 2>>(at);
    return {.scale = {two.x[0], two.x[1]}, .offset = {}};
  }

  // Adds a group to the sums of its slice.
  static CAPTION_DEVICE void add_group(const Params& p, int group, const GroupNumbers& numbers,
                                       FragmentC (&products)[kRowGroups], Sums& sums) {
    for (int g = 0; g < kRowGroups; ++g) {
      for (int e = 0; e < 4; ++e) {
        sums[g][e] = fused(numbers.scale[e / 2], products[g].sum[e], sums[g][e]);
      }
      products[g] = {};
      const int eight_rows = block_y() * kRowGroups + g;
      if (!p.has_offsets || eight_rows * 8 >= p.rows) continue;
      const std::int64_t at =
          (std::int64_t{eight_rows} * p.groups + group) * 8 + lane_index() % 4 * 2;
      const auto of_x = load(reinterpret_cast<const Packed<float, 2>*>(p.group_sums + at));
      for (int e = 0; e < 4; ++e) {
        sums[g][e] = fused(numbers.offset[e / 2], of_x.x[e % 2], sums[g][e]);
      }
    }
  }

  // Adds the four warps' slices to warp 0's totals, in their order. A warp without a slice has
  // zeros, which change no sum.
  static CAPTION_DEVICE void add_slices(Shared& shared, const Sums& sums, Sums& totals) {
    for (int g = 0; g < kRowGroups; ++g) {
      for (int e = 0; e < 4; ++e) shared.sums[warp_index()][g][e][lane_index()] = sums[g][e];
    }
    sync_block();
    if (warp_index() == 0) {
      for (int g = 0; g < kRowGroups; ++g) {
        for (int e = 0; e < 4; ++e) {
          for (int w = 0; w < kCodeWarps; ++w) {
            totals[g][e] += shared.sums[w][g][e][lane_index()];
          }
        }
      }
    }
    sync_block();
  }

  // A warp stores one element of each lane's fragments.
  static CAPTION_DEVICE void store_totals(const Params& p, const CodeWork& work,
                                          const Shared& shared) {
    const int e = warp_index();
    const int feature = work.tile_row * 16 + lane_index() / 4 + e / 2 * 8;
    const Output& output = p.parts.part[work.first_part].output;
    if (feature >= output.features) return;
    for (int g = 0; g < kRowGroups; ++g) {
      const int row = (block_y() * kRowGroups + g) * 8 + lane_index() % 4 * 2 + e % 2;
      if (row >= p.rows) return;
      const float total = shared.totals[0][g][e][lane_index()];
      if (p.is_swiglu) {
        const float up = shared.totals[1][g][e][lane_index()];
        store_swiglu(output, p.parts.part[1].output, row, feature, total, up);
      } else {
        store_sum(output, row, feature, total);
      }
    }
  }
};

template <class T, CodeKind kKind>
void launch_codes(Stream& stream, const CodeParams& params) {
  if (params.rows <= 8) {
    return launch<MultiplyCodes<T, kKind, 1>>(stream, code_grid(params, 8), params);
  }
  if (params.rows <= 16) {
    return launch<MultiplyCodes<T, kKind, 2>>(stream, code_grid(params, 16), params);
  }
  launch<MultiplyCodes<T, kKind, 4>>(stream, code_grid(params, 32), params);
}

template <class T>
void launch_kind(Stream& stream, const CodeParams& params, CodeKind kind) {
  if (kind == CodeKind::kInt8) return launch_codes<T, CodeKind::kInt8>(stream, params);
  if (kind == CodeKind::kInt4) return launch_codes<T, CodeKind::kInt4>(stream, params);
  launch_codes<T, CodeKind::kTable4>(stream, params);
}

CodeOperand operand_of(const Weight& weight) {
  const PackedCodes& codes = CodesForm::of(weight).codes();
  CodeOperand operand{.tiles = static_cast<const Bytes16*>(codes.tiles),
                      .numbers = static_cast<const std::byte*>(codes.numbers),
                      .rows = codes.rows,
                      .codebook = {}};
  const bool is_bf16 = codes.dtype == DType::kBF16;
  const auto rounded = [&](float x) { return is_bf16 ? to_bf16(x).bits : to_f16(x).bits; };
  for (std::size_t i = 0; i < std::size(codes.codebook); ++i) {
    operand.codebook[i] = rounded(codes.codebook[i]);
  }
  if (codes.shape.kind == CodeKind::kInt4) operand.codebook[0] = rounded(is_bf16 ? 128 : 1024);
  return operand;
}

CodeParams code_params(const DenseLayer& layer, const CodeShape& shape, const CodedRows& x) {
  const bool has_groups = !has_whole_rows(shape.kind);
  const int step_columns = has_8_bit_inputs(shape.kind) ? 32 : 16;
  const int slice_unit =
      has_groups ? std::lcm(shape.packed_group, shape.tile_columns) : shape.tile_columns;
  int slice = std::max(kSliceColumns / slice_unit, 1) * slice_unit;
  if (shape.kind == CodeKind::kE4M3) slice = e4m3_slice_columns(shape.packed_columns());
  const int group_steps = shape.packed_group / step_columns;
  return {.parts = parts_of(layer, 16, operand_of),
          .x = static_cast<const std::byte*>(x.x),
          .group_sums = x.group_sums,
          .x_scales = x.scales,
          .is_swiglu = layer.is_swiglu,
          .has_offsets = shape.has_offsets,
          .rows = static_cast<int>(layer.x.dim(0)),
          .packed_columns = shape.packed_columns(),
          .tiles = shape.tiles_per_row,
          .tiles_per_slice = slice / shape.tile_columns,
          .groups = shape.num_groups,
          .group_steps = group_steps,
          .inverse_of_group_steps = (65535 + group_steps) / group_steps,
          .group_pieces = shape.group_bytes / 16};
}

}  // namespace

void multiply_codes(Stream& stream, const DenseLayer& layer, CodeBlocks blocks) {
  const PackedCodes& first = CodesForm::of(layer.parts.front().weight).codes();
  const CodedRows x = code_rows(stream, layer.x, first,
                                stream.scratch(coded_rows_bytes(first.shape, layer.x.dim(0))));
  const CodeParams params = code_params(layer, first.shape, x);
  const CodeKind kind = first.shape.kind;
  const bool is_integer = has_integer_products(kind);
  const bool is_few = blocks == CodeBlocks::kAsNeeded ? params.rows <= kMostCodeRows
                                                      : blocks == CodeBlocks::kFewRows;
  if (kind == CodeKind::kE4M3) {
    if (is_few) return multiply_e4m3_few_rows(stream, params);
    multiply_e4m3_tiles(stream, params, blocks);
  } else if (!is_few) {
    const auto multiply = is_integer ? multiply_integer_tiles : multiply_code_tiles;
    multiply(stream, params, kind, first.dtype, blocks);
  } else if (is_integer) {
    multiply_integers(stream, params, kind, first.dtype);
  } else if (first.dtype == DType::kBF16) {
    launch_kind<BF16>(stream, params, kind);
  } else {
    launch_kind<F16>(stream, params, kind);
  }
}

}  // namespace caption::kernels::cuda
