// eval/evaluate.h: a corpus in, every chosen metric out, each with the facts that make its number
// comparable: mode, tokenizer, stages, dictionary, aggregation, number of segments.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/bootstrap.h"
#include "eval/corpus.h"
#include "eval/diversity.h"
#include "eval/korean_stemmer.h"

namespace caption::eval {

enum class Metric { kMeteorKo, kMeteorHf, kMeteorCoco, kBleu4, kRougeL, kCiderD, kChrf2 };
std::string_view metric_name(Metric metric);  // "meteor-ko", ..., "chrf2"
std::optional<Metric> find_metric(std::string_view name);
std::vector<Metric> all_metrics();  // the primary metric first

struct EvaluateOptions {
  std::vector<Metric> metrics = all_metrics();
  std::filesystem::path dictionary = "/usr/share/hunspell/ko";  // without .aff and .dic
  std::optional<std::filesystem::path> synonyms;                // see eval/synonyms.h
  // Scores every caption against another clip's references: what a model that does not look at its
  // video would get.
  std::optional<std::uint64_t> shuffle_seed;
  BootstrapOptions bootstrap;
};

struct Score {
  double value = 0;
  Interval interval;
};

struct MetricReport {
  Metric metric = Metric::kMeteorKo;
  std::string mode;         // "hunspell", "josa", "nltk", "coco", "sacrebleu"
  std::string tokenizer;    // a phrase
  std::string stages;       // of METEOR; empty for the others
  std::string aggregation;  // "mean of clips" or "statistics summed over clips"
  double best = 1;          // the end of the scale: 1, 10 or 100
  Score scored;             // over the clips that have a caption
  Score all;                // over all references, those without caption counted as an empty one
  std::vector<double> clip_scores;  // one per segment of the corpus
  // The plain mean of the scored clips' scores: equal to `scored` unless statistics are summed.
  double mean_of_clips = 0;
};

struct Report {
  std::vector<MetricReport> metrics;  // in the order chosen
  Diversity diversity;                // of the captions that were scored
  std::vector<std::string> ids;       // one per segment
  std::vector<bool> has_caption;      // one per segment
  // Shuffled only: the id of the clip whose caption stood in for segment i; empty otherwise.
  std::vector<std::string> caption_from;
  std::vector<std::string> missing, failed, extra, suspicious;
  std::int64_t num_superseded = 0;  // records that a later one of their clip replaced
  MatchBy match = MatchBy::kName;
  std::int64_t num_scored = 0;
  std::optional<std::uint64_t> shuffle_seed;
  BootstrapOptions bootstrap;
  std::optional<StemmerMode> stemmer_mode;  // set when meteor-ko was chosen
  DictionaryIdentity dictionary;
  std::string synonyms;  // path; empty without
  // Captions and references that are not in NFC, which meteor-hf and chrf2 compare as they are.
  std::int64_t num_not_nfc = 0;
};

// Throws Error: kBadReference (no caption to score; dictionary or synonyms broken), kUsage
// (shuffling fewer than two captions; no metric).
Report evaluate(const Corpus& corpus, const EvaluateOptions& options);

}  // namespace caption::eval
