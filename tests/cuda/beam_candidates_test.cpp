#include "kernels/beam_candidates.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/sample_rows.h"
#include "tests/cuda/testing.h"

using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::kernels::BeamRow;
using caption::kernels::kBeamCandidateBytes;
using caption::kernels::kBeamRowBytes;
using caption::sampling::BeamCandidate;
using namespace caption::testing;
namespace kernels = caption::kernels;

namespace {

constexpr float kNoLogit = -std::numeric_limits<float>::infinity();

// Rows of logits with their beams and ids, on the host.
struct BeamBatch {
  Tensor logits;
  std::vector<BeamRow> rows;
  std::vector<std::int32_t> ids;

  float& logit(std::int64_t row, std::int64_t id) {
    return logits.as<float>()[row * logits.shape()[1] + id];
  }
  Tensor row_bytes() const {
    Tensor bytes(DType::kI8, {std::ssize(rows), kBeamRowBytes});
    std::memcpy(bytes.view().raw(), rows.data(), bytes.size_bytes());
    return bytes;
  }
};

std::vector<BeamCandidate> candidates_of(const Tensor& best) {
  std::vector<BeamCandidate> candidates(best.size_bytes() / sizeof(BeamCandidate));
  std::memcpy(candidates.data(), best.view().raw(), best.size_bytes());
  return candidates;
}

std::vector<BeamCandidate> find_on_cpu(const BeamBatch& batch, std::int64_t row_size) {
  Tensor best(DType::kI8, {std::ssize(batch.rows), row_size, kBeamCandidateBytes});
  const Tensor rows = batch.row_bytes();
  const Tensor ids = indices(batch.ids);
  run_on_cpu([&](Stream& stream) {
    kernels::beam_candidates(
        stream, {.logits = batch.logits.view(), .rows = rows.view(), .ids = ids.view()},
        best.view());
  });
  return candidates_of(best);
}

std::vector<BeamCandidate> find_emulated(const BeamBatch& batch, std::int64_t row_size,
                                         std::uint64_t seed, std::int64_t stride = 0) {
  const DeviceTensor logits(batch.logits, stride);
  const DeviceTensor rows(batch.row_bytes());
  const DeviceTensor ids(indices(batch.ids));
  const DeviceTensor best(DType::kI8, {std::ssize(batch.rows), row_size, kBeamCandidateBytes});
  run_emulated(seed, [&](Stream& stream) {
    kernels::beam_candidates(
        stream, {.logits = logits.view(), .rows = rows.view(), .ids = ids.view()}, best.view());
  });
  return candidates_of(best.to_host());
}

// Finds the candidates on both and demands the same bits. Returns them.
std::vector<BeamCandidate> check_candidates(const BeamBatch& batch, std::int64_t row_size,
                                            std::uint64_t seed, std::int64_t stride = 0) {
  const std::vector<BeamCandidate> want = find_on_cpu(batch, row_size);
  const std::vector<BeamCandidate> got = find_emulated(batch, row_size, seed, stride);
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    INFO("row ", i / static_cast<std::size_t>(row_size), ", candidate ",
         i % static_cast<std::size_t>(row_size));
    CHECK(got[i].id == want[i].id);
    CHECK(std::memcmp(&got[i].score, &want[i].score, sizeof(float)) == 0);
  }
  return want;
}

// Beams with penalties of all kinds. Every third row has many equal logits, zeros of both signs and
// ids that are ruled out.
BeamBatch random_beams(std::int64_t num_rows, std::int32_t vocab, std::int32_t most) {
  const auto seed = static_cast<std::uint32_t>(vocab + most);
  BeamBatch batch{.logits = random_f32({num_rows, vocab}, seed), .rows = {}, .ids = {3}};
  std::mt19937 random(seed);
  const auto below = [&](std::int32_t bound) {
    return static_cast<std::int32_t>(random() % static_cast<unsigned>(bound));
  };
  for (std::int64_t r = 0; r < num_rows; ++r) {
    for (std::int32_t id = 0; id < vocab; ++id) {
      float& x = batch.logit(r, id);
      x *= r % 3 == 0 ? 1.0F : 12.0F;
      if (r % 3 != 1) continue;
      x = std::round(x / 4);
      if (id % 7 == 3) x = kNoLogit;
      if (id % 11 == 5) x = id % 2 == 0 ? 0.0F : -0.0F;
    }
    BeamRow row{.score = r % 4 == 0 ? 0.0F : -0.37F * static_cast<float>(1 << below(8)),
                .first_id = static_cast<std::int32_t>(batch.ids.size()),
                .num_ids = below(40),
                .num_candidates = 1 + below(most)};
    const std::int32_t range = std::min(vocab, 5);
    for (int i = 0; i < row.num_ids; ++i) {
      const std::int32_t id = below(range) * (vocab / 7 + 1) % vocab;
      batch.ids.push_back(below(6) == 0 ? vocab - 1 + below(2) * 8 : id);
    }
    row.first_banned = static_cast<std::int32_t>(batch.ids.size());
    row.num_banned = below(3);
    for (int i = 0; i < row.num_banned; ++i) batch.ids.push_back(below(vocab));
    if (r % 2 == 1) row.repetition_penalty = below(2) == 0 ? 1.3F : 0.5F;
    if (r % 5 < 3) row.no_repeat_ngram_size = below(4);
    batch.rows.push_back(row);
  }
  batch.rows.back().num_candidates = most;
  return batch;
}

TEST_SUITE_BEGIN("cuda/beam_candidates");

TEST_CASE("the candidates are the CPU's, bit for bit, for all parameters together") {
  // Vocabularies that the list of a block holds or not, below and beyond a pass of 8,192 logits, a
  // multiple of 4 and of 32 or not.
  for (const std::int32_t vocab : {1, 5, 131, 1024, 1025, 9004}) {
    CAPTURE(vocab);
    const std::int32_t most = std::min(vocab, 6);
    const BeamBatch batch = random_beams(vocab < 2000 ? 8 : 4, vocab, most);
    check_candidates(batch, most + 1, static_cast<std::uint64_t>(vocab));
    if (vocab == 131) check_candidates(batch, most, 0, vocab + 3);
  }
}

TEST_CASE("the logarithms of sums from 1 to 2 are the CPU's") {
  // Rows have two logits; the logarithm's unit is less than each term of its polynomial.
  BeamBatch batch{.logits = Tensor::zeros(DType::kF32, {24, 2}), .rows = {}, .ids = {0}};
  for (std::int64_t r = 0; r < 24; ++r) {
    batch.logit(r, 1) = -0.17F * static_cast<float>(r);
    batch.rows.push_back({.num_candidates = 2});
  }
  check_candidates(batch, 2, 5);
}

TEST_CASE("as many candidates as there may be") {
  const auto most = static_cast<std::int32_t>(caption::sampling::kMostBeamCandidates);
  const std::vector<BeamCandidate> found = check_candidates(random_beams(2, 1501, most), most, 3);
  CHECK(found.back().id >= 0);
}

TEST_CASE("when more scores reach a bound than the list holds, a greater bound is found") {
  // The greatest logits are all of the same 63 threads, so that the bound of the threads' best is
  // low: 63 * 20 logits are above it, many of them equal.
  constexpr std::int64_t kVocab = 5 * 4096;
  BeamBatch batch{.logits = Tensor::zeros(DType::kF32, {1, kVocab}), .rows = {}, .ids = {0}};
  for (std::int64_t id = 0; id < kVocab; ++id) {
    batch.logit(0, id) = id % 4096 < 252 ? 5.0F + static_cast<float>(id % 37) / 64 : 1.0F;
  }
  batch.rows.push_back({.score = -2, .num_candidates = 64});
  check_candidates(batch, 64, 1);
}

TEST_CASE("each penalty works alone") {
  // The greatest logit is that of id 9, then that of 5. Rows: no penalty; 9 was said before; 9
  // follows 4 as before; 9 is ruled out; a beam that cannot continue; a row of no beam; an id that
  // is the first outside of the vocabulary was said before.
  BeamBatch batch{.logits = Tensor::zeros(DType::kF32, {7, 64}),
                  .rows = std::vector<BeamRow>(7, {.num_candidates = 1}),
                  .ids = {4, 9, 4, 9, 64}};
  for (std::int64_t r = 0; r < 7; ++r) {
    batch.logit(r, 9) = 3;
    batch.logit(r, 5) = 2;
  }
  batch.rows[1].num_ids = 3;
  batch.rows[1].repetition_penalty = 4;
  batch.rows[2].num_ids = 3;
  batch.rows[2].no_repeat_ngram_size = 2;
  batch.rows[3].first_banned = 3;
  batch.rows[3].num_banned = 1;
  batch.rows[4].score = kNoLogit;
  batch.rows[5].num_candidates = 0;
  batch.logit(5, 7) = std::numeric_limits<float>::quiet_NaN();
  batch.logit(6, 0) = 5;
  batch.rows[6].first_id = 4;
  batch.rows[6].num_ids = 1;
  batch.rows[6].repetition_penalty = 4;
  std::vector<std::int32_t> ids;
  for (const BeamCandidate& candidate : check_candidates(batch, 1, 2)) ids.push_back(candidate.id);
  CHECK(ids == std::vector<std::int32_t>{9, 5, 5, 5, -1, -1, 0});
}

TEST_CASE("logits that no sound model gives are named as on the CPU") {
  BeamBatch batch{.logits = random_f32({6, 40}, 9),
                  .rows = std::vector<BeamRow>(6, {.num_candidates = 2}),
                  .ids = {9}};
  batch.logit(0, 7) = std::numeric_limits<float>::quiet_NaN();
  batch.logit(1, 31) = std::numeric_limits<float>::infinity();
  batch.logit(2, 30) = std::numeric_limits<float>::infinity();
  batch.logit(2, 31) = std::numeric_limits<float>::quiet_NaN();
  batch.logit(3, 9) = std::numeric_limits<float>::quiet_NaN();  // ruled out
  batch.rows[3].num_banned = 1;
  for (std::int64_t id = 0; id < 40; ++id) batch.logit(4, id) = kNoLogit;
  batch.logit(5, 3) = 3e38F;
  const std::vector<BeamCandidate> found = check_candidates(batch, 2, 4);
  const auto row = [&](std::size_t index) { return std::span(found).subspan(2 * index, 2); };
  CHECK(row(3)[0].id == kernels::nan_at(9));
  CHECK_THROWS_WITH_AS(kernels::check_candidates(row(0), 40),
                       "sampling: logit 7 of 40 is NaN; the model or its weights are broken",
                       Error);
  CHECK_THROWS_WITH_AS(kernels::check_candidates(row(1), 40),
                       "sampling: logit 31 of 40 is +inf; the model or its weights are broken",
                       Error);
  CHECK_THROWS_WITH_AS(kernels::check_candidates(row(2), 40), doctest::Contains("logit 30"), Error);
  CHECK_NOTHROW(kernels::check_candidates(row(4), 40));
  CHECK(row(4)[0].id == kernels::kNoTokenLeft);
  CHECK_NOTHROW(kernels::check_candidates(row(5), 40));
  CHECK(row(5)[0].id == 3);
  CHECK(row(5)[0].score == 0);
  CHECK_THROWS_WITH_AS(kernels::check_candidates(row(5), 3),
                       "sampling: the device chose 3 of 3 tokens", Error);
}

TEST_CASE("a batch without rows launches nothing, and wrong operands are refused by name") {
  const DeviceTensor none(DType::kF32, {0, 4});
  const DeviceTensor rows(DType::kI8, {0, kBeamRowBytes});
  const DeviceTensor ids(indices({1}));
  const DeviceTensor best(DType::kI8, {0, 3, kBeamCandidateBytes});
  const DeviceTensor too_many(DType::kI8, {0, 257, kBeamCandidateBytes});
  const caption::cuda_emulator::Emulation emulation;
  caption::ThreadPool pool(1);
  Stream stream(caption::Context{.device = caption::Device::kCuda}, pool);
  const kernels::BeamRows input{.logits = none.view(), .rows = rows.view(), .ids = ids.view()};
  kernels::beam_candidates(stream, input, best.view());
  stream.synchronize();
  CHECK(emulation.report().launches == 0);
  CHECK_THROWS_WITH_AS(kernels::beam_candidates(stream, input, too_many.view()),
                       "beam_candidates: 257 candidates of a row; wanted 1 to 256", Error);
  CHECK_THROWS_WITH_AS(kernels::beam_candidates(stream, input, rows.view()),
                       doctest::Contains("beam_candidates: best is i8 [0, 32] on cuda"), Error);
}

TEST_CASE("aligned rows move no byte twice over") {
  const BeamBatch batch{.logits = random_f32({2, 8192}, 6),
                        .rows = std::vector<BeamRow>(2, {.num_candidates = 8}),
                        .ids = {0}};
  const DeviceTensor logits(batch.logits);
  const DeviceTensor rows(batch.row_bytes());
  const DeviceTensor ids(indices(batch.ids));
  const DeviceTensor best(DType::kI8, {2, 8, kBeamCandidateBytes});
  check_wastes_nothing(
      [&](Stream& stream) {
        kernels::beam_candidates(
            stream, {.logits = logits.view(), .rows = rows.view(), .ids = ids.view()}, best.view());
      },
      8);
}

TEST_SUITE_END();

}  // namespace
