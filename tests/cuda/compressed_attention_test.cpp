// The operations that a GPU does not have.
#include <string>

#include "base/error.h"
#include "kernels/attention_mass.h"
#include "kernels/compact_kv.h"
#include "kernels/compressed_attention.h"
#include "kernels/key_clusters.h"
#include "tests/cuda/testing.h"

using caption::Device;
using caption::DType;
using caption::Error;
using caption::Stream;
using namespace caption::testing;
namespace kernels = caption::kernels;

TEST_SUITE_BEGIN("cuda/compressed_attention");

TEST_CASE("operations of compressed attention are refused in one sentence, and launch nothing") {
  const DeviceTensor pages(random_f32({2, 4, 1, 8}, 1));
  const DeviceTensor q(random_f32({3, 2, 8}, 2));
  const DeviceTensor table(indices({0, 1}));
  const DeviceTensor lens(indices({5}));
  const DeviceTensor starts(indices({0, 3}));
  const DeviceTensor kept(DType::kI32, {1, 2});
  const DeviceTensor centroids(DType::kF32, {1, 2, 8});
  const DeviceTensor sizes(DType::kI32, {1, 2});
  const DeviceTensor cluster_of(DType::kI32, {1, 5});
  const std::string reason = ": compressed attention runs on the CPU only; use --attention full";

  const caption::cuda_emulator::Emulation emulation;
  caption::ThreadPool pool(1);
  Stream stream(caption::Context{.device = Device::kCuda}, pool);
  CHECK_THROWS_WITH_AS(
      kernels::cluster_keys(stream,
                            {.k_pages = pages.view(), .block_table = table.view(), .iterations = 1},
                            centroids.view(), sizes.view(), cluster_of.view()),
      ("cluster_keys" + reason).c_str(), Error);
  CHECK_THROWS_WITH_AS(kernels::compact_kv(stream, {.pages = {.k = pages.view(), .v = pages.view()},
                                                    .block_table = table.view(),
                                                    .num_tokens = 5,
                                                    .kept = kept.view(),
                                                    .num_summaries = 1}),
                       ("compact_kv" + reason).c_str(), Error);
  const kernels::PagedContext context{.k_pages = pages.view(),
                                      .v_pages = pages.view(),
                                      .cu_seqlens = starts.view(),
                                      .context_lens = lens.view(),
                                      .block_tables = table.view().reshape({1, 2})};
  CHECK_THROWS_WITH_AS(kernels::attention_mass(stream, q.view(), context, 1.0F, {}),
                       ("attention_mass" + reason).c_str(), Error);
  CHECK(emulation.report().launches == 0);
  CHECK(!kernels::has_compressed_attention(Device::kCuda));
  CHECK(kernels::has_compressed_attention(Device::kCpu));
  CHECK(kernels::has_compressed_attention(Device::kMirror));
}

TEST_SUITE_END();
