// eval/evaluate.h: computes the chosen metrics of a corpus, each with the settings that make its
// number comparable: mode, tokenizer, stages, dictionary, aggregation, number of segments.
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
  // If set, seeds a shuffle that scores every caption against another clip's references: the score
  // that a model gets without looking at the video.
  std::optional<std::uint64_t> shuffle_seed;
  BootstrapOptions bootstrap;
};

struct Score {
  double value = 0;
  Interval interval;
};

struct MetricReport {
  Metric metric = Metric::kMeteorKo;
  std::string mode;                 // "hunspell", "josa", "nltk", "coco", "sacrebleu"
  std::string tokenizer;            // a description of the tokenizer
  std::string stages;               // matching stages of METEOR; empty for other metrics
  std::string aggregation;          // "mean of clips" or "statistics summed over clips"
  double best = 1;                  // maximum of the scale: 1, 10 or 100
  Score scored;                     // over the clips that have a caption
  Score all;                        // over all clips; a missing caption counts as an empty one
  std::vector<double> clip_scores;  // one per segment of the corpus
  // Mean of clip_scores over the scored clips; equals `scored` unless statistics are summed.
  double mean_of_clips = 0;
};

// A word of the synonym file that is not among its own stems, while stems are what is compared.
struct NotStem {
  std::string word;
  std::string stem;  // the likeliest; empty for what is no single word
};

struct Report {
  std::vector<MetricReport> metrics;  // in the order chosen
  Diversity diversity;                // diversity of the scored captions
  std::vector<std::string> ids;       // one per segment
  std::vector<bool> has_caption;      // one per segment
  // If shuffled, the id of the clip whose caption replaced that of segment i; otherwise empty.
  std::vector<std::string> caption_from;
  std::vector<std::string> missing, failed, extra, suspicious;
  std::int64_t num_superseded = 0;  // records replaced by a later one of the same clip
  MatchBy match = MatchBy::kName;
  std::int64_t num_scored = 0;
  std::optional<std::uint64_t> shuffle_seed;
  BootstrapOptions bootstrap;
  std::optional<StemmerMode> stemmer_mode;  // set when meteor-ko was chosen
  DictionaryIdentity dictionary;
  std::string synonyms;            // path of the synonym file; empty without one
  std::vector<NotStem> not_stems;  // words of that file which match nothing, or next to nothing
  // Number of captions and references that are not in NFC; meteor-hf and chrf2 do not normalise
  // them.
  std::int64_t num_not_nfc = 0;
};

// Computes the report. Throws Error: kBadReference (no caption to score; broken dictionary or
// synonyms), kUsage (shuffling fewer than two captions; no metric).
Report evaluate(const Corpus& corpus, const EvaluateOptions& options);

}  // namespace caption::eval
