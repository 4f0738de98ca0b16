#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/sample_rows.h"
#include "tests/cuda/testing.h"

using caption::DType;
using caption::Error;
using caption::Stream;
using caption::Tensor;
using caption::kernels::RowSampling;
using namespace caption::testing;
namespace kernels = caption::kernels;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Rows of logits with their parameters and ids, on the host.
struct Batch {
  Tensor logits;
  std::vector<RowSampling> rows;
  std::vector<std::int32_t> ids;

  Tensor row_bytes() const {
    Tensor bytes(DType::kI8, {std::ssize(rows), kernels::kRowSamplingBytes});
    std::memcpy(bytes.view().raw(), rows.data(), bytes.size_bytes());
    return bytes;
  }
};

std::vector<std::int32_t> ids_of(const Tensor& tokens) {
  return {tokens.as<std::int32_t>(), tokens.as<std::int32_t>() + tokens.num_elements()};
}

// The tokens that the CPU's sampler chooses.
std::vector<std::int32_t> sample_on_cpu(const Batch& batch) {
  Tensor tokens(DType::kI32, {std::ssize(batch.rows)});
  const Tensor rows = batch.row_bytes();
  const Tensor ids = indices(batch.ids);
  run_on_cpu([&](Stream& stream) {
    kernels::sample_rows(stream,
                         {.logits = batch.logits.view(), .rows = rows.view(), .ids = ids.view()},
                         tokens.view());
  });
  return ids_of(tokens);
}

std::vector<std::int32_t> sample_emulated(const Batch& batch, std::uint64_t seed,
                                          std::int64_t stride = 0) {
  const DeviceTensor logits(batch.logits, stride);
  const DeviceTensor rows(batch.row_bytes());
  const DeviceTensor ids(indices(batch.ids));
  const DeviceTensor tokens(DType::kI32, {std::ssize(batch.rows)});
  run_emulated(seed, [&](Stream& stream) {
    kernels::sample_rows(stream, {.logits = logits.view(), .rows = rows.view(), .ids = ids.view()},
                         tokens.view());
  });
  return ids_of(tokens.to_host());
}

void check_tokens(const Batch& batch, const std::vector<std::int32_t>& got,
                  const std::vector<std::int32_t>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t r = 0; r < got.size(); ++r) {
    const RowSampling& row = batch.rows[r];
    INFO("row ", r, ": temperature ", row.temperature, ", top_k ", row.top_k, ", top_p ", row.top_p,
         ", penalty ", row.repetition_penalty, ", n-gram ", row.no_repeat_ngram_size);
    CHECK(got[r] == want[r]);
  }
}

// Chooses one of a list.
template <class T>
T any_of(std::mt19937& random, std::initializer_list<T> list) {
  return list.begin()[random() % list.size()];
}

// Logits of a width that the row decides; every third row has many equal ones, zeros of both signs
// and ids that are ruled out.
Tensor random_logits(std::int64_t rows, std::int64_t vocab, std::uint32_t seed) {
  Tensor logits = random_f32({rows, vocab}, seed);
  constexpr float kWidths[] = {1, 6, 20};
  for (std::int64_t i = 0; i < logits.num_elements(); ++i) {
    float& x = logits.as<float>()[i];
    x *= kWidths[i / vocab % 3];
    if (i / vocab % 3 != 1) continue;
    x = std::round(x * 2) / 2;
    if (i % 7 == 3) x = -kInfinity;
    if (i % 11 == 5) x = i % 2 == 0 ? 0.0F : -0.0F;
  }
  return logits;
}

// Ids of a small range, so that n-grams repeat, and some outside of the vocabulary.
void add_history(Batch& batch, RowSampling& row, std::int32_t vocab, std::mt19937& random) {
  row.first_id = static_cast<std::int32_t>(batch.ids.size());
  row.num_ids = static_cast<std::int32_t>(random() % 60);
  const auto range = static_cast<unsigned>(std::min(vocab, 6));
  for (int i = 0; i < row.num_ids; ++i) {
    const auto id = static_cast<std::int32_t>(random() % range) * (vocab / 7 + 1) % vocab;
    batch.ids.push_back(any_of(random, {id, id, id, id, -1, vocab}));
  }
  row.first_banned = static_cast<std::int32_t>(batch.ids.size());
  row.num_banned = vocab < 9 ? 0 : static_cast<std::int32_t>(random() % 3);
  for (int i = 0; i < row.num_banned; ++i) {
    batch.ids.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(vocab)));
  }
  row.repetition_penalty = any_of(random, {1.0F, 1.3F, 0.5F});
  row.no_repeat_ngram_size = any_of(random, {0, 1, 2, 3, 70});
  if (vocab < 9) row.no_repeat_ngram_size = 0;
}

Batch random_batch(std::int64_t rows, std::int32_t vocab, std::uint32_t seed) {
  Batch batch{.logits = random_logits(rows, vocab, seed), .rows = {}, .ids = {3}};
  std::mt19937 random(seed);
  for (std::int64_t r = 0; r < rows; ++r) {
    RowSampling row;
    add_history(batch, row, vocab, random);
    row.seed = random() * std::uint64_t{0x100000001};
    row.draw = any_of<std::uint64_t>(random, {0, 1, 77, std::uint64_t{1} << 33});
    row.temperature = any_of(random, {0.0F, 0.3F, 0.7F, 1.0F, 2.5F});
    row.top_k = any_of(random, {0, 1, 5, 50, vocab, vocab + 1});
    row.top_p = any_of(random, {1.0, 0.95, 0.6, 1e-9});
    batch.rows.push_back(row);
  }
  return batch;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/sample_rows");

TEST_CASE("the tokens are those of the CPU's sampler, for all parameters together") {
  // Vocabularies below and beyond a pass of 4,096, a multiple of 4 and of 32 or not.
  for (const std::int32_t vocab : {1, 5, 131, 1028, 4099}) {
    CAPTURE(vocab);
    const Batch batch = random_batch(20, vocab, static_cast<std::uint32_t>(vocab));
    const std::vector<std::int32_t> want = sample_on_cpu(batch);
    check_tokens(batch, sample_emulated(batch, static_cast<std::uint64_t>(vocab)), want);
    if (vocab == 131) check_tokens(batch, sample_emulated(batch, 0, vocab + 3), want);
  }
}

TEST_CASE("each penalty works alone") {
  // The greatest logit is that of id 9, then that of 5. Rows: no penalty; 9 was said before; 9
  // follows 4 as before; 9 is banned.
  Batch batch{.logits = Tensor::zeros(DType::kF32, {4, 40}),
              .rows = std::vector<RowSampling>(4),
              .ids = {4, 9, 4, 9}};
  for (std::int64_t r = 0; r < 4; ++r) {
    batch.logits.as<float>()[r * 40 + 9] = 3;
    batch.logits.as<float>()[r * 40 + 5] = 2;
    batch.rows[static_cast<std::size_t>(r)].temperature = 0;
  }
  batch.rows[1].num_ids = 3;
  batch.rows[1].repetition_penalty = 2;
  batch.rows[2].num_ids = 3;
  batch.rows[2].no_repeat_ngram_size = 2;
  batch.rows[3].first_banned = 3;
  batch.rows[3].num_banned = 1;
  const std::vector<std::int32_t> want = sample_on_cpu(batch);
  CHECK(want == std::vector<std::int32_t>{9, 5, 5, 5});
  check_tokens(batch, sample_emulated(batch, 2), want);
}

TEST_CASE("each draw of a row is the CPU's") {
  for (const double top_p : {1.0, 0.8}) {
    for (const std::int32_t top_k : {0, 50}) {
      CAPTURE(top_p);
      CAPTURE(top_k);
      Batch batch{.logits = Tensor(DType::kF32, {24, 300}), .rows = {}, .ids = {0}};
      const Tensor one = random_f32({1, 300}, 5);
      for (std::uint64_t draw = 0; draw < 24; ++draw) {
        std::memcpy(batch.logits.as<float>() + draw * 300, one.as<float>(), one.size_bytes());
        RowSampling row;
        row.draw = draw;
        row.temperature = 0.5F;
        row.top_p = top_p;
        row.top_k = top_k;
        batch.rows.push_back(row);
      }
      const std::vector<std::int32_t> want = sample_on_cpu(batch);
      check_tokens(batch, sample_emulated(batch, 3), want);
      CHECK(std::set(want.begin(), want.end()).size() > 8);
    }
  }
}

TEST_CASE("among equal logits the ids are drawn in the CPU's order, and top_p cuts them") {
  for (const double top_p : {1.0, 0.999, 0.5, 0.26, 0.25, 0.1}) {
    for (const std::int32_t top_k : {0, 3}) {
      CAPTURE(top_p);
      CAPTURE(top_k);
      Batch batch{.logits = Tensor::zeros(DType::kF32, {6, 36}), .rows = {}, .ids = {0}};
      for (std::int64_t r = 0; r < 6; ++r) {
        float* const logits = batch.logits.as<float>() + r * 36;
        for (int i = 0; i < 32; ++i) logits[i] = -2;      // 32 equal ones
        for (int i = 0; i < 32; i += 4) logits[i] = 1;    // 8 of which are likelier,
        for (int i = 32; i < 36; ++i) logits[i] = -0.0F;  // and four between
        RowSampling row;
        row.seed = static_cast<std::uint64_t>(r);
        row.temperature = 1;
        row.top_p = top_p;
        row.top_k = top_k;
        batch.rows.push_back(row);
      }
      check_tokens(batch, sample_emulated(batch, 1), sample_on_cpu(batch));
    }
  }
}

TEST_CASE("what top_k keeps is drawn from alike, whether it fits the list of a block or not") {
  // top_k keeps 1,023, 1,024 or 1,025 of 1,300 logits, or all of them where they are equal.
  for (const std::int32_t top_k : {1023, 1024, 1025, 1}) {
    CAPTURE(top_k);
    Batch batch{.logits = random_f32({4, 1300}, 8), .rows = {}, .ids = {0}};
    for (std::int64_t i = 0; top_k == 1 && i < batch.logits.num_elements(); ++i) {
      batch.logits.as<float>()[i] = 2;
    }
    for (int r = 0; r < 4; ++r) {
      RowSampling row;
      row.seed = static_cast<std::uint64_t>(r);
      row.temperature = 1;
      row.top_k = top_k;
      row.top_p = r % 2 == 0 ? 1 : 0.9;
      batch.rows.push_back(row);
    }
    check_tokens(batch, sample_emulated(batch, 4), sample_on_cpu(batch));
  }
}

TEST_CASE("logits that no sound model gives, and rows without a token, are named as on the CPU") {
  Batch batch{.logits = random_f32({8, 40}, 9), .rows = {}, .ids = {}};
  for (std::int32_t id = 0; id < 40; ++id) batch.ids.push_back(id);
  float* const logits = batch.logits.as<float>();
  logits[0 * 40 + 7] = std::numeric_limits<float>::quiet_NaN();
  logits[1 * 40 + 31] = kInfinity;
  logits[2 * 40 + 30] = kInfinity;
  logits[2 * 40 + 31] = std::numeric_limits<float>::quiet_NaN();
  logits[3 * 40 + 9] = 3e38F;                                    // infinite after the division
  logits[4 * 40 + 9] = std::numeric_limits<float>::quiet_NaN();  // ruled out
  logits[5 * 40 + 9] = -3e38F;
  for (int r = 0; r < 8; ++r) {
    RowSampling row;
    row.temperature = r % 2 == 0 ? 0.0F : 0.1F;
    if (r == 4) {
      row.first_banned = 9;
      row.num_banned = 1;
    }
    if (r >= 6) row.num_banned = 40;
    batch.rows.push_back(row);
  }
  const std::vector<std::int32_t> want = sample_on_cpu(batch);
  check_tokens(batch, sample_emulated(batch, 2), want);
  CHECK(want[0] == kernels::nan_at(7));
  CHECK(want[1] == kernels::infinity_at(31));
  CHECK(want[2] == kernels::infinity_at(30));
  CHECK(want[3] == kernels::infinity_at(9));
  CHECK(want[4] >= 0);
  CHECK(want[5] >= 0);
  CHECK(want[6] == kernels::kNoTokenLeft);
  CHECK(want[7] == kernels::kNoTokenLeft);
  CHECK_NOTHROW(kernels::check_token(0, 40));
  CHECK_THROWS_WITH_AS(kernels::check_token(want[0], 40),
                       "sampling: logit 7 of 40 is NaN; the model or its weights are broken",
                       Error);
  CHECK_THROWS_WITH_AS(kernels::check_token(want[1], 40),
                       "sampling: logit 31 of 40 is +inf; the model or its weights are broken",
                       Error);
  CHECK_THROWS_WITH_AS(
      kernels::check_token(want[6], 40),
      "sampling: every token is ruled out by no_repeat_ngram_size or min_new_tokens", Error);
  CHECK_THROWS_WITH_AS(kernels::check_token(40, 40), "sampling: the device chose 40 of 40 tokens",
                       Error);
  CHECK_THROWS_WITH_AS(kernels::check_token(kernels::nan_at(40), 40),
                       "sampling: the device chose -82 of 40 tokens", Error);
}

TEST_CASE("a batch without rows launches nothing, and wrong operands are refused by name") {
  const DeviceTensor none(DType::kF32, {0, 4});
  const DeviceTensor rows(DType::kI8, {0, kernels::kRowSamplingBytes});
  const DeviceTensor ids(indices({1}));
  const DeviceTensor tokens(DType::kI32, {0});
  const DeviceTensor wide(DType::kF32, {0, kernels::kMaxSampledVocab + 1});
  const caption::cuda_emulator::Emulation emulation;
  caption::ThreadPool pool(1);
  Stream stream(caption::Context{.device = caption::Device::kCuda}, pool);
  kernels::SampleRows input{.logits = none.view(), .rows = rows.view(), .ids = ids.view()};
  kernels::sample_rows(stream, input, tokens.view());
  stream.synchronize();
  CHECK(emulation.report().launches == 0);
  input.logits = wide.view();
  CHECK_THROWS_WITH_AS(kernels::sample_rows(stream, input, tokens.view()),
                       "sample_rows: a vocabulary of 1048576; wanted 1 to 1048575", Error);
  input.logits = none.view();
  CHECK_THROWS_WITH_AS(kernels::sample_rows(stream, input, ids.view()),
                       "sample_rows: tokens is i32 [1] on cuda; wanted i32 [0]", Error);
}

TEST_CASE("aligned rows move no byte twice over") {
  Batch batch{.logits = random_f32({3, 8192}, 6), .rows = std::vector<RowSampling>(3), .ids = {0}};
  batch.rows[1].temperature = 0.7F;
  batch.rows[1].top_k = 50;
  batch.rows[2].temperature = 0.9F;
  batch.rows[2].top_p = 0.7;
  const DeviceTensor logits(batch.logits);
  const DeviceTensor rows(batch.row_bytes());
  const DeviceTensor ids(indices(batch.ids));
  const DeviceTensor tokens(DType::kI32, {3});
  check_wastes_nothing(
      [&](Stream& stream) {
        kernels::sample_rows(stream,
                             {.logits = logits.view(), .rows = rows.view(), .ids = ids.view()},
                             tokens.view());
      },
      16);
}

TEST_SUITE_END();
