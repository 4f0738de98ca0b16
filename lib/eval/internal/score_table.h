// eval/internal/score_table.h: the statistics of one metric for every segment, and the function
// that combines their sums into a score.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eval/bootstrap.h"
#include "eval/evaluate.h"
#include "eval/korean_stemmer.h"
#include "eval/synonyms.h"

namespace caption::eval {

// The texts of a corpus; a segment without a caption has an empty one.
struct Inputs {
  std::vector<std::string> captions;
  std::vector<std::vector<std::string>> references;
  const KoreanStemmer* stemmer = nullptr;
  const Synonyms* synonyms = nullptr;  // null when there are none
  std::size_t size() const { return captions.size(); }
};

struct ScoreTable {
  MetricReport report;             // complete except for the corpus scores
  std::int64_t width = 1;          // number of statistics per segment
  std::vector<double> statistics;  // [segments, width]
  Combine combine;
};

ScoreTable score_table(Metric metric, const Inputs& inputs);

}  // namespace caption::eval
