#include <cstddef>
#include <string>
#include <utility>

#include "base/counted.h"
#include "base/figures.h"
#include "base/json_writer.h"
#include "bench/internal/report_parts.h"
#include "bench/model_draft_bench.h"

namespace caption::bench {

std::string to_table(const std::string& subject, const std::vector<ModelDraftRow>& rows) {
  constexpr std::size_t kWidth = 12;
  constexpr std::size_t kIntervalWidth = 21;
  const auto column = [](const std::string& text) { return pad_left(text, kWidth); };
  const auto interval = [](const MedianInterval& ratio) {
    return pad_left(format_number(ratio.median, 3) + " [" + format_number(ratio.low, 3) + ", " +
                        format_number(ratio.high, 3) + "]",
                    kIntervalWidth);
  };
  const auto predicted = [&](const ModelDraftRow& row, double ratio) {
    if (ratio <= 0) return column("-") + column("-");
    return column(format_number(ratio)) + column(format_percent(row.ratio.median / ratio));
  };
  std::string text = subject + "\n\n";
  for (const char* name :
       {"sequences", "agreement", "depth", "tokens/step", "step us", "pass us"}) {
    text += column(name);
  }
  text += pad_left("ratio", kIntervalWidth) + column("by costs") + column("of it") +
          column("formula") + column("of it") + pad_left("of best", kIntervalWidth) +
          column("best") + column("outputs") + "\n";
  for (const ModelDraftRow& row : rows) {
    const bool is_chosen = row.depth == kAdaptiveDepth;
    text += column(std::to_string(row.batch)) +
            column(row.agreement == kOwnGuesses ? "own" : format_number(row.agreement, 2)) +
            column(is_chosen ? "chosen" : std::to_string(row.depth)) +
            column(format_number(row.tokens_per_step)) + column(format_number(row.step_us)) +
            column(format_number(row.pass_us)) + interval(row.ratio) +
            predicted(row, row.expected_ratio) + predicted(row, row.formula_ratio) +
            (is_chosen ? interval(row.of_best) +
                             column(row.best_depth == 0 ? "none" : std::to_string(row.best_depth))
                       : pad_left("", kIntervalWidth + kWidth)) +
            column(row.outputs_are_equal ? "equal" : "DIFFER") + "\n";
  }
  std::string plain;
  std::int32_t batch = 0;
  for (const ModelDraftRow& row : rows) {
    if (std::exchange(batch, row.batch) == row.batch) continue;
    plain += (plain.empty() ? "" : ", ") + format_number(row.plain_step_us) + " us for " +
             counted(std::int64_t{row.batch}, "sequence");
  }
  return text + "\nsteps without drafts: " + plain +
         "; intervals of 95 %\nagreement: the probability that a guess is right if those before it "
         "are, or the model's own;\nby costs: T t(B) / (t(B (1 + d)) + d c), with t(n) the time of "
         "a step of n tokens, c of a pass;\nformula: T (M + C) / (M + C (1 + d)), M + C the time "
         "of a step without guesses and C\nfitted to the others; of best: the chosen depth's speed "
         "relative to that of the best fixed\ndepth, or of none\n";
}

std::string to_json(const std::string& subject, const std::vector<ModelDraftRow>& rows) {
  JsonWriter json;
  json.begin_object().add("model", subject).begin_list("rows");
  for (const ModelDraftRow& row : rows) {
    json.begin_object()
        .add("sequences", std::int64_t{row.batch})
        .add("agreement", row.agreement)
        .add("depth", std::int64_t{row.depth})
        .add("tokens_per_step", row.tokens_per_step)
        .add("step_us", row.step_us)
        .add("pass_us", row.pass_us)
        .add("plain_step_us", row.plain_step_us);
    write_interval(json, "ratio", row.ratio);
    json.add("expected_ratio", row.expected_ratio).add("formula_ratio", row.formula_ratio);
    if (row.depth == kAdaptiveDepth) {
      write_interval(json, "of_best", row.of_best);
      json.add("best_depth", std::int64_t{row.best_depth});
    }
    json.add("outputs_are_equal", row.outputs_are_equal).end_object();
  }
  return json.end_list().end_object().text() + "\n";
}

}  // namespace caption::bench
