// eval/diversity.h: does the model say something new for every clip? Falling diversity is how mode
// collapse shows when METEOR still looks fair.
#pragma once

#include <cstdint>
#include <span>

#include "eval/ngram_metrics.h"

namespace caption::eval {

struct Diversity {
  double distinct_1 = 0;  // distinct words / words, over all captions (Li et al. 2016)
  double distinct_2 = 0;  // the same for pairs of neighbours within a caption
  // Captions that are word for word another clip's caption too, over all captions.
  double identical_share = 0;
  std::int64_t num_distinct_captions = 0;
  std::int64_t most_frequent_count = 0;  // how many clips share the most frequent caption
  double mean_length_words = 0;
};

// All zero without captions.
Diversity diversity(std::span<const WordIds> captions);

}  // namespace caption::eval
