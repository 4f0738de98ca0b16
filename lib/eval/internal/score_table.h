// eval/internal/score_table.h: one metric's statistics of every segment, and how they add up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eval/bootstrap.h"
#include "eval/evaluate.h"
#include "eval/korean_stemmer.h"
#include "eval/synonyms.h"

namespace caption::eval {

// The corpus with its captions in place; a segment without a caption holds an empty one.
struct Inputs {
  std::vector<std::string> captions;
  std::vector<std::vector<std::string>> references;
  const KoreanStemmer* stemmer = nullptr;
  const Synonyms* synonyms = nullptr;  // null when there are none
  std::size_t size() const { return captions.size(); }
};

struct ScoreTable {
  MetricReport report;             // everything but the scores of the corpus
  std::int64_t width = 1;          // statistics per segment
  std::vector<double> statistics;  // [segments, width]
  Combine combine;
};

ScoreTable score_table(Metric metric, const Inputs& inputs);

}  // namespace caption::eval
