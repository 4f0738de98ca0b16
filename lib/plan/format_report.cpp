#include "plan/format_report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/counted.h"
#include "base/display_width.h"
#include "base/error.h"
#include "base/figures.h"
#include "base/join.h"
#include "base/json_writer.h"
#include "base/units.h"
#include "kv/page_pool.h"

namespace caption::plan {
namespace {

constexpr std::size_t kNameWidth = 19;
constexpr std::size_t kColumnWidth = 11;
constexpr std::size_t kDifferenceWidth = 32;

// Videos at a time that are asked for; 0 if even one has more beams than max_num_seqs.
std::int64_t asked_videos(const PlanInput& input) { return input.max_num_seqs / input.num_beams; }

// Bytes of the KV pages of the videos that are captioned at a time or, if none fits, of those that
// are asked for.
std::int64_t kv_bytes_in_use(const Plan& plan) {
  const std::int64_t page_bytes = kv::kPageTokens * (plan.token_bytes + plan.draft_token_bytes);
  const std::int64_t videos = plan.fits ? plan.num_concurrent : asked_videos(plan.input);
  return std::max<std::int64_t>(videos, 1) * plan.pages_per_video * page_bytes;
}

std::int64_t scratch_bytes(const Plan& plan) {
  return plan.scratch_bytes + plan.logits_bytes + plan.graph_bytes + plan.vision_bytes;
}

std::string column(const std::string& text) { return pad_left(text, kColumnWidth); }

std::string signed_number(double value) {
  return (value < 0 ? "-" : "+") + format_number(std::abs(value), 2);
}

std::string difference_text(const std::optional<FormatPrice>& price) {
  if (!price.has_value() || !price->meteor_ko_difference.has_value()) return "-";
  const PairedDifference& difference = *price->meteor_ko_difference;
  return signed_number(difference.value) + " [" + signed_number(difference.low) + ", " +
         signed_number(difference.high) + "]";
}

std::string row_text(const FormatRow& row, bool is_chosen) {
  const Plan& plan = row.plan;
  std::string text =
      std::string(is_chosen ? ">" : " ") + (row.is_on_front ? "* " : "  ") +
      pad_right(row.cost.name, kNameWidth) + column(format_bytes(plan.weight_bytes)) +
      column(format_bytes(kv_bytes_in_use(plan))) + column(format_bytes(scratch_bytes(plan))) +
      column(format_bytes(row.cost.memory_bytes));
  if (plan.fits) {
    text += column(std::to_string(plan.num_concurrent)) +
            column(format_si(plan.prefill_tokens_per_s)) +
            column(format_si(plan.decode_tokens_per_s)) + column(format_si(plan.videos_per_s));
  } else {
    text += column("no") + column("-") + column("-") + column("-");
  }
  text += column(row.price.has_value() ? format_number(row.price->mean_kl, 2) : "-");
  return text + pad_left(difference_text(row.price), kDifferenceWidth) + "\n";
}

std::string heading_text() {
  return "   " + pad_right("format", kNameWidth) + column("weights") + column("KV") +
         column("scratch") + column("together") + column("at a time") + column("prefill") +
         column("decode") + column("videos/s") + column("KL") +
         pad_left("meteor-ko", kDifferenceWidth) + "\n";
}

// "4 videos at a time", or the options of which none is.
std::string batch_text(const PlanInput& input) {
  const std::int64_t videos = asked_videos(input);
  if (videos > 0) return counted(videos, "video") + " at a time";
  return counted(input.num_beams, "beam") + " a video, " + counted(input.max_num_seqs, "sequence") +
         " at a time";
}

// What "together" has that "may be used" is not for. On a card that budget is for everything.
std::string uncounted_text(const PlanInput& input) {
  if (input.device != PlanDevice::kHost) return {};
  return "together: also logits, vision activations, the process (" +
         format_bytes(input.fixed_bytes) + ") and full queues (" + format_bytes(input.queue_bytes) +
         "); \"may be used\" is for weights, decoder activations and KV pages alone\n";
}

std::string made_text(const FormatReport& report) {
  if (!report.has_made_rows()) return {};
  return "(made), (calibrated): checkpoints that `caption-cli quantize MODEL -o DIR --format "
         "FORMAT` "
         "makes once, without and with --calibrate; that of w8a8 is run with --dtype w8a8 or auto; "
         "the choice is among the others\n";
}

// A line for each arithmetic: "  measured here and now on 2 threads, bf16: 31.2 GB/s, 240 GFLOP/s".
std::string rates_text(const FormatReport& report) {
  std::vector<std::string> lines;
  for (const FormatRow& row : report.rows) {
    const Rates& rates = row.plan.input.rates;
    std::string line = "  " + rates.source + ": " + format_si(rates.bytes_per_s) + "B/s, " +
                       format_si(rates.flops_per_s) + "FLOP/s\n";
    const bool is_new = std::find(lines.begin(), lines.end(), line) == lines.end();
    if (is_new) lines.push_back(std::move(line));
  }
  return join(lines, "");
}

std::string prices_text(const FormatReport& report) {
  if (!report.prices.has_value()) {
    const std::string known = report.made_positions == 0
                                  ? "KL and meteor-ko are not measured: "
                                  : "KL and meteor-ko are measured for some of those to be made "
                                    "alone; for the others ";
    return known + advise_to_measure(report) + "\n";
  }
  const PriceTable& table = report.prices->table;
  return "KL: nats a token against f32, mean of " + counted(table.positions, "position") +
         made_positions_text(report) + "; meteor-ko: difference from f32 on " +
         counted(table.clips, "clip") + " with its 95 % interval; measured in " + table.arithmetic +
         " arithmetic by " + table.made_by + ", " + report.prices->path.string() + "\n";
}

void write_price_json(const FormatPrice& price, JsonWriter& json) {
  json.add("mean_kl", price.mean_kl)
      .add("p99_kl", price.p99_kl)
      .add("top1_agreement", price.top1_agreement);
  if (price.meteor_ko.has_value()) json.add("meteor_ko", *price.meteor_ko);
  if (!price.meteor_ko_difference.has_value()) return;
  json.begin_object("meteor_ko_difference")
      .add("value", price.meteor_ko_difference->value)
      .add("low", price.meteor_ko_difference->low)
      .add("high", price.meteor_ko_difference->high)
      .end_object();
}

void write_row_json(const FormatRow& row, JsonWriter& json) {
  const Plan& plan = row.plan;
  json.begin_object()
      .add("format", row.cost.name)
      .add("weight_bytes", plan.weight_bytes)
      .add("kv_bytes", kv_bytes_in_use(plan))
      .add("scratch_bytes", scratch_bytes(plan))
      .add("memory_bytes", row.cost.memory_bytes)
      .add("fits", plan.fits)
      .add("on_front", row.is_on_front)
      .add("concurrent_videos", plan.num_concurrent);
  if (plan.fits) {
    json.add("prefill_tokens_per_s", plan.prefill_tokens_per_s)
        .add("decode_tokens_per_s", plan.decode_tokens_per_s)
        .add("videos_per_s", plan.videos_per_s);
  }
  if (row.cost.is_made) json.add("made_as", row.made_as);
  if (row.price.has_value()) write_price_json(*row.price, json);
  json.end_object();
}

// What the plan of the chosen format warns of.
std::vector<std::string> warnings_of_choice(const FormatReport& report) {
  const FormatRow* const chosen = report.chosen();
  return chosen == nullptr ? std::vector<std::string>() : chosen->plan.warnings;
}

// Says why nothing fits, after the row of the least memory.
std::string refusal_text(const FormatRow& smallest) {
  return "; in " + smallest.cost.name + ", " + smallest.plan.limit_reason;
}

void write_table_json(const FoundPriceTable& found, JsonWriter& json) {
  json.begin_object("prices")
      .add("path", found.path.string())
      .add("arithmetic", found.table.arithmetic)
      .add("positions", found.table.positions)
      .add("clips", found.table.clips)
      .add("made_by", found.table.made_by)
      .end_object();
}

}  // namespace

bool FormatReport::has_made_rows() const {
  return std::any_of(rows.begin(), rows.end(),
                     [](const FormatRow& row) { return row.cost.is_made; });
}

const FormatRow& FormatReport::planned() const {
  if (const FormatRow* const row = chosen()) return *row;
  CAPTION_CHECK(!rows.empty(), "plan: a model that no format can hold");
  const auto is_smaller = [](const FormatRow& a, const FormatRow& b) {
    const bool is_a_left_out = a.cost.fits || a.cost.is_made;
    const bool is_b_left_out = b.cost.fits || b.cost.is_made;
    return is_a_left_out != is_b_left_out ? is_b_left_out
                                          : a.cost.memory_bytes < b.cost.memory_bytes;
  };
  return *std::min_element(rows.begin(), rows.end(), is_smaller);
}

std::int64_t bytes_in_use(const Plan& plan) {
  return plan.total_bytes - plan.pool_bytes + kv_bytes_in_use(plan);
}

FormatRow make_format_row(std::string name, Plan plan, std::optional<FormatPrice> price) {
  FormatRow row;
  row.cost = {.format = plan.input.weights,
              .name = std::move(name),
              .fits = plan.fits,
              .memory_bytes = bytes_in_use(plan),
              .videos_per_s = plan.fits ? plan.videos_per_s : 0};
  if (price.has_value()) row.cost.loss = price->mean_kl;
  row.plan = std::move(plan);
  row.price = std::move(price);
  return row;
}

std::string made_name(std::string_view made_as) {
  const bool is_calibrated = made_as.find("--calibrate") != std::string_view::npos;
  return std::string(made_as.substr(0, made_as.find(' '))) +
         (is_calibrated ? " (calibrated)" : " (made)");
}

FormatRow make_made_row(std::string made_as, Plan plan, std::optional<FormatPrice> price) {
  FormatRow row = make_format_row(made_name(made_as), std::move(plan), std::move(price));
  row.cost.is_made = true;
  row.made_as = std::move(made_as);
  return row;
}

FormatReport make_format_report(std::vector<FormatRow> rows, std::optional<FoundPriceTable> prices,
                                std::string model_flags) {
  FormatReport report;
  report.rows = std::move(rows);
  report.prices = std::move(prices);
  report.model_flags = std::move(model_flags);
  std::vector<FormatCost> costs;
  for (const FormatRow& row : report.rows) costs.push_back(row.cost);
  const std::vector<bool> is_on_front = pareto_front(costs);
  for (std::size_t i = 0; i < costs.size(); ++i) report.rows[i].is_on_front = is_on_front[i];
  report.choice = choose_format(costs);
  if (report.chosen() == nullptr && !report.planned().plan.fits) {
    report.choice.reason += refusal_text(report.planned());
  }
  return report;
}

std::string made_positions_text(const FormatReport& report) {
  if (report.made_positions == 0) return {};
  return ", of those to be made " + std::to_string(report.made_positions) + " or more";
}

std::string advise_to_measure(const FormatReport& report) {
  return "run `caption-cli bench VIDEOS --price weights " + report.model_flags + "`";
}

std::string to_text(const FormatReport& report) {
  CAPTION_CHECK(!report.rows.empty(), "plan: a report without a format");
  const PlanInput& input = report.rows.front().plan.input;
  std::string text = "formats of " + input.model.name + " on " + input.device_name + ", " +
                     batch_text(input) + ", " +
                     format_bytes(report.rows.front().plan.usable_bytes) + " may be used\n" +
                     heading_text();
  for (const FormatRow& row : report.rows) text += row_text(row, &row == report.chosen());
  for (const std::string& left_out : report.left_out) text += "left out: " + left_out + "\n";
  text += ">: chosen below; *: on the Pareto front of memory, speed and KL\n" + made_text(report) +
          uncounted_text(input);
  text += "prefill and decode: tok/s, at most; videos/s: without reading the films; rates:\n" +
          rates_text(report);
  text += prices_text(report);
  text += (report.choice.index.has_value() ? "chosen: " : "nothing is chosen: ") +
          report.choice.reason + "\n";
  for (const std::string& warning : warnings_of_choice(report))
    text += "warning: " + warning + "\n";
  if (input.obstacles.empty()) return text;
  text += "\nrun would not start here\n";
  for (const std::string& obstacle : input.obstacles) text += "  " + printable(obstacle) + "\n";
  return text;
}

std::string to_json(const FormatReport& report) {
  CAPTION_CHECK(!report.rows.empty(), "plan: a report without a format");
  const PlanInput& input = report.rows.front().plan.input;
  JsonWriter json;
  json.begin_object()
      .add("preset", input.preset)
      .add("model", input.model.name)
      .add("device", input.device_name)
      .add("memory_bytes", input.memory_bytes)
      .add("usable_bytes", report.rows.front().plan.usable_bytes)
      .add("batch", asked_videos(input));
  json.begin_list("formats");
  for (const FormatRow& row : report.rows) write_row_json(row, json);
  json.end_list().begin_list("left_out");
  for (const std::string& left_out : report.left_out) json.add_item(left_out);
  json.end_list();
  if (report.prices.has_value()) write_table_json(*report.prices, json);
  const FormatRow* const chosen = report.chosen();
  if (chosen != nullptr) json.add("choice", chosen->cost.name);
  json.add("reason", report.choice.reason)
      .add("can_run", chosen != nullptr && chosen->plan.can_run());
  json.begin_list("warnings");
  for (const std::string& warning : warnings_of_choice(report)) json.add_item(warning);
  json.end_list().begin_list("obstacles");
  for (const std::string& obstacle : input.obstacles) json.add_item(obstacle);
  return json.end_list().end_object().text() + "\n";
}

}  // namespace caption::plan
