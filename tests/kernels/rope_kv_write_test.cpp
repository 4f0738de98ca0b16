#include "kernels/rope_kv_write.h"

#include "base/error.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "tests/kernels/testing.h"

using caption::ConstView;
using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::ThreadPool;
using namespace caption::kernels;
using namespace caption::testing;

namespace {

constexpr float kEps = 1e-6F;

struct Operands {
  explicit Operands(std::int64_t head_dim)
      : q(random_f32({3, 4, head_dim}, 1)),
        k(random_f32({3, 2, head_dim}, 2)),
        v(random_f32({3, 2, head_dim}, 3)),
        table(random_f32({3, head_dim}, 4)),
        q_norm(random_of(DType::kBF16, {head_dim}, 5)),
        k_norm(random_of(DType::kBF16, {head_dim}, 6)),
        slots(indices({5, 0, 3})),
        k_pages(Tensor::zeros(DType::kBF16, {2, 4, 2, head_dim})),
        v_pages(Tensor::zeros(DType::kBF16, {2, 4, 2, head_dim})) {}

  KvLayer pages() { return {.k = k_pages.view(), .v = v_pages.view()}; }
  ProjectedHeads heads(bool has_norms) {
    ProjectedHeads heads{.q = q.view(), .k = k.view(), .v = v.view(), .eps = kEps};
    if (has_norms) {
      heads.q_norm = q_norm.view();
      heads.k_norm = k_norm.view();
    }
    return heads;
  }

  Tensor q, k, v, table, q_norm, k_norm, slots, k_pages, v_pages;
};

}  // namespace

TEST_SUITE_BEGIN("kernels/rope_kv_write");

TEST_CASE("has the bits of norms, rotations and the write of pages, one by one") {
  for (const bool has_norms : {false, true}) {
    for_each_stream([&](Stream& stream) {
      Operands got(24);
      rope_kv_write(stream, got.heads(has_norms), got.table.view(), got.slots.view(), got.pages());
      Operands want(24);
      if (has_norms) {
        rms_norm(stream, want.q.view(), want.q_norm.view(), kEps, want.q.view());
        rms_norm(stream, want.k.view(), want.k_norm.view(), kEps, want.k.view());
      }
      rope(stream, want.table.view(), want.q.view());
      rope(stream, want.table.view(), want.k.view());
      kv_write(stream, want.k.view(), want.v.view(), want.slots.view(), want.pages());
      CHECK(same_bits(got.q, want.q));
      CHECK(same_bits(got.k_pages, want.k_pages));
      CHECK(same_bits(got.v_pages, want.v_pages));
    });
  }
}

TEST_CASE("wrong operands are refused by name") {
  ThreadPool pool(1);
  Stream stream(pool);
  Operands operands(8);
  const auto run = [&](const ProjectedHeads& heads, ConstView table) {
    rope_kv_write(stream, heads, table, operands.slots.view(), operands.pages());
  };
  const Tensor table = random_f32({3, 6}, 7);
  CHECK_THROWS_WITH_AS(run(operands.heads(false), table.view()),
                       "rope_kv_write: rope_table is f32 [3, 6] on cpu; wanted f32 [3, 8]", Error);
  ProjectedHeads heads = operands.heads(true);
  heads.k_norm = {};
  CHECK_THROWS_WITH_AS(run(heads, operands.table.view()),
                       "rope_kv_write: one of q and k has a norm, the other has none", Error);
  heads = operands.heads(true);
  heads.eps = 0;
  CHECK_THROWS_WITH_AS(run(heads, operands.table.view()), "rope_kv_write: eps is not positive",
                       Error);
  heads = operands.heads(false);
  Tensor q = random_f32({2, 4, 8}, 8);
  heads.q = q.view();
  CHECK_THROWS_WITH_AS(run(heads, operands.table.view()),
                       "rope_kv_write: q is f32 [2, 4, 8] on cpu; wanted f32 [3, 4, 8]", Error);
  Operands odd(7);
  CHECK_THROWS_WITH_AS(
      rope_kv_write(stream, odd.heads(false), odd.table.view(), odd.slots.view(), odd.pages()),
      "rope_kv_write: head_dim is 7; wanted an even one, at most 256", Error);
}

TEST_SUITE_END();
