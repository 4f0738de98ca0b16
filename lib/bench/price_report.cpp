#include "bench/price_report.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/figures.h"
#include "base/json_writer.h"
#include "base/units.h"

namespace caption::bench {
namespace {

constexpr std::size_t kNameWidth = 34;
constexpr std::size_t kColumnWidth = 13;
constexpr std::size_t kWideColumn = 30;

double engine_speed(const VideoRun& run) {
  const double seconds = static_cast<double>(run.stats.busy_us) / 1e6;
  return seconds > 0 ? static_cast<double>(run.output_tokens) / seconds : 0;
}

double ratio(double value, double base) { return base > 0 ? value / base : 0; }

std::string column(const std::string& text) { return pad_left(text, kColumnWidth); }

std::string times(double value) { return format_number(value, 3) + "x"; }

std::string signed_number(double value) {
  return (value >= 0 ? "+" : "-") + format_number(std::abs(value), 2);
}

// "+0.0020 [-0.0011, +0.0050]"
std::string describe(const ScoreDifference& difference) {
  return signed_number(difference.value) + " [" + signed_number(difference.low) + ", " +
         signed_number(difference.high) + "]";
}

std::string score_columns(const PriceRow& row) {
  std::string text;
  for (std::size_t i = 0; i < row.scores.size(); ++i) {
    text += column(format_number(row.scores[i].value, 3));
    if (!row.differences.empty()) text += pad_left(describe(row.differences[i]), kWideColumn);
  }
  return text;
}

// "184 of 200"
std::string describe(const EqualCaptions& captions) {
  return std::to_string(captions.equal) + " of " + std::to_string(captions.all);
}

}  // namespace

const VideoRun& PriceRow::median_run() const {
  CAPTION_CHECK(!runs.empty(), "bench: a row without a run");
  std::vector<const VideoRun*> sorted;
  for (const VideoRun& run : runs) sorted.push_back(&run);
  std::sort(sorted.begin(), sorted.end(), [](const VideoRun* a, const VideoRun* b) {
    return engine_speed(*a) < engine_speed(*b);
  });
  return *sorted[sorted.size() / 2];
}

double PriceRow::engine_tokens_per_s() const { return engine_speed(median_run()); }

std::int64_t PriceRow::kv_bytes_per_sequence() const {
  const engine::EngineStats& stats = median_run().stats;
  if (stats.mean_batch <= 0) return 0;
  const double bytes =
      stats.mean_pages_used * static_cast<double>(stats.page_bytes) + stats.mean_compression_bytes;
  return std::llround(bytes / stats.mean_batch);
}

std::string to_table(const PriceReport& report) {
  CAPTION_CHECK(!report.rows.empty(), "bench: a report without a row");
  const PriceRow& base = report.rows.front();
  std::string text = report.subject.model + ": " + report.subject.setting + "\n" +
                     describe_clips(base.median_run()) +
                     "; engine tok/s: output tokens of all captions over the engine's own time\n\n";
  text += pad_right("", kNameWidth) + column("KV/sequence") + column("") + column("engine tok/s") +
          column("") + column("equal");
  for (const VideoScore& score : base.scores) {
    text += column(score.metric) + pad_left("difference", kWideColumn);
  }
  text += "\n";
  for (const PriceRow& row : report.rows) {
    const double memory = ratio(static_cast<double>(row.kv_bytes_per_sequence()),
                                static_cast<double>(base.kv_bytes_per_sequence()));
    text += pad_right(row.name, kNameWidth) + column(format_bytes(row.kv_bytes_per_sequence())) +
            column(times(memory)) + column(format_si(row.engine_tokens_per_s())) +
            column(times(ratio(row.engine_tokens_per_s(), base.engine_tokens_per_s()))) +
            column(describe(row.captions)) + score_columns(row) + "\n";
  }
  text += "\nequal: captions that are those of \"" + base.name + "\", character for character\n";
  for (const VideoScore& score : base.scores) {
    text += "\n" + score.metric + " of \"" + base.name + "\": 95 % interval " +
            format_number(score.low, 3) + " to " + format_number(score.high, 3) +
            "; differences on the same clips, with intervals of a paired bootstrap\n";
  }
  return text;
}

std::string to_json(const PriceReport& report) {
  JsonWriter json;
  json.begin_object().add("model", report.subject.model).add("setting", report.subject.setting);
  json.begin_list("rows");
  for (const PriceRow& row : report.rows) {
    json.begin_object()
        .add("name", row.name)
        .add("runs", std::ssize(row.runs))
        .add("clips", row.median_run().num_clips)
        .add("failed", row.median_run().num_failed)
        .add("kv_bytes_per_sequence", row.kv_bytes_per_sequence())
        .add("engine_tokens_per_s", row.engine_tokens_per_s())
        .add("clips_per_s", row.median_run().clips_per_s());
    json.begin_object("scores");
    for (const VideoScore& score : row.scores) json.add(score.metric.c_str(), score.value);
    json.end_object().begin_object("score_differences");
    for (std::size_t i = 0; i < row.differences.size(); ++i) {
      const ScoreDifference& difference = row.differences[i];
      json.begin_object(row.scores.at(i).metric)
          .add("value", difference.value)
          .add("low", difference.low)
          .add("high", difference.high)
          .end_object();
    }
    json.end_object()
        .add("equal_captions", row.captions.equal)
        .add("compared_captions", row.captions.all);
    if (row.weight_bytes) json.add("weight_bytes", *row.weight_bytes);
    json.end_object();
  }
  return json.end_list().end_object().text() + "\n";
}

}  // namespace caption::bench
