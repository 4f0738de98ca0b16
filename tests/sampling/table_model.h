// tests/sampling/table_model.h: a model of two tables for tests of beam search:
//   logits = last[ids[-1]] + second[ids[-2]]        (one float addition)
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "tests/support/search_of_logits.h"

namespace caption::sampling {

struct TableModel {
  std::int64_t vocab = 0;
  std::vector<float> last;    // [vocab, vocab]
  std::vector<float> second;  // [vocab, vocab]

  // `ids` has at least two elements.
  void compute(std::span<const std::int32_t> ids, std::span<float> logits) const {
    const auto last_row = static_cast<std::int64_t>(ids[ids.size() - 1]) * vocab;
    const auto second_row = static_cast<std::int64_t>(ids[ids.size() - 2]) * vocab;
    for (std::int64_t i = 0; i < vocab; ++i) {
      logits[static_cast<std::size_t>(i)] = last[static_cast<std::size_t>(last_row + i)] +
                                            second[static_cast<std::size_t>(second_row + i)];
    }
  }
};

inline TableModel make_table_model(std::int64_t vocab, unsigned seed, float scale) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, scale);
  TableModel model{vocab, {}, {}};
  for (std::vector<float>* table : {&model.last, &model.second}) {
    table->resize(static_cast<std::size_t>(vocab * vocab));
    for (float& x : *table) x = normal(rng);
  }
  return model;
}

// Runs one step of `search` on the model; `logits` is workspace of [num_beams, vocab].
inline BeamSearch::Step take_step(const TableModel& model, testing::SearchOfLogits& search,
                                  BeamScorer& scorer, std::int64_t num_rows,
                                  std::vector<float>& logits) {
  logits.resize(static_cast<std::size_t>(num_rows * model.vocab));
  for (std::int64_t row = 0; row < num_rows; ++row) {
    model.compute(search.running(row),
                  std::span(logits).subspan(static_cast<std::size_t>(row * model.vocab),
                                            static_cast<std::size_t>(model.vocab)));
  }
  return search.advance(scorer, logits);
}

}  // namespace caption::sampling
