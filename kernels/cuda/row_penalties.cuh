// kernels/cuda/row_penalties.cuh: what the history of a row and the ids that are ruled out do to
// its numbers, as sampling/sampler.h defines it.
#pragma once

#include <cstdint>

#include "kernels/cuda/primitives.cuh"
#include "kernels/cuda/weights_of_logits.cuh"

namespace caption::kernels::cuda {

// The threads of a block, all of which call mark(), and the row's marks in device memory. Row has
// the fields of RowSampling (kernels/sample_rows.h) that are named below.
template <class Row, int kThreads>
struct RowPenalties {
  const Row& how;
  const std::int32_t* all_ids;  // [n], the rows' ranges begin at Row::first_id, first_banned
  std::uint32_t* penalised;     // [words]: a bit per id
  std::uint32_t* ruled_out;     // [words]
  int vocab;
  int words;

  CAPTION_DEVICE bool are_any() const {
    return how.repetition_penalty != 1.0F || how.no_repeat_ngram_size > 0 || how.num_banned > 0;
  }

  CAPTION_DEVICE void mark_id(std::uint32_t* marks, std::int32_t id) const {
    if (id >= 0 && id < vocab) atomic_or(marks + id / 32, 1U << (id % 32));
  }

  CAPTION_DEVICE void mark_repeated_ngrams(const std::int32_t* ids) const {
    const int tail = how.no_repeat_ngram_size - 1;  // ids that an n-gram has before its last
    const int num_ids = how.num_ids;
    for (int end = tail + thread_index(); end < num_ids; end += kThreads) {
      bool is_equal = true;
      for (int i = 1; i <= tail && is_equal; ++i) is_equal = ids[end - i] == ids[num_ids - i];
      if (is_equal) mark_id(ruled_out, ids[end]);
    }
  }

  CAPTION_DEVICE void mark() const {
    for (int i = thread_index(); i < words; i += kThreads) {
      store(penalised + i, 0U);
      store(ruled_out + i, 0U);
    }
    sync_block();
    const std::int32_t* const ids = all_ids + how.first_id;
    if (how.repetition_penalty != 1.0F) {
      for (int i = thread_index(); i < how.num_ids; i += kThreads) mark_id(penalised, ids[i]);
    }
    if (how.no_repeat_ngram_size > 0) mark_repeated_ngrams(ids);
    for (int i = thread_index(); i < how.num_banned; i += kThreads) {
      mark_id(ruled_out, all_ids[how.first_banned + i]);
    }
    sync_block();
  }

  // Only after mark().
  CAPTION_DEVICE float adjusted(int id, float x) const {
    const std::uint32_t bit = 1U << (id % 32);
    if ((load(penalised + id / 32) & bit) != 0) {
      x = x < 0 ? x * how.repetition_penalty : divide(x, how.repetition_penalty);
    }
    return (load(ruled_out + id / 32) & bit) != 0 ? kRuledOut : x;
  }
};

}  // namespace caption::kernels::cuda
