// eval/score_table.cpp: the tokenizer, stages and statistics of each metric.
#include "eval/internal/score_table.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "eval/chrf.h"
#include "eval/meteor.h"
#include "eval/meteor_coco.h"
#include "eval/ngram_metrics.h"
#include "eval/tokenise.h"

namespace caption::eval {
namespace {

constexpr const char* kEojeol =
    "eojeol: NFC, lower case, split at spaces, punctuation and symbols";

template <class Tokenise>
auto tokens_of(const std::vector<std::string>& texts, Tokenise tokenise) {
  std::vector<decltype(tokenise(texts.front()))> out;
  out.reserve(texts.size());
  for (const std::string& text : texts) out.push_back(tokenise(text));
  return out;
}

double mean(std::span<const double> sums, std::int64_t num_segments) {
  return num_segments == 0 ? 0.0 : sums[0] / static_cast<double>(num_segments);
}

// A table whose corpus score is the mean of the scores of its clips.
template <class ScoreClip>
ScoreTable table_of_means(MetricReport report, const Inputs& inputs, ScoreClip score_clip) {
  ScoreTable table;
  report.aggregation = "mean of clips";
  table.report = std::move(report);
  table.combine = mean;
  for (std::size_t i = 0; i < inputs.size(); ++i) table.statistics.push_back(score_clip(i));
  table.report.clip_scores = table.statistics;
  return table;
}

template <std::size_t kWidth>
void add_row(ScoreTable& table, const std::array<std::int64_t, kWidth>& row, double clip_score) {
  table.width = static_cast<std::int64_t>(kWidth);
  for (const std::int64_t value : row) table.statistics.push_back(static_cast<double>(value));
  table.report.clip_scores.push_back(clip_score);
}

std::int64_t whole(double sum) { return static_cast<std::int64_t>(sum); }

ScoreTable nltk_meteor_table(MetricReport report, const Inputs& inputs,
                             MeteorVocabulary& vocabulary, Tokens (*tokenise)(std::string_view)) {
  const auto sentence = [&](const std::string& text) {
    return vocabulary.sentence(tokenise(text));
  };
  return table_of_means(std::move(report), inputs, [&](std::size_t i) {
    const std::vector<MeteorSentence> references = tokens_of(inputs.references[i], sentence);
    return meteor(sentence(inputs.captions[i]), references).score;
  });
}

ScoreTable meteor_ko_table(const Inputs& inputs) {
  CAPTION_CHECK(inputs.stemmer != nullptr, "meteor-ko needs a stemmer");
  const StemmerMode mode = inputs.stemmer->mode();
  MetricReport report;
  report.metric = Metric::kMeteorKo;
  report.mode = stemmer_mode_name(mode);
  report.tokenizer = kEojeol;
  report.stages = mode == StemmerMode::kHunspell ? "exact, stem (hunspell stem sets intersect)"
                                                 : "exact, stem (particles taken off only)";
  if (inputs.synonyms != nullptr) report.stages += ", synonym (the file given)";
  MeteorVocabulary vocabulary(inputs.stemmer, inputs.synonyms);
  return nltk_meteor_table(std::move(report), inputs, vocabulary, eojeol_tokens);
}

ScoreTable meteor_hf_table(const Inputs& inputs) {
  MetricReport report;
  report.metric = Metric::kMeteorHf;
  report.mode = "nltk";
  report.tokenizer = "word_tokenize of NLTK 3.10, lower case, punctuation counts as words";
  report.stages = "exact";
  MeteorVocabulary vocabulary;
  return nltk_meteor_table(std::move(report), inputs, vocabulary, nltk_word_tokens);
}

ScoreTable meteor_coco_table(const Inputs& inputs) {
  ScoreTable table;
  table.report.metric = Metric::kMeteorCoco;
  table.report.mode = "coco";
  table.report.tokenizer =
      "syllables: one word per Hangul syllable, as METEOR 1.5 -norm; punctuation dropped";
  table.report.stages = "exact, every word a content word (METEOR 1.5, English parameters)";
  table.report.aggregation = "statistics summed over clips";
  table.combine = [](std::span<const double> sums, std::int64_t) {
    return meteor15_score({whole(sums[0]), whole(sums[1]), whole(sums[2]), whole(sums[3])});
  };
  WordTable words;
  const auto ids = [&](const std::string& text) { return words.ids(syllable_tokens(text)); };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<WordIds> references = tokens_of(inputs.references[i], ids);
    const Meteor15Statistics s = meteor15_best(ids(inputs.captions[i]), references);
    add_row<4>(table, {s.hypothesis_length, s.reference_length, s.num_matches, summed_chunks(s)},
               meteor15_score(s));
  }
  return table;
}

ScoreTable bleu4_table(const Inputs& inputs) {
  ScoreTable table;
  table.report.metric = Metric::kBleu4;
  table.report.mode = "coco";
  table.report.tokenizer = kEojeol;
  table.report.aggregation = "statistics summed over clips";
  table.combine = [](std::span<const double> sums, std::int64_t) {
    BleuStatistics statistics;
    for (std::size_t n = 0; n < kMaxOrder; ++n) {
      statistics.num_correct[n] = whole(sums[n]);
      statistics.num_guessed[n] = whole(sums[kMaxOrder + n]);
    }
    statistics.hypothesis_length = whole(sums[2 * kMaxOrder]);
    statistics.reference_length = whole(sums[2 * kMaxOrder + 1]);
    return bleu4(statistics);
  };
  WordTable words;
  const auto ids = [&](const std::string& text) { return words.ids(eojeol_tokens(text)); };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<WordIds> references = tokens_of(inputs.references[i], ids);
    const BleuStatistics s = bleu_statistics(ids(inputs.captions[i]), references);
    const auto& c = s.num_correct;
    const auto& g = s.num_guessed;
    add_row<10>(
        table,
        {c[0], c[1], c[2], c[3], g[0], g[1], g[2], g[3], s.hypothesis_length, s.reference_length},
        bleu4(s));
  }
  return table;
}

ScoreTable rouge_l_table(const Inputs& inputs) {
  MetricReport report;
  report.metric = Metric::kRougeL;
  report.mode = "coco";
  report.tokenizer = kEojeol;
  WordTable words;
  const auto ids = [&](const std::string& text) { return words.ids(eojeol_tokens(text)); };
  return table_of_means(std::move(report), inputs, [&](std::size_t i) {
    const std::vector<WordIds> references = tokens_of(inputs.references[i], ids);
    return rouge_l(ids(inputs.captions[i]), references);
  });
}

ScoreTable cider_d_table(const Inputs& inputs) {
  MetricReport report;
  report.metric = Metric::kCiderD;
  report.mode = "coco";
  report.tokenizer = kEojeol;
  report.best = 10;
  WordTable words;
  const auto ids = [&](const std::string& text) { return words.ids(eojeol_tokens(text)); };
  std::vector<std::vector<WordIds>> references;
  references.reserve(inputs.size());
  for (const auto& texts : inputs.references) references.push_back(tokens_of(texts, ids));
  const CiderD cider(references);
  return table_of_means(std::move(report), inputs, [&](std::size_t i) {
    return cider.score(ids(inputs.captions[i]), references[i]);
  });
}

ScoreTable chrf2_table(const Inputs& inputs) {
  ScoreTable table;
  table.report.metric = Metric::kChrf2;
  table.report.mode = "sacrebleu";
  table.report.tokenizer = "characters of the text as it is, without spaces, n = 1..6";
  table.report.aggregation = "statistics summed over clips";
  table.report.best = 100;
  table.combine = [](std::span<const double> sums, std::int64_t) {
    ChrfStatistics statistics;
    for (std::size_t n = 0; n < kChrfOrder; ++n) {
      statistics.orders[n] = {whole(sums[3 * n]), whole(sums[3 * n + 1]), whole(sums[3 * n + 2])};
    }
    return chrf2(statistics);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ChrfStatistics statistics = chrf_statistics(inputs.captions[i], inputs.references[i]);
    std::array<std::int64_t, 3 * kChrfOrder> row{};
    for (std::size_t n = 0; n < kChrfOrder; ++n) {
      row[3 * n] = statistics.orders[n].num_hypothesis;
      row[3 * n + 1] = statistics.orders[n].num_reference;
      row[3 * n + 2] = statistics.orders[n].num_matches;
    }
    add_row(table, row, chrf2(statistics));
  }
  return table;
}

}  // namespace

ScoreTable score_table(Metric metric, const Inputs& inputs) {
  switch (metric) {
    case Metric::kMeteorKo: return meteor_ko_table(inputs);
    case Metric::kMeteorHf: return meteor_hf_table(inputs);
    case Metric::kMeteorCoco: return meteor_coco_table(inputs);
    case Metric::kBleu4: return bleu4_table(inputs);
    case Metric::kRougeL: return rouge_l_table(inputs);
    case Metric::kCiderD: return cider_d_table(inputs);
    case Metric::kChrf2: return chrf2_table(inputs);
  }
  throw Error(ErrorCode::kInternal, "metric without a table");
}

}  // namespace caption::eval
