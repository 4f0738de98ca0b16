// The products of the AMX tier on an emulation of its tile registers in plain loops, so that their
// blocking is tested on every machine; with AMX, the tests of the operations run the real tiles
// too.
#include "kernels/cpu/internal/tile_gemm.h"

#include <cstring>
#include <vector>

#include "kernels/cpu/tier.h"
#include "tests/kernels/ordered_rows.h"
#include "tests/kernels/testing.h"

using caption::DType;
using caption::Tensor;
using namespace caption::kernels::cpu;
using namespace caption::testing;

namespace {

// Eight registers of 16 rows of 64 bytes with the shapes that AmxTiles configures. Bytes outside a
// shape are neither read nor written, as by the instructions.
class SoftwareTiles {
 public:
  explicit SoftwareTiles(std::int64_t rows)
      : rows_{std::min(rows, kTileRows), rows - std::min(rows, kTileRows)} {}

  template <int i, int j>
  void zero() {
    REQUIRE(rows_[i] > 0);
    std::memset(sums_[i][j], 0, sizeof sums_[i][j]);
  }
  template <int i, int j>
  void store(void* to, std::int64_t stride) {
    for (std::int64_t m = 0; m < rows_[i]; ++m) {
      std::memcpy(static_cast<unsigned char*>(to) + m * stride, sums_[i][j][m], kTileBytes);
    }
  }
  template <int i, int j>
  void load_sums(const void* from, std::int64_t stride) {
    for (std::int64_t m = 0; m < rows_[i]; ++m) {
      std::memcpy(sums_[i][j][m], static_cast<const unsigned char*>(from) + m * stride, kTileBytes);
    }
  }
  template <int i>
  void load_a(const void* from, std::int64_t stride) {
    for (std::int64_t m = 0; m < rows_[i]; ++m) {
      std::memcpy(a_[i][m], static_cast<const unsigned char*>(from) + m * stride, kTileBytes);
    }
  }
  template <int j>
  void load_b(const void* from) {
    for (std::int64_t k = 0; k < kTileRows; ++k) {
      std::memcpy(b_[j][k], static_cast<const unsigned char*>(from) + k * kPanelRowBytes,
                  kTileBytes);
    }
  }
  template <int i, int j>
  void dot(BF16Product) {
    for (std::int64_t m = 0; m < rows_[i]; ++m) {
      for (std::int64_t n = 0; n < 16; ++n) {
        float sum;
        std::memcpy(&sum, sums_[i][j][m] + 4 * n, 4);
        for (std::int64_t k = 0; k < kTileRows; ++k) {
          caption::BF16 a[2], b[2];
          std::memcpy(a, a_[i][m] + 4 * k, 4);
          std::memcpy(b, b_[j][k] + 4 * n, 4);
          for (int c = 0; c < 2; ++c) sum += caption::to_float(a[c]) * caption::to_float(b[c]);
        }
        std::memcpy(sums_[i][j][m] + 4 * n, &sum, 4);
      }
    }
  }
  template <int i, int j>
  void dot(IntegerProduct) {
    for (std::int64_t m = 0; m < rows_[i]; ++m) {
      for (std::int64_t n = 0; n < 16; ++n) {
        std::int32_t sum;
        std::memcpy(&sum, sums_[i][j][m] + 4 * n, 4);
        for (std::int64_t k = 0; k < kTileRows; ++k) {
          for (int c = 0; c < 4; ++c) {
            sum += static_cast<std::int8_t>(a_[i][m][4 * k + c]) * b_[j][k][4 * n + c];
          }
        }
        std::memcpy(sums_[i][j][m] + 4 * n, &sum, 4);
      }
    }
  }

 private:
  std::int64_t rows_[2];
  unsigned char sums_[2][2][kTileRows][kTileBytes];
  unsigned char a_[2][kTileRows][kTileBytes];
  unsigned char b_[2][kTileRows][kTileBytes];
};

// Rows around one and two tiles, and several blocks; K around a step of 16 words, a group and a
// chunk.
constexpr std::int64_t kRows[] = {1, 2, 15, 16, 17, 31, 32, 33, 48, 49, 64, 70, 96};
constexpr std::int64_t kWords[] = {
    1, 7, 16, 17, 100, kChunkWords, kChunkWords + 1, 2 * kChunkWords + 20};

std::vector<std::uint16_t> random_bf16(std::int64_t count, std::uint32_t seed) {
  const Tensor values = random_of(DType::kBF16, {count}, seed);
  const auto* const bits = reinterpret_cast<const std::uint16_t*>(values.view().raw());
  return {bits, bits + count};
}

std::vector<std::uint8_t> random_bytes(std::int64_t count, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(engine());
  return bytes;
}

// Sums of at most 2 * words products in different orders differ by a few roundings of their terms.
void check_floats(const std::vector<float>& got, const std::vector<float>& want,
                  std::int64_t words) {
  double largest = 0;
  for (const float w : want) largest = std::max(largest, static_cast<double>(std::abs(w)));
  // Operands are within [-1, 1), so the terms of a sum add up to at most 2 * words.
  const double tolerance = static_cast<double>(2 * words) * kUnit * static_cast<double>(2 * words);
  int num_wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])) <=
          tolerance + 1e-6 * largest)) {
      ++num_wrong;
    }
  }
  CHECK(num_wrong == 0);
}

// Writes the weights of four columns, [kPanelColumns, 4].
void widen_quad(const Integer4Args& args, std::int64_t group, std::int64_t quad,
                std::uint8_t* weights) {
  const std::uint8_t* const steps = args.steps + group * 2 * kPanelColumns;
  for (std::int64_t i = 0; i < 4 * kPanelColumns; ++i) {
    const std::int64_t n = i / 4;
    const int both = args.codes[quad * 2 * kPanelColumns + quad4_position(n, i % 4)];
    const int code = n < 16 ? both % 16 : both / 16;
    weights[i] = static_cast<std::uint8_t>(steps[n] * code + steps[kPanelColumns + n]);
  }
}

}  // namespace

TEST_SUITE_BEGIN("kernels/tile_gemm");

TEST_CASE("panels of bf16 on tiles agree with the plain loops") {
  for (const std::int64_t m : kRows) {
    for (const std::int64_t pairs : kWords) {
      CAPTURE(m);
      CAPTURE(pairs);
      constexpr std::int64_t kPanels = 2;
      const std::vector<std::uint16_t> a = random_bf16(m * 2 * pairs, 1);
      const std::vector<std::uint16_t> panels = random_bf16(kPanels * pairs * 2 * kPanelColumns, 2);
      const auto run = [&](auto&& gemm, bool is_tiled) {
        const auto rows = ordered_rows(a, m, 2 * pairs, is_tiled);
        std::vector<float> c(static_cast<std::size_t>(m * kPanels * kPanelColumns), -7.0F);
        gemm(PanelArgs{.a = rows.elements.data(),
                       .a_stride = rows.stride,
                       .has_tiled_rows = is_tiled,
                       .panels = panels.data(),
                       .num_pairs = pairs,
                       .num_panels = kPanels,
                       .c = c.data(),
                       .c_stride = kPanels * kPanelColumns,
                       .m = m});
        return c;
      };
      const std::vector<float> tiled = run(tile_panel_gemm<SoftwareTiles>, true);
      check_floats(tiled, run(panel_gemm_reference, false), pairs);
      CHECK(run(tile_panel_gemm<SoftwareTiles>, false) == tiled);
    }
  }
}

TEST_CASE("products of integers on tiles are exact") {
  for (const std::int64_t m : kRows) {
    for (const std::int64_t quads : kWords) {
      CAPTURE(m);
      CAPTURE(quads);
      const std::vector<std::uint8_t> a = random_bytes(m * 4 * quads, 3);
      const std::vector<std::uint8_t> panel = random_bytes(quads * 4 * kPanelColumns, 4);
      const auto run = [&](auto&& product, bool is_tiled) {
        const auto rows = ordered_rows(a, m, 4 * quads, is_tiled);
        std::vector<std::int32_t> c(static_cast<std::size_t>(m * kPanelColumns), -7);
        product(IntegerArgs{.a = reinterpret_cast<const std::int8_t*>(rows.elements.data()),
                            .a_stride = rows.stride,
                            .panel = panel.data(),
                            .num_quads = quads,
                            .c = c.data(),
                            .c_stride = kPanelColumns,
                            .m = m});
        return c;
      };
      CHECK(run(tile_panel8a8<SoftwareTiles>, true) == run(panel8a8_reference, false));
    }
  }
}

TEST_CASE("groups of quantised weights on tiles agree with the plain loops") {
  for (const std::int64_t m : kRows) {
    for (const std::int64_t pairs : kWords) {
      CAPTURE(m);
      CAPTURE(pairs);
      constexpr std::int64_t kGroupPairs = 24;
      const std::int64_t groups = (pairs + kGroupPairs - 1) / kGroupPairs;
      const std::vector<std::uint16_t> a = random_bf16(m * 2 * pairs, 5);
      const std::vector<std::uint8_t> codes = random_bytes(pairs * 2 * kPanelColumns, 6);
      const std::vector<float> scales(static_cast<std::size_t>(groups * kPanelColumns), 1.0F / 128);
      QuantisedArgs args{.a = a.data(),
                         .a_stride = 2 * pairs,
                         .codes = codes.data(),
                         .scales = scales.data(),
                         .num_pairs = pairs,
                         .group_pairs = kGroupPairs,
                         .c_stride = kPanelColumns,
                         .m = m};
      std::vector<float> want(static_cast<std::size_t>(m * kPanelColumns));
      args.c = want.data();
      panel8_reference(args);
      const auto rows = ordered_rows(a, m, 2 * pairs, true);
      args.a = rows.elements.data();
      args.a_stride = rows.stride;
      std::vector<float> got(want.size(), 0.0F);
      const auto expand = [&](std::int64_t pair, std::uint16_t* to) {
        for (std::int64_t n = 0; n < kPanelColumns; ++n) {
          for (std::int64_t c = 0; c < 2; ++c) {
            const std::uint8_t code =
                codes[static_cast<std::size_t>(pair * 2 * kPanelColumns + panel8_position(n, c))];
            to[2 * n + c] =
                caption::to_bf16(static_cast<float>(static_cast<std::int8_t>(code))).bits;
          }
        }
      };
      const auto add = [&](std::int64_t, std::int64_t m0, std::int64_t num_rows,
                           const float* sums) {
        for (std::int64_t i = 0; i < num_rows * kPanelColumns; ++i) {
          got[static_cast<std::size_t>(m0 * kPanelColumns + i)] += sums[i] / 128;
        }
      };
      tile_quantised<SoftwareTiles>(args, expand, add);
      check_floats(got, want, pairs);
    }
  }
}

TEST_CASE("codes of 4 bits on tiles are exact") {
  for (const std::int64_t m : kRows) {
    for (const std::int64_t quads : kWords) {
      for (const std::int64_t group_quads : {std::int64_t{8}, kMaxGroupQuads}) {
        CAPTURE(m);
        CAPTURE(quads);
        CAPTURE(group_quads);
        const std::int64_t groups = (quads + group_quads - 1) / group_quads;
        const std::vector<std::uint8_t> a = random_bytes(m * 4 * quads, 9);
        const std::vector<std::uint8_t> codes = random_bytes(quads * 2 * kPanelColumns, 10);
        std::vector<std::uint8_t> steps = random_bytes(groups * 2 * kPanelColumns, 11);
        for (std::uint8_t& step : steps) step %= 16;  // 15 * step + base <= 255
        const auto run = [&](auto&& product, bool is_tiled) {
          const auto rows = ordered_rows(a, m, 4 * quads, is_tiled);
          std::vector<std::int32_t> c(static_cast<std::size_t>(m * kPanelColumns), -7);
          product(Integer4Args{.a = reinterpret_cast<const std::int8_t*>(rows.elements.data()),
                               .a_stride = rows.stride,
                               .codes = codes.data(),
                               .steps = steps.data(),
                               .num_quads = quads,
                               .group_quads = group_quads,
                               .c = c.data(),
                               .c_stride = kPanelColumns,
                               .m = m});
          return c;
        };
        const auto on_tiles = [](const Integer4Args& args) {
          tile_panel4a8<SoftwareTiles>(args, [&](const QuadGroup& group, std::uint8_t* panel) {
            for (std::int64_t quad = group.first_quad; quad < group.end_quad; ++quad) {
              widen_quad(args, group.index, quad, panel);
              panel += 4 * kPanelColumns;
            }
          });
        };
        CHECK(run(on_tiles, true) == run(panel4a8_reference, false));
      }
    }
  }
}

TEST_CASE("a row on tiles has the bits it has alone") {
  constexpr std::int64_t kM = 70;
  constexpr std::int64_t kPairs = kChunkWords + 37;
  const std::vector<std::uint16_t> a = random_bf16(kM * 2 * kPairs, 7);
  const std::vector<std::uint16_t> panel = random_bf16(kPairs * 2 * kPanelColumns, 8);
  const auto run = [&](std::int64_t first, std::int64_t count, float* c) {
    const auto* const begin = a.data() + first * 2 * kPairs;
    const auto rows = ordered_rows(std::vector<std::uint16_t>(begin, begin + count * 2 * kPairs),
                                   count, 2 * kPairs, true);
    tile_panel_gemm<SoftwareTiles>({.a = rows.elements.data(),
                                    .a_stride = rows.stride,
                                    .has_tiled_rows = true,
                                    .panels = panel.data(),
                                    .num_pairs = kPairs,
                                    .num_panels = 1,
                                    .c = c,
                                    .c_stride = kPanelColumns,
                                    .m = count});
  };
  std::vector<float> whole(kM * kPanelColumns);
  run(0, kM, whole.data());
  std::vector<float> rows(whole.size());
  for (std::int64_t m = 0; m < kM; ++m) run(m, 1, rows.data() + m * kPanelColumns);
  CHECK(std::memcmp(whole.data(), rows.data(), whole.size() * sizeof(float)) == 0);
}

TEST_SUITE_END();
