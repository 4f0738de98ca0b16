// Sequences whose block tables begin with the same pages: each result has the bits of the sequence
// computed alone.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/attend_cascade.h"
#include "kernels/paged_attention.h"
#include "tests/kernels/attention_reference.h"
#include "tests/kernels/one_layer.h"
#include "tests/kernels/testing.h"

using caption::DType;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using caption::kernels::PagedContext;
using caption::kernels::cpu::find_segments;
using caption::kernels::cpu::Segment;
using namespace caption::testing;

namespace {

// Sequences as paths in a tree of common prefixes, with one token per page: sequence s follows
// path[s], a list of branches [id, tokens]. Pages are assigned by (id, offset), so equal prefixes
// share pages.
struct Branch {
  std::int32_t id;
  std::int64_t tokens;
};

struct Tree {
  Tree(DType dtype, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
       std::int64_t page_tokens_, const std::vector<std::vector<Branch>>& paths,
       const std::vector<std::int64_t>& rows_)
      : page_tokens(page_tokens_), rows(rows_) {
    constexpr std::int64_t kMaxBranches = 12;
    std::int64_t longest = 0;
    for (const auto& path : paths) {
      std::int64_t length = 0;
      for (const Branch& branch : path) length += branch.tokens;
      lengths.push_back(length);
      longest = std::max(longest, length);
    }
    max_pages = longest / page_tokens + 1;
    for (std::size_t s = 0; s < paths.size(); ++s) {
      std::vector<std::int32_t> table(static_cast<std::size_t>(max_pages), -1);
      std::int64_t page = 0;
      std::int64_t end = 0;
      for (const Branch& branch : paths[s]) {
        end += branch.tokens;
        for (; page * page_tokens < end; ++page) {
          table[static_cast<std::size_t>(page)] =
              static_cast<std::int32_t>(page * kMaxBranches + branch.id);
        }
      }
      tables.push_back(table);
    }
    const std::int64_t num_pages = max_pages * kMaxBranches;
    const std::int64_t slots = num_pages * page_tokens;
    k_pages = Tensor::zeros(dtype, {num_pages, page_tokens, kv_heads, head_dim});
    v_pages = Tensor::zeros(dtype, k_pages.shape());
    if (dtype == DType::kI8) {
      k_scales = Tensor::zeros(DType::kBF16, {num_pages, page_tokens, kv_heads});
      v_scales = Tensor::zeros(DType::kBF16, k_scales.shape());
    }
    ThreadPool pool(1);
    Stream stream(pool, caption::CpuTier::kReference);
    std::vector<std::int32_t> all(static_cast<std::size_t>(slots));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);
    caption::kernels::kv_write(stream, random_f32({slots, kv_heads, head_dim}, 1).view(),
                               random_f32({slots, kv_heads, head_dim}, 2).view(),
                               indices(all).view(),
                               {.k = k_pages.view(),
                                .v = v_pages.view(),
                                .k_scales = k_scales.empty() ? caption::View() : k_scales.view(),
                                .v_scales = v_scales.empty() ? caption::View() : v_scales.view()});
    for (std::size_t s = 0; s < rows.size(); ++s) {
      q.push_back(random_f32({rows[s], heads, head_dim}, static_cast<std::uint32_t>(7 + s)));
    }
  }

  // Attends the sequences `which` in one call; pages before their windows are not in the tables.
  std::vector<Tensor> attend(Stream& stream, const std::vector<std::size_t>& which,
                             std::int64_t window = 0) const {
    std::vector<std::int32_t> cu{0}, lens, table;
    for (const std::size_t s : which) {
      cu.push_back(cu.back() + static_cast<std::int32_t>(rows[s]));
      lens.push_back(static_cast<std::int32_t>(lengths[s]));
      const std::int64_t first_key = lengths[s] - rows[s] - window + 1;
      for (std::int64_t i = 0; i < max_pages; ++i) {
        const bool is_released = window > 0 && (i + 1) * page_tokens <= first_key;
        table.push_back(is_released ? -1 : tables[s][static_cast<std::size_t>(i)]);
      }
    }
    const std::int64_t width = q[0].dim(1) * q[0].dim(2);
    Tensor all(DType::kF32, {cu.back(), q[0].dim(1), q[0].dim(2)});
    for (std::size_t i = 0; i < which.size(); ++i) {
      const Tensor& from = q[which[i]];
      std::copy_n(from.as<float>(), from.num_elements(), all.as<float>() + cu[i] * width);
    }
    const Tensor cu_seqlens = indices(cu);
    const Tensor context_lens = indices(lens);
    const Tensor block_tables = indices(table);
    Tensor y(DType::kF32, all.shape());
    caption::kernels::paged_attention(
        stream, all.view(),
        {.k_pages = k_pages.view(),
         .v_pages = v_pages.view(),
         .cu_seqlens = cu_seqlens.view(),
         .context_lens = context_lens.view(),
         .block_tables =
             block_tables.view().reshape({static_cast<std::int64_t>(which.size()), max_pages}),
         .k_scales = k_scales.empty() ? caption::ConstView() : k_scales.view(),
         .v_scales = v_scales.empty() ? caption::ConstView() : v_scales.view(),
         .window = window},
        0.6F, y.view());
    std::vector<Tensor> out;
    for (std::size_t i = 0; i < which.size(); ++i) {
      out.push_back(Tensor(DType::kF32, q[which[i]].shape()));
      std::copy_n(y.as<float>() + cu[i] * width, out[i].num_elements(), out[i].as<float>());
    }
    return out;
  }

  std::int64_t page_tokens;
  std::vector<std::int64_t> rows, lengths;
  std::int64_t max_pages = 0;
  std::vector<std::vector<std::int32_t>> tables;
  Tensor k_pages, v_pages, k_scales, v_scales;
  std::vector<Tensor> q;
};

struct Exact {
  std::vector<double> y, tolerance;
};

// The exact result of the last row for each of the given contexts.
Exact exact_rows(Layer& layer, std::span<const std::int64_t> contexts, Rounding rounding) {
  const std::int64_t heads = layer.q.dim(1);
  const std::int64_t kv_heads = layer.k.dim(1);
  const std::int64_t head_dim = layer.q.dim(2);
  const std::vector<double> q = query_values(layer.q, rounding);
  Exact exact;
  for (const std::int64_t context : contexts) {
    for (std::int64_t h = 0; h < heads; ++h) {
      std::vector<std::vector<double>> vectors;
      for (std::int64_t j = 0; j < context; ++j) {
        vectors.push_back(layer.stored(true, j, h / (heads / kv_heads)));
        vectors.push_back(layer.stored(false, j, h / (heads / kv_heads)));
      }
      std::vector<const double*> k, v;
      for (std::size_t j = 0; j < vectors.size(); j += 2) {
        k.push_back(vectors[j].data());
        v.push_back(vectors[j + 1].data());
      }
      attend_exactly(q.data() + ((context - 1) * heads + h) * head_dim, k, v, head_dim,
                     static_cast<double>(Batch::kScale), exact.y, exact.tolerance, rounding);
    }
  }
  return exact;
}

// All but one share a prompt, with two videos after it and a prompt after each; one context ends
// inside the part that others share, and one exactly at its end.
const std::vector<std::vector<Branch>> kPaths = {
    {{0, 260}, {1, 300}, {3, 40}}, {{0, 260}, {2, 200}, {4, 9}}, {{5, 130}},
    {{0, 260}, {1, 300}, {6, 1}},  {{0, 260}, {1, 124}},         {{0, 384}},
    {{0, 260}, {2, 200}, {7, 77}}, {{0, 260}, {1, 300}, {3, 40}}};
// New rows per sequence: decodes and chunks; some rows are inside the shared part.
const std::vector<std::int64_t> kRows = {1, 1, 3, 1, 1, 130, 90, 2};

}  // namespace

TEST_SUITE_BEGIN("kernels/attention_cascade");

TEST_CASE("a sequence has the bits it has alone, whatever pages it shares with others") {
  std::vector<std::size_t> all(kPaths.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  std::vector<std::size_t> backwards(all.rbegin(), all.rend());
  for (const DType dtype : kPageDTypes) {
    for (const std::int64_t page_tokens : {16, 5, 200}) {
      const Tree tree(dtype, 6, 2, 20, page_tokens, kPaths, kRows);
      CAPTURE(dtype_name(dtype));
      CAPTURE(page_tokens);
      for_each_stream([&](Stream& stream) {
        for (const std::int64_t window : {0, 100, 390}) {
          CAPTURE(window);
          const std::vector<Tensor> together = tree.attend(stream, all, window);
          const std::vector<Tensor> reversed = tree.attend(stream, backwards, window);
          int different = 0;
          for (std::size_t s = 0; s < all.size(); ++s) {
            const std::vector<Tensor> alone = tree.attend(stream, {s}, window);
            different += !same_bits(alone[0], together[s]);
            different += !same_bits(alone[0], reversed[all.size() - 1 - s]);
          }
          CHECK(different == 0);
        }
      });
    }
  }
}

TEST_CASE("segments cover each sequence's blocks once, in order, and share what is common") {
  const Tree tree(DType::kF32, 1, 1, 1, 16, kPaths, kRows);
  std::vector<std::int32_t> lens, table;
  for (std::size_t s = 0; s < kPaths.size(); ++s) {
    lens.push_back(static_cast<std::int32_t>(tree.lengths[s]));
    table.insert(table.end(), tree.tables[s].begin(), tree.tables[s].end());
  }
  const Tensor context_lens = indices(lens);
  const Tensor block_tables = indices(table);
  const PagedContext context{.k_pages = tree.k_pages.view(),
                             .v_pages = tree.v_pages.view(),
                             .cu_seqlens = context_lens.view(),
                             .context_lens = context_lens.view(),
                             .block_tables = block_tables.view().reshape(
                                 {static_cast<std::int64_t>(lens.size()), tree.max_pages})};
  std::vector<std::int32_t> order(lens.size());
  std::vector<std::int64_t> common(lens.size());
  std::vector<Segment> room(2 * lens.size());
  const auto segments = find_segments(context, order, common, room.data());
  std::vector<std::int64_t> next_block(lens.size(), 0);
  std::vector<std::int32_t> last_level(lens.size(), -1);
  std::int64_t blocks_read = 0;
  for (const Segment& segment : segments) {
    if (segment.first_block == segment.end_block) continue;
    blocks_read += segment.end_block - segment.first_block;
    for (std::int32_t i = segment.first; i < segment.first + segment.count; ++i) {
      const auto s = static_cast<std::size_t>(order[static_cast<std::size_t>(i)]);
      CHECK(next_block[s] == segment.first_block);
      CHECK(last_level[s] < segment.level);
      next_block[s] = segment.end_block;
      last_level[s] = segment.level;
    }
  }
  for (std::size_t s = 0; s < lens.size(); ++s) CHECK(next_block[s] == (lens[s] + 127) / 128);
  // With 128 tokens per block: the prompt's 2 blocks are shared by seven sequences; the first
  // video's third block by four, its fourth by three; the second video's third block by two. The
  // blocks left for single sequences are 1, 1, 2, 1, 0, 1, 2, 1. Without sharing the sequences
  // would read 32.
  CHECK(blocks_read == 2 + 1 + 1 + 1 + 9);
}

TEST_CASE("heads, groups and contexts of any size agree with doubles and do not see their chunk") {
  struct Case {
    std::int64_t group, kv_heads, head_dim, length;
  };
  constexpr Case kCases[] = {{1, 3, 1, 1},     {2, 1, 2, 2},      {3, 2, 3, 127},  {4, 1, 31, 128},
                             {5, 1, 33, 129},  {6, 2, 63, 255},   {7, 1, 64, 257}, {8, 1, 65, 300},
                             {2, 8, 128, 140}, {1, 1, 127, 1000}, {2, 2, 129, 64}, {3, 1, 255, 65},
                             {1, 2, 256, 200}};
  for (const Case& c : kCases) {
    for (const DType dtype : kPageDTypes) {
      CAPTURE(c.head_dim);
      CAPTURE(c.length);
      CAPTURE(dtype_name(dtype));
      Layer layer(dtype, c.length, c.group * c.kv_heads, c.kv_heads, c.head_dim);
      ThreadPool pool(1);
      Stream plain(pool);
      layer.write(plain);
      const std::int64_t rows[] = {c.length, (c.length + 1) / 2, 1};
      const Exact exact[] = {exact_rows(layer, rows, Rounding::kF32),
                             exact_rows(layer, rows, Rounding::kBF16)};
      for_each_stream([&](Stream& stream) {
        const Tensor whole = Batch(layer, c.length, c.length).attend(stream);
        const std::int64_t row = layer.q.dim(1) * c.head_dim;
        int different = 0;
        std::vector<float> got;
        for (const std::int64_t last : rows) {
          const Tensor one = Batch(layer, 1, last).attend(stream);
          different += !std::equal(one.as<float>(), one.as<float>() + row,
                                   whole.as<float>() + (last - 1) * row);
          got.insert(got.end(), one.as<float>(), one.as<float>() + row);
        }
        const Exact& want = exact[static_cast<int>(rounding_of(stream, dtype))];
        check_close(got.data(), want.y, want.tolerance);
        CHECK(different == 0);
      });
    }
  }
}

TEST_SUITE_END();
