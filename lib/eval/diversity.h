// eval/diversity.h: measures whether captions differ between clips. Falling diversity shows mode
// collapse when METEOR is still acceptable.
#pragma once

#include <cstdint>
#include <span>

#include "eval/ngram_metrics.h"

namespace caption::eval {

struct Diversity {
  double distinct_1 = 0;  // distinct words / words, over all captions (Li et al. 2016)
  double distinct_2 = 0;  // distinct bigrams / bigrams, over all captions
  // Share of captions that are identical, word for word, to another clip's caption.
  double identical_share = 0;
  std::int64_t num_distinct_captions = 0;
  std::int64_t most_frequent_count = 0;  // number of clips that have the most frequent caption
  double mean_length_words = 0;
};

// All values are 0 without captions. Pure and thread-safe.
Diversity diversity(std::span<const WordIds> captions);

}  // namespace caption::eval
