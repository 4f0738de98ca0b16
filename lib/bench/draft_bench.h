// bench/draft_bench.h: the speed of decoding with drafts that are right with a planted probability.
//
// The outputs of requests with random content are recorded without drafts. An archive is made of
// them: for every token of an output a text of the two tokens before it, of itself and of those
// after it, each of which is, with probability `agreement`, the output's next token; the first one
// that is not ends the text. No three tokens occur twice in an output, so a guess of the archive is
// right with that probability if those before it are. How many guesses a step computes is the
// drafter's own choice (drafts/drafter.h).
//
// A drafter first learns the times of steps and the probability from as many other requests.
// Decoding is then measured from the last prompt's end to the first output's end, so that all
// sequences decode throughout. Runs without drafts and with them alternate.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/stream.h"
#include "base/default_seed.h"
#include "engine/engine.h"
#include "model/decoder.h"

namespace caption::bench {

struct DraftBenchOptions {
  std::vector<std::int32_t> batches = {1, 16};  // sequences that decode together
  std::vector<double> agreements = {0, 0.3, 0.6, 0.7, 0.9};
  std::int64_t prompt_tokens = 64;
  std::int64_t output_tokens = 64;  // >= 4
  std::int32_t max_drafts = 8;
  int repeat = 1;  // runs of each, >= 1; the median counts
  std::uint64_t seed = kDefaultSeed;
  engine::EngineOptions engine = {};  // besides max_num_seqs and what is about drafts
  // Called before each run: "16 sequences, agreement 0.7, run 1 of 3". May be empty.
  std::function<void(const std::string&)> on_run = {};
};

struct DraftRow {
  std::int32_t batch = 0;
  double agreement = 0;
  // The run of the median ratio.
  double tokens_per_s = 0;
  double plain_tokens_per_s = 0;  // speed without drafts, in the run before it
  double tokens_per_step = 0;     // tokens that a sequence gets in a step, on average
  double drafted_share = 0;       // share of the steps that had drafts, 0 to 1
  double reckoned_ratio = 0;      // speed relative to plain, from DraftedSteps::saved_us
  bool outputs_are_equal = true;  // whether every run's outputs are those without drafts

  double ratio() const { return plain_tokens_per_s > 0 ? tokens_per_s / plain_tokens_per_s : 0; }
};

// Throws Error(kUsage) when a request is longer than the model's positions, and any error of the
// engine.
std::vector<DraftRow> bench_drafts(model::Decoder& decoder, Stream& stream,
                                   const DraftBenchOptions& options);

// A table; `subject` is the heading.
std::string to_table(const std::string& subject, const std::vector<DraftRow>& rows);
std::string to_json(const std::string& subject, const std::vector<DraftRow>& rows);  // one line

}  // namespace caption::bench
