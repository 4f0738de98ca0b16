#include "bench/price_report.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/figures.h"
#include "base/json_writer.h"
#include "base/units.h"
#include "bench/internal/report_parts.h"
#include "drafts/describe_drafts.h"

namespace caption::bench {
namespace {

constexpr std::size_t kNameWidth = 34;
constexpr std::size_t kColumnWidth = 13;
constexpr std::size_t kWideColumn = 30;
constexpr std::size_t kRatioColumn = 25;
constexpr double kSmallestNats = 1e-9;  // the table shows no digits below it; JSON has all

double engine_speed(const VideoRun& run) {
  const double seconds = static_cast<double>(run.stats.busy_us) / 1e6;
  return seconds > 0 ? static_cast<double>(run.output_tokens) / seconds : 0;
}

double ratio(double value, double base) { return base > 0 ? value / base : 0; }

double decode_speed(const engine::EngineStats& stats) {
  return ratio(static_cast<double>(stats.decode_steps_tokens),
               static_cast<double>(stats.decode_steps_us) / 1e6);
}

// The median over the rounds of a row.
template <class Speed>
double median_of(const ReplayedRow& row, const Speed& speed) {
  std::vector<double> speeds;
  for (const engine::EngineStats& stats : row.rounds) speeds.push_back(speed(stats));
  return median(std::move(speeds));
}

MedianInterval exactly(double value) { return {.median = value, .low = value, .high = value}; }

std::string column(const std::string& text) { return pad_left(text, kColumnWidth); }

std::string times(double value) { return format_number(value, 3) + "x"; }

bool are_replayed(const PriceReport& report) { return report.rows.front().replayed.has_value(); }

// "1.02x [0.99, 1.05]", or without the interval where there is none.
std::string ratio_column(const PriceReport& report, const MedianInterval& ratio) {
  if (!are_replayed(report)) return column(times(ratio.median));
  return pad_left(times(ratio.median) + " [" + format_number(ratio.low, 3) + ", " +
                      format_number(ratio.high, 3) + "]",
                  kRatioColumn);
}

std::string ratio_header(const PriceReport& report) {
  return are_replayed(report) ? pad_left("", kRatioColumn) : column("");
}

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

// Whether the memory in which the rows differ is that of weights, rather than of KV pages.
bool differ_in_weights(const PriceReport& report) {
  return report.rows.front().weight_bytes.has_value();
}

std::int64_t memory_of(const PriceReport& report, const PriceRow& row) {
  return differ_in_weights(report) ? row.weight_bytes.value_or(0) : row.kv_bytes_per_sequence();
}

bool has_drafts(const PriceReport& report) {
  return std::any_of(report.rows.begin(), report.rows.end(),
                     [](const PriceRow& row) { return row.median_run().stats.draft_tokens > 0; });
}

bool has_logits(const PriceReport& report) { return report.rows.front().logits.has_value(); }

std::string nats(double value) {
  return value > 0 && value < kSmallestNats ? "< 1e-9" : format_number(value, 2);
}

std::string logit_columns(const PriceRow& row) {
  if (!row.logits.has_value()) return {};
  return column(nats(row.logits->mean_kl)) + column(nats(row.logits->p99_kl)) +
         column(format_percent(row.logits->top1_agreement));
}

std::string draft_columns(const PriceReport& report, const PriceRow& row) {
  return column(format_si(row.decode_tokens_per_s())) +
         ratio_column(report, row.decode_ratio(report.rows.front())) +
         column(format_number(row.tokens_per_step(), 3));
}

std::string header(const PriceReport& report) {
  std::string text = pad_right("", kNameWidth) +
                     column(differ_in_weights(report) ? "weights" : "KV/sequence") + column("") +
                     column("engine tok/s") + ratio_header(report);
  if (has_drafts(report)) {
    text += column("decode tok/s") + ratio_header(report) + column("tokens/step");
  }
  text += column("equal");
  if (has_logits(report)) text += column("mean KL") + column("p99 KL") + column("same top");
  for (const VideoScore& score : report.rows.front().scores) {
    text += column(score.metric) + pad_left("difference", kWideColumn);
  }
  return text + "\n";
}

// What the columns mean.
std::string legend(const PriceReport& report) {
  const PriceRow& base = report.rows.front();
  std::string text =
      "\nequal: captions that are those of \"" + base.name + "\", character for character\n";
  if (has_drafts(report)) {
    text +=
        "decode tok/s: those of the steps that compute no prompts, over the time of these steps\n"
        "tokens/step: tokens of a caption that a step of decoding gives, drafts included\n";
    for (const PriceRow& row : report.rows) {
      const VideoRun& run = row.median_run();
      const std::string by_source =
          drafts::describe_drafts(run.drafts, run.drafted_steps, row.sequence_steps());
      if (!by_source.empty()) text += "\"" + row.name + "\": " + by_source + "\n";
    }
  }
  if (are_replayed(report)) {
    text +=
        "speeds: medians of " + std::to_string(base.replayed->rounds.size()) +
        " rounds in which the engines of all rows take turns; ratios: medians of those of the "
        "rounds,\nwith 95 % intervals (the least and the greatest for fewer than 6 rounds); all "
        "else: of one run over the clips, before the rounds\n"
        "drafts of the model itself: a run too short to find which layers to leave out pays for "
        "the search in each round\n";
    for (const PriceRow& row : report.rows) {
      if (!row.replayed->outputs_are_equal) text += "\"" + row.name + "\": OUTPUTS DIFFER\n";
    }
  }
  if (has_logits(report)) {
    text += "KL: of the next token's distribution beside that of \"" + base.name +
            "\", in nats, at " + std::to_string(base.logits->positions) +
            " positions of its captions; same top: the same token is the likeliest\n";
  }
  for (const VideoScore& score : base.scores) {
    text += "\n" + score.metric + " of \"" + base.name + "\": 95 % interval " +
            format_number(score.low, 3) + " to " + format_number(score.high, 3) +
            "; differences on the same clips, with intervals of a paired bootstrap\n";
  }
  return text;
}

void add_drafts(const PriceRow& row, JsonWriter& json) {
  const VideoRun& run = row.median_run();
  if (run.drafted_steps.with_drafts == 0) return;
  json.begin_object("drafts");
  for (std::size_t i = 0; i < run.drafts.computed.size(); ++i) {
    if (run.drafts.computed[i] == 0) continue;
    json.begin_object(std::string(drafts::guess_source_name(static_cast<drafts::GuessSource>(i))))
        .add("computed", run.drafts.computed[i])
        .add("accepted", run.drafts.accepted[i])
        .end_object();
  }
  json.add("steps", run.drafted_steps.all)
      .add("steps_with_drafts", run.drafted_steps.with_drafts)
      .add("saved_s", run.drafted_steps.saved_us / 1e6)
      .end_object();
}

// Every round's times, from which other figures can be made.
void add_rounds(const PriceRow& row, const PriceRow& base, JsonWriter& json) {
  if (!row.replayed.has_value()) return;
  write_interval(json, "engine_ratio", row.engine_ratio(base));
  write_interval(json, "decode_ratio", row.decode_ratio(base));
  json.add("outputs_are_equal", row.replayed->outputs_are_equal).begin_list("rounds");
  for (const engine::EngineStats& stats : row.replayed->rounds) {
    json.begin_object()
        .add("engine_us", stats.busy_us)
        .add("decode_us", stats.decode_steps_us)
        .add("decode_tokens", stats.decode_steps_tokens)
        .add("steps", stats.steps)
        .add("draft_tokens", stats.draft_tokens)
        .add("accepted_tokens", stats.accepted_tokens)
        .end_object();
  }
  json.end_list();
}

void add_logits(const PriceRow& row, JsonWriter& json) {
  if (!row.logits.has_value()) return;
  json.add("positions", row.logits->positions)
      .add("mean_kl", row.logits->mean_kl)
      .add("p99_kl", row.logits->p99_kl)
      .add("top1_agreement", row.logits->top1_agreement);
}

}  // namespace

const VideoRun& PriceRow::median_run() const {
  CAPTION_CHECK(!runs.empty(), "bench: a row without a run");
  std::vector<double> speeds;
  for (const VideoRun& run : runs) speeds.push_back(engine_speed(run));
  return runs[median_index(speeds)];
}

double PriceRow::engine_tokens_per_s() const {
  if (!replayed.has_value()) return engine_speed(median_run());
  const auto num_tokens = static_cast<double>(replayed->num_output_tokens);
  return median_of(*replayed, [&](const engine::EngineStats& stats) {
    return ratio(num_tokens, static_cast<double>(stats.busy_us) / 1e6);
  });
}

double PriceRow::decode_tokens_per_s() const {
  return replayed.has_value() ? median_of(*replayed, decode_speed)
                              : decode_speed(median_run().stats);
}

MedianInterval PriceRow::engine_ratio(const PriceRow& base) const {
  if (replayed.has_value() && base.replayed.has_value()) {
    return replayed->speed_ratio(*base.replayed);
  }
  return exactly(ratio(engine_tokens_per_s(), base.engine_tokens_per_s()));
}

MedianInterval PriceRow::decode_ratio(const PriceRow& base) const {
  if (replayed.has_value() && base.replayed.has_value()) {
    return replayed->decode_speed_ratio(*base.replayed);
  }
  return exactly(ratio(decode_tokens_per_s(), base.decode_tokens_per_s()));
}

double PriceRow::tokens_per_step() const {
  const std::int64_t num_tokens = median_run().stats.decode_tokens;
  if (num_tokens == 0) return 1;
  return static_cast<double>(num_tokens) / static_cast<double>(sequence_steps());
}

std::int64_t PriceRow::sequence_steps() const {
  const engine::EngineStats& stats = median_run().stats;
  return std::max<std::int64_t>(1, stats.decode_tokens - stats.accepted_tokens);
}

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
  text += header(report);
  for (const PriceRow& row : report.rows) {
    const double memory = ratio(static_cast<double>(memory_of(report, row)),
                                static_cast<double>(memory_of(report, base)));
    text += pad_right(row.name, kNameWidth) + column(format_bytes(memory_of(report, row))) +
            column(times(memory)) + column(format_si(row.engine_tokens_per_s())) +
            ratio_column(report, row.engine_ratio(base)) +
            (has_drafts(report) ? draft_columns(report, row) : "") +
            column(describe(row.captions)) + logit_columns(row) + score_columns(row) + "\n";
  }
  return text + legend(report);
}

std::string to_json(const PriceReport& report) {
  JsonWriter json;
  json.begin_object().add("model", report.subject.model).add("setting", report.subject.setting);
  if (!report.price_table.empty()) json.add("price_table", report.price_table);
  json.begin_list("rows");
  for (const PriceRow& row : report.rows) {
    json.begin_object()
        .add("name", row.name)
        .add("runs", std::ssize(row.runs))
        .add("clips", row.median_run().num_clips)
        .add("failed", row.median_run().num_failed)
        .add("kv_bytes_per_sequence", row.kv_bytes_per_sequence())
        .add("engine_tokens_per_s", row.engine_tokens_per_s())
        .add("decode_tokens_per_s", row.decode_tokens_per_s())
        .add("tokens_per_step", row.tokens_per_step())
        .add("clips_per_s", row.median_run().clips_per_s())
        .add("peak_bytes", row.median_run().peak_bytes);
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
    add_drafts(row, json);
    add_rounds(row, report.rows.front(), json);
    add_logits(row, json);
    json.end_object();
  }
  return json.end_list().end_object().text() + "\n";
}

}  // namespace caption::bench
