#include "eval/evaluate.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "eval/internal/score_table.h"
#include "eval/internal/unicode.h"
#include "eval/ngram_metrics.h"
#include "eval/synonyms.h"
#include "eval/tokenise.h"

namespace caption::eval {
namespace {

struct NamedMetric {
  Metric metric;
  std::string_view name;
};
constexpr std::array<NamedMetric, 7> kMetrics = {{{Metric::kMeteorKo, "meteor-ko"},
                                                  {Metric::kMeteorHf, "meteor-hf"},
                                                  {Metric::kMeteorCoco, "meteor-coco"},
                                                  {Metric::kBleu4, "bleu-4"},
                                                  {Metric::kRougeL, "rouge-l"},
                                                  {Metric::kCiderD, "cider-d"},
                                                  {Metric::kChrf2, "chrf2"}}};

Inputs inputs_of(const Corpus& corpus) {
  Inputs inputs;
  for (const Segment& segment : corpus.segments) {
    inputs.captions.push_back(segment.caption.value_or(std::string()));
    inputs.references.push_back(segment.references);
  }
  return inputs;
}

std::vector<std::size_t> captioned(const Corpus& corpus) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < corpus.segments.size(); ++i) {
    if (corpus.segments[i].caption) places.push_back(i);
  }
  return places;
}

// Gives every captioned segment the caption of another one. Returns the ids of the clips whose
// captions they are; empty for segments without a caption.
std::vector<std::string> shuffle_captions(const Corpus& corpus,
                                          const std::vector<std::size_t>& places,
                                          std::uint64_t seed, Inputs& inputs) {
  const std::vector<std::int64_t> order =
      random_derangement(static_cast<std::int64_t>(places.size()), seed);
  std::vector<std::string> from(corpus.segments.size());
  for (std::size_t k = 0; k < places.size(); ++k) {
    const Segment& source = corpus.segments[places[static_cast<std::size_t>(order[k])]];
    inputs.captions[places[k]] = *source.caption;
    from[places[k]] = source.id;
  }
  return from;
}

Score score_of(const std::vector<double>& statistics, const ScoreTable& table,
               const BootstrapOptions& options) {
  const auto width = static_cast<std::size_t>(table.width);
  std::vector<double> sums(width, 0.0);
  for (std::size_t i = 0; i < statistics.size(); ++i) sums[i % width] += statistics[i];
  const auto num_segments = static_cast<std::int64_t>(statistics.size() / width);
  return {table.combine(sums, num_segments),
          bootstrap_interval(statistics, table.width, table.combine, options)};
}

MetricReport report_of(Metric metric, const Inputs& inputs, const std::vector<std::size_t>& scored,
                       const BootstrapOptions& options) {
  ScoreTable table = score_table(metric, inputs);
  std::vector<double> rows;
  for (const std::size_t i : scored) {
    table.report.mean_of_clips += table.report.clip_scores[i] / static_cast<double>(scored.size());
    const auto begin = table.statistics.begin() + static_cast<std::ptrdiff_t>(i) * table.width;
    rows.insert(rows.end(), begin, begin + table.width);
  }
  table.report.scored = score_of(rows, table, options);
  table.report.all = scored.size() == inputs.size() ? table.report.scored
                                                    : score_of(table.statistics, table, options);
  return std::move(table.report);
}

Diversity diversity_of(const Corpus& corpus, const std::vector<std::size_t>& places) {
  WordTable words;
  std::vector<WordIds> captions;
  for (const std::size_t i : places) {
    captions.push_back(words.ids(eojeol_tokens(*corpus.segments[i].caption)));
  }
  return diversity(captions);
}

std::int64_t count_not_nfc(const Inputs& inputs) {
  const auto count = [](const std::vector<std::string>& texts) {
    return std::count_if(texts.begin(), texts.end(),
                         [](const std::string& text) { return !is_nfc(text); });
  };
  std::int64_t total = count(inputs.captions);
  for (const auto& references : inputs.references) total += count(references);
  return total;
}

std::vector<NotStem> find_not_stems(const Synonyms& synonyms, const KoreanStemmer& stemmer) {
  std::vector<NotStem> found;
  for (std::string& word : synonyms.words()) {
    if (eojeol_tokens(word) != Tokens{word}) {
      found.push_back({.word = std::move(word), .stem = {}});
      continue;
    }
    const std::vector<std::string> stems = stemmer.stems(word);
    if (std::find(stems.begin(), stems.end(), word) != stems.end()) continue;
    found.push_back({.word = std::move(word), .stem = stems.front()});
  }
  return found;
}

}  // namespace

std::string_view metric_name(Metric metric) {
  for (const NamedMetric& named : kMetrics) {
    if (named.metric == metric) return named.name;
  }
  throw Error(ErrorCode::kInternal, "metric without a name");
}

std::optional<Metric> find_metric(std::string_view name) {
  for (const NamedMetric& named : kMetrics) {
    if (named.name == name) return named.metric;
  }
  return std::nullopt;
}

std::vector<Metric> all_metrics() {
  std::vector<Metric> metrics;
  for (const NamedMetric& named : kMetrics) metrics.push_back(named.metric);
  return metrics;
}

Report evaluate(const Corpus& corpus, const EvaluateOptions& options) {
  if (options.metrics.empty()) throw Error(ErrorCode::kUsage, "no metric was chosen");
  const std::vector<std::size_t> scored = captioned(corpus);
  if (scored.empty()) {
    throw Error(ErrorCode::kBadReference,
                "nothing to score: not one of " +
                    counted(std::ssize(corpus.segments), "referenced clip") +
                    " has a caption; they failed or are missing");
  }
  Inputs inputs = inputs_of(corpus);
  Report report;
  report.num_not_nfc = count_not_nfc(inputs);
  if (options.shuffle_seed) {
    report.caption_from = shuffle_captions(corpus, scored, *options.shuffle_seed, inputs);
  }
  // Only meteor-ko looks at the files of stems and synonyms.
  std::optional<KoreanStemmer> stemmer;
  std::optional<Synonyms> synonyms;
  if (std::find(options.metrics.begin(), options.metrics.end(), Metric::kMeteorKo) !=
      options.metrics.end()) {
    inputs.stemmer = &stemmer.emplace(options.dictionary);
    if (options.synonyms) {
      inputs.synonyms = &synonyms.emplace(Synonyms::open(*options.synonyms));
      report.synonyms = options.synonyms->string();
      report.not_stems = find_not_stems(*synonyms, *stemmer);
    }
  }
  for (const Metric metric : options.metrics) {
    report.metrics.push_back(report_of(metric, inputs, scored, options.bootstrap));
    if (metric != Metric::kMeteorKo) continue;
    report.stemmer_mode = stemmer->mode();
    report.dictionary = stemmer->identity();
  }
  report.diversity = diversity_of(corpus, scored);
  for (const Segment& segment : corpus.segments) {
    report.ids.push_back(segment.id);
    report.has_caption.push_back(segment.caption.has_value());
  }
  report.missing = corpus.missing;
  report.failed = corpus.failed;
  report.extra = corpus.extra;
  report.suspicious = corpus.suspicious;
  report.num_superseded = corpus.num_superseded;
  report.match = corpus.match;
  report.num_scored = static_cast<std::int64_t>(scored.size());
  report.shuffle_seed = options.shuffle_seed;
  report.bootstrap = options.bootstrap;
  return report;
}

}  // namespace caption::eval
