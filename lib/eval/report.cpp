#include "eval/report.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <unordered_set>
#include <vector>

#include "base/counted.h"
#include "base/json.h"

namespace caption::eval {
namespace {

std::string fixed(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

// Four decimals on a scale up to 1, three up to 10, two up to 100.
std::string on_scale(double value, double best) {
  return fixed(value, best >= 100.0 ? 2 : best >= 10.0 ? 3 : 4);
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

// Ends a line and removes the padding of its last column.
void end_line(std::string& out) {
  while (!out.empty() && out.back() == ' ') out.pop_back();
  out += "\n";
}

std::string interval_text(const Score& score, double best) {
  return "[" + on_scale(score.interval.low, best) + ", " + on_scale(score.interval.high, best) +
         "]";
}

// The name of a metric, with a mark for the weaker josa stemming, so that it is not mistaken for
// the primary metric.
std::string display_name(const MetricReport& metric) {
  std::string name(metric_name(metric.metric));
  if (metric.mode == stemmer_mode_name(StemmerMode::kJosa)) name += " (josa)";
  return name;
}

std::size_t num_without_caption(const Report& report) {
  return report.missing.size() + report.failed.size();
}

std::string score_rows(const Report& report) {
  constexpr std::size_t kNameWidth = 18, kScoreWidth = 9, kIntervalWidth = 20;
  const bool has_two = num_without_caption(report) > 0;
  const std::string interval_heading =
      fixed(report.bootstrap.confidence * 100.0, 0) + " % interval";
  std::string out = padded("", kNameWidth);
  out += padded("scored clips (" + std::to_string(report.num_scored) + ")",
                kScoreWidth + kIntervalWidth);
  if (has_two) {
    out += "all references (" + std::to_string(report.ids.size()) + "), no caption = empty caption";
  }
  end_line(out);
  out += padded("metric", kNameWidth) + padded("score", kScoreWidth) +
         padded(interval_heading, kIntervalWidth);
  if (has_two) out += padded("score", kScoreWidth) + interval_heading;
  end_line(out);
  for (const MetricReport& metric : report.metrics) {
    out += padded(display_name(metric), kNameWidth);
    out += padded(on_scale(metric.scored.value, metric.best), kScoreWidth);
    out += padded(interval_text(metric.scored, metric.best), kIntervalWidth);
    if (has_two) {
      out += padded(on_scale(metric.all.value, metric.best), kScoreWidth);
      out += interval_text(metric.all, metric.best);
    }
    end_line(out);
  }
  return out;
}

std::string diversity_lines(const Report& report) {
  const Diversity& d = report.diversity;
  std::string out = "diversity         distinct-1 " + fixed(d.distinct_1, 4) + ", distinct-2 " +
                    fixed(d.distinct_2, 4) + ", mean length " + fixed(d.mean_length_words, 1) +
                    " words\n";
  out += "identical         " + fixed(d.identical_share * 100.0, 1) +
         " % of captions are also another clip's (" + std::to_string(d.num_distinct_captions) +
         " distinct, the most frequent stands " + counted(d.most_frequent_count, "time") + ")\n";
  return out;
}

std::string dictionary_line(const Report& report) {
  if (!report.stemmer_mode) return {};
  if (*report.stemmer_mode == StemmerMode::kJosa) {
    return "  dictionary        none: " + report.dictionary.base_path +
           ".{aff,dic} cannot be read, so stems are words without their particle; install "
           "hunspell-ko for meteor-ko proper\n";
  }
  return "  dictionary        " + report.dictionary.base_path + ".{aff,dic}, " +
         report.dictionary.version + ", XXH3 " + report.dictionary.hash + "\n";
}

std::string method_lines(const Report& report) {
  std::string out = "how the numbers were made\n";
  for (const MetricReport& metric : report.metrics) {
    out += "  " + padded(display_name(metric), 18) + metric.tokenizer;
    if (!metric.stages.empty()) out += "; " + metric.stages;
    out += "; " + metric.aggregation + "; mode " + metric.mode + "; 0 to " + fixed(metric.best, 0) +
           "\n";
  }
  out += dictionary_line(report);
  if (!report.synonyms.empty()) out += "  synonyms          " + report.synonyms + "\n";
  out += "  intervals         percentile bootstrap over clips, " +
         counted(report.bootstrap.num_resamples, "resample") + ", seed " +
         std::to_string(report.bootstrap.seed) + "\n";
  out += "  clips             matched by " + std::string(match_by_name(report.match)) + "\n";
  out += "Scores made with another tokenizer, stemmer or reference set are not comparable.\n";
  return out;
}

// With references of a single clip the idf of every n-gram is log(1 / 1), so that each caption
// scores 0.
std::string cider_note(const Report& report) {
  const bool has_cider =
      std::any_of(report.metrics.begin(), report.metrics.end(),
                  [](const MetricReport& metric) { return metric.metric == Metric::kCiderD; });
  if (!has_cider || report.ids.size() != 1) return {};
  return "note: cider-d is 0 for whatever caption, as one clip with references gives no n-gram a "
         "weight; score several clips\n";
}

// A bootstrap draws from the clips that were scored: few of them give intervals that are too
// narrow.
std::string interval_note(const Report& report) {
  constexpr std::int64_t kFewClips = 10;
  if (report.num_scored >= kFewClips) return {};
  return "note: intervals over " + counted(report.num_scored, "clip") +
         " are narrower than the uncertainty; score more clips\n";
}

std::string named_ids(const char* what, const std::vector<std::string>& ids) {
  if (ids.empty()) return {};
  return std::string(what) + " (" + std::to_string(ids.size()) + "): " + list_some(ids) + "\n";
}

std::string json_list(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (std::size_t i = 0; i < texts.size(); ++i) out += (i == 0 ? "" : ", ") + json_quote(texts[i]);
  return out + "]";
}

std::string json_score(const Score& score) {
  return "{\"value\": " + json_number(score.value) + ", \"interval\": [" +
         json_number(score.interval.low) + ", " + json_number(score.interval.high) + "]}";
}

std::string json_metric(const MetricReport& metric, const Report& report) {
  std::string out = "{\"name\": " + json_quote(metric_name(metric.metric));
  out += ", \"mode\": " + json_quote(metric.mode);
  out += ", \"tokenizer\": " + json_quote(metric.tokenizer);
  out += ", \"stages\": " + json_quote(metric.stages);
  out += ", \"aggregation\": " + json_quote(metric.aggregation);
  out += ", \"best\": " + json_number(metric.best);
  out += ", \"mean_of_clips\": " + json_number(metric.mean_of_clips);
  out += ", \"segments\": " + std::to_string(report.num_scored);
  out += ", \"scored\": " + json_score(metric.scored);
  out += ", \"segments_all\": " + std::to_string(report.ids.size());
  return out + ", \"all\": " + json_score(metric.all) + "}";
}

std::string json_dictionary(const Report& report) {
  if (!report.stemmer_mode) return "null";
  return "{\"mode\": " + json_quote(stemmer_mode_name(*report.stemmer_mode)) +
         ", \"path\": " + json_quote(report.dictionary.base_path) +
         ", \"version\": " + json_quote(report.dictionary.version) +
         ", \"hash\": " + json_quote(report.dictionary.hash) + "}";
}

}  // namespace

std::string to_table(const Report& report) {
  std::string out;
  if (report.shuffle_seed) {
    out += "SHUFFLED with seed " + std::to_string(*report.shuffle_seed) +
           ": every caption is scored against ANOTHER clip's references. A model that looks at "
           "its videos scores clearly higher unshuffled.\n\n";
  }
  out += score_rows(report) + "\n" + diversity_lines(report) + "\n" + method_lines(report);
  if (report.num_not_nfc > 0) {
    out += "note: " + counted(report.num_not_nfc, "text is", "texts are") +
           " not in NFC; meteor-hf and chrf2 compare such texts as they are\n";
  }
  out += cider_note(report) + interval_note(report);
  if (report.num_superseded > 0) {
    out += "note: records superseded by a later one of the same clip and prompt: " +
           std::to_string(report.num_superseded) + "\n";
  }
  out += named_ids("suspicious, scored like the others", report.suspicious);
  out += named_ids("missing, no caption", report.missing);
  out += named_ids("failed, no caption", report.failed);
  out += named_ids("extra, no reference", report.extra);
  return out;
}

std::string to_json(const Report& report) {
  const Diversity& d = report.diversity;
  std::string out = "{\n  \"references\": " + std::to_string(report.ids.size());
  out += ",\n  \"scored\": " + std::to_string(report.num_scored);
  out += ",\n  \"match\": " + json_quote(match_by_name(report.match));
  out += ",\n  \"shuffled_seed\": " +
         (report.shuffle_seed ? std::to_string(*report.shuffle_seed) : std::string("null"));
  out += ",\n  \"metrics\": [";
  for (std::size_t i = 0; i < report.metrics.size(); ++i) {
    out += (i == 0 ? "\n    " : ",\n    ") + json_metric(report.metrics[i], report);
  }
  out += "\n  ],\n  \"diversity\": {\"distinct_1\": " + json_number(d.distinct_1) +
         ", \"distinct_2\": " + json_number(d.distinct_2) +
         ", \"identical_share\": " + json_number(d.identical_share) +
         ", \"distinct_captions\": " + std::to_string(d.num_distinct_captions) +
         ", \"most_frequent_count\": " + std::to_string(d.most_frequent_count) +
         ", \"mean_length_words\": " + json_number(d.mean_length_words) + "}";
  out += ",\n  \"dictionary\": " + json_dictionary(report);
  out += ",\n  \"synonyms\": " + (report.synonyms.empty() ? "null" : json_quote(report.synonyms));
  out += ",\n  \"bootstrap\": {\"resamples\": " + std::to_string(report.bootstrap.num_resamples) +
         ", \"seed\": " + std::to_string(report.bootstrap.seed) +
         ", \"confidence\": " + json_number(report.bootstrap.confidence) + "}";
  out += ",\n  \"not_nfc\": " + std::to_string(report.num_not_nfc);
  out += ",\n  \"superseded\": " + std::to_string(report.num_superseded);
  out += ",\n  \"suspicious\": " + json_list(report.suspicious);
  out += ",\n  \"missing\": " + json_list(report.missing);
  out += ",\n  \"failed\": " + json_list(report.failed);
  out += ",\n  \"extra\": " + json_list(report.extra) + "\n}\n";
  return out;
}

std::string to_clip_lines(const Report& report) {
  const std::unordered_set<std::string> failed(report.failed.begin(), report.failed.end());
  std::string out;
  for (std::size_t i = 0; i < report.ids.size(); ++i) {
    const char* status = report.has_caption[i]              ? "scored"
                         : failed.count(report.ids[i]) != 0 ? "failed"
                                                            : "missing";
    out += "{\"video\": " + json_quote(report.ids[i]) + ", \"status\": \"" + status + "\"";
    if (report.shuffle_seed && report.has_caption[i]) {
      out += ", \"caption_from\": " + json_quote(report.caption_from[i]);
    }
    for (const MetricReport& metric : report.metrics) {
      out +=
          ", " + json_quote(metric_name(metric.metric)) + ": " + json_number(metric.clip_scores[i]);
    }
    out += "}\n";
  }
  return out;
}

}  // namespace caption::eval
