// kernels/sample_rows.h: selects a token from each row of logits on the device, so that only ids
// return to the host. The chain is that of sampling/sampler.h:
//
//   penalties      of the row's history: repetition_penalty, no_repeat_ngram_size, ids ruled out
//   temperature 0  the largest logit, the lowest id among equals
//   otherwise      x / temperature, top_k, top_p, and the Philox draw of (seed, draw)
//
// On the CPU it is that sampler, with a workspace per thread. A GPU gives the same tokens:
//   exact    penalties, n-gram ban, temperature, the largest logit, the k largest with their ties,
//            the draw's 53 bits, which logits are refused
//   bounded  a probability is the integer nearest to 2^44 e^(x - max), so that sums of them are
//            exact in every order; the sampler's are doubles. top_p and the draw may choose a
//            neighbouring token where the sampler's sum lies within V 2^-45 of its limit, relative
//            to the probability of the likeliest token. Tokens below 2^-45 of that are not drawn.
// A row's token does not depend on the other rows.
#pragma once

#include <cstdint>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

// How the token of a row is chosen; valid parameters as sampling::validate() demands. The ids are
// ranges of SampleRows::ids.
struct RowSampling {
  std::uint64_t seed = 0;
  std::uint64_t draw = 0;  // index of the token in its output
  double top_p = 1;
  float temperature = 0;
  float repetition_penalty = 1;
  std::int32_t top_k = 0;
  std::int32_t no_repeat_ngram_size = 0;
  std::int32_t first_id = 0;  // where the history begins that the penalties count
  std::int32_t num_ids = 0;
  std::int32_t first_banned = 0;  // ids in the vocabulary that are ruled out
  std::int32_t num_banned = 0;
};
inline constexpr std::int64_t kRowSamplingBytes = sizeof(RowSampling);

inline constexpr std::int64_t kMaxSampledVocab = (1 << 20) - 1;

struct SampleRows {
  ConstView logits;  // [B, V] f32, rows may be strided; 1 <= V <= kMaxSampledVocab
  ConstView rows;    // [B, kRowSamplingBytes] i8: a RowSampling each, 8-byte aligned
  ConstView ids;     // [n] i32; those outside the vocabulary, such as placeholders, count for no
                     // penalty
};

// Writes to tokens [B] i32 the chosen id, or below 0 what check_token() says. Throws
// Error(kInternal) when shapes or dtypes disagree.
void sample_rows(Stream& stream, const SampleRows& input, View tokens);

// Whether sample_rows() spares copies: the stream's logits are in memory that the host cannot read,
// and the vocabulary is within kMaxSampledVocab.
bool spares_copies_of_logits(const Stream& stream, std::int64_t vocab);

// Bytes of device memory, besides logits, that sample_rows() of a GPU uses meanwhile: of each row
// the logits after penalties, and two bits per id.
constexpr std::int64_t sample_rows_scratch_bytes(std::int64_t rows, std::int64_t vocab) {
  constexpr std::int64_t kElementBytes = 4;
  return kElementBytes * rows * ((vocab + 3) / 4 * 4 + 2 * ((vocab + 31) / 32));
}

// Results for which there is no token.
inline constexpr std::int32_t kNoTokenLeft = -1;
inline constexpr std::int32_t nan_at(std::int32_t id) { return -2 - 2 * id; }
inline constexpr std::int32_t infinity_at(std::int32_t id) { return -3 - 2 * id; }
// Throws for a result below 0 as sampling::Sampler::sample(): Error(kBadModel) for a logit that is
// NaN or +inf, Error(kInternal) when every id is ruled out; and Error(kInternal) for a result that
// is not in the vocabulary.
void check_token(std::int32_t token, std::int64_t vocab);

namespace impl {
void sample_rows(Cpu device, Stream& stream, const SampleRows& input, View tokens);
void sample_rows(Cuda device, Stream& stream, const SampleRows& input, View tokens);
}  // namespace impl

}  // namespace caption::kernels
