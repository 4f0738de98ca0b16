// Attention on tensor cores in graphs, where its launch begins before the one before it has ended.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "backend/graph.h"
#include "kernels/cuda/attend.h"
#include "kernels/paged_attention.h"
#include "tests/cuda/testing.h"

using caption::DType;
using caption::Stream;
using caption::cuda_emulator::Fault;
using caption::cuda_emulator::FaultFound;
using caption::kernels::PagedContext;
using caption::kernels::cuda::Splitting;
using namespace caption::testing;

namespace {

// A step of one token of each sequence, before whose attention kv_write() writes the key and value
// of a position, of each sequence the same or that of the token itself. Pages of 16 tokens have all
// others.
struct DecodeStep {
  static constexpr std::int64_t kHeads = 3;
  static constexpr std::int64_t kDim = 32;
  static constexpr std::int64_t kPageTokens = 16;

  DecodeStep(const std::vector<std::int64_t>& positions, DType dtype,
             std::optional<std::int64_t> written = {})
      : num_seqs(static_cast<std::int64_t>(positions.size())),
        num_pages(*std::max_element(positions.begin(), positions.end()) / kPageTokens + 1) {
    std::vector<std::int32_t> first_rows{0}, lengths, written_slots;
    for (std::int64_t s = 0; s < num_seqs; ++s) {
      const std::int64_t position = positions[static_cast<std::size_t>(s)];
      first_rows.push_back(static_cast<std::int32_t>(s + 1));
      lengths.push_back(static_cast<std::int32_t>(position + 1));
      written_slots.push_back(
          static_cast<std::int32_t>(s * num_pages * kPageTokens + written.value_or(position)));
    }
    std::vector<std::int32_t> pages(static_cast<std::size_t>(num_seqs * num_pages));
    std::iota(pages.begin(), pages.end(), 0);
    q.emplace(random_f32({num_seqs, kHeads, kDim}, 1));
    k.emplace(random_f32({num_seqs, 1, kDim}, 2));
    v.emplace(random_f32({num_seqs, 1, kDim}, 3));
    slots.emplace(indices(written_slots));
    cu_seqlens.emplace(indices(first_rows));
    context_lens.emplace(indices(lengths));
    tables.emplace(indices(pages));
    k_pages.emplace(random_of(dtype, {num_seqs * num_pages, kPageTokens, 1, kDim}, 4));
    v_pages.emplace(random_of(dtype, k_pages->view().shape(), 5));
    y.emplace(DType::kF32, q->view().shape());
  }

  void launch(Stream& stream, Splitting splitting) const {
    namespace cuda = caption::kernels::cuda;
    caption::kernels::kv_write(stream, k->view(), v->view(), slots->view(),
                               {.k = k_pages->view(), .v = v_pages->view()});
    const PagedContext context{.k_pages = k_pages->view(),
                               .v_pages = v_pages->view(),
                               .cu_seqlens = cu_seqlens->view(),
                               .context_lens = context_lens->view(),
                               .block_tables = tables->view().reshape({num_seqs, num_pages})};
    cuda::attend(stream, cuda::paged_operands(q->view(), context, 0.5F, y->view()), splitting);
  }

  std::int64_t num_seqs;
  std::int64_t num_pages;  // pages of a sequence
  std::optional<DeviceTensor> q, k, v, slots, cu_seqlens, context_lens, tables, k_pages, v_pages, y;
};

// The kernels for a dtype of pages on a GPU.
struct Case {
  DType dtype;
  int compute_capability;
  Splitting splitting;
};
constexpr Case kCases[] = {
    {DType::kBF16, 90, Splitting::kNone}, {DType::kBF16, 90, Splitting::kAll},
    {DType::kF16, 90, Splitting::kNone},  {DType::kF16, 90, Splitting::kAll},
    {DType::kF16, 75, Splitting::kAll},
};

// Launches one step, and the other as a graph; returns the faults of both.
std::vector<FaultFound> faults_of(const Case& c, const DecodeStep& alone,
                                  const DecodeStep& in_graph) {
  const caption::cuda_emulator::Emulation emulation;
  caption::ThreadPool pool(1);
  Stream stream({.device = caption::Device::kCuda, .compute_capability = c.compute_capability},
                pool);
  alone.launch(stream, c.splitting);  // then the stream has the scratch memory of a step
  caption::GraphCapture capture(stream);
  in_graph.launch(stream, c.splitting);
  const caption::Graph graph = capture.finish();
  graph.launch(stream);
  stream.synchronize();
  return emulation.report().faults;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/paged_attention");

TEST_CASE("in a graph, a step's own keys are read when the launch that writes them has ended") {
  // Positions around the first key of 64, and of a split, and within them.
  const std::vector<std::int64_t> kPositions{0, 1, 63, 64, 65, 127, 128, 191, 255, 256, 300, 330};
  for (const Case& c : kCases) {
    CAPTURE(std::string(caption::dtype_name(c.dtype)));
    CAPTURE(c.compute_capability);
    const DecodeStep alone(kPositions, c.dtype);
    const DecodeStep in_graph(kPositions, c.dtype);
    CHECK(faults_of(c, alone, in_graph).empty());
    CHECK(same_bits(in_graph.y->to_host(), alone.y->to_host()));
  }
}

TEST_CASE("in a graph, keys of earlier steps are read before the wait") {
  for (const Case& c : kCases) {
    CAPTURE(std::string(caption::dtype_name(c.dtype)));
    CAPTURE(c.compute_capability);
    // The launch before writes the last of the 64 keys before the token's. No decoder does so: the
    // fault shows that these keys are read while that launch may be under way.
    const DecodeStep alone({64}, c.dtype, 63);
    const DecodeStep in_graph({64}, c.dtype, 63);
    const std::vector<FaultFound> faults = faults_of(c, alone, in_graph);
    CHECK_FALSE(faults.empty());
    for (const FaultFound& found : faults) CHECK(found.fault == Fault::kBeforeWait);
  }
}

TEST_SUITE_END();
