#include "bench/draft_bench.h"

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/figures.h"
#include "base/json_writer.h"
#include "base/math.h"
#include "bench/internal/decoding.h"
#include "bench/statistics.h"
#include "bench/workload.h"
#include "drafts/drafter.h"

namespace caption::bench {
namespace {

constexpr std::int64_t kArchiveBytes = 64LL << 20;
constexpr std::size_t kContext = 2;  // tokens of a text before the one that it goes on from

void plant(const Ids& output, double agreement, std::mt19937_64& random, std::int32_t vocab,
           drafts::TokenArchive& archive) {
  const auto is_drawn = [&] { return static_cast<double>(random() >> 11) < agreement * 0x1.0p53; };
  for (std::size_t i = 0; i + 1 < output.size(); ++i) {
    const std::size_t begin = i < kContext ? 0 : i - kContext;
    std::size_t end = i + 1;
    while (end < output.size() && is_drawn()) ++end;
    Ids text(output.begin() + static_cast<std::ptrdiff_t>(begin),
             output.begin() + static_cast<std::ptrdiff_t>(end));
    if (end < output.size()) text.push_back((output[end] + 1) % vocab);
    archive.add(text);
  }
}

class DraftBench {
 public:
  DraftBench(model::Decoder& decoder, Stream& stream, const DraftBenchOptions& options)
      : decoder_(decoder), stream_(stream), options_(options), random_(options.seed) {}

  std::vector<DraftRow> run_batch(std::int32_t batch);

 private:
  enum class Purpose : std::uint64_t { kLearning, kMeasured };
  std::vector<engine::Request> requests(std::int32_t batch, Purpose purpose) const {
    return make_requests(make_fixed_workload(batch, options_.prompt_tokens, options_.output_tokens),
                         decoder_.spec(), options_.seed + static_cast<std::uint64_t>(purpose));
  }
  engine::EngineOptions engine_options(std::int32_t batch) const {
    engine::EngineOptions engine = options_.engine;
    engine.max_num_seqs = batch;
    engine.prefix_cache = engine::PrefixCache::kOff;
    return engine;
  }
  Decoding run_plain(std::int32_t batch, Purpose purpose) {
    engine::Engine engine(decoder_, stream_, engine_options(batch));
    return decode_together(engine, requests(batch, purpose));
  }
  DraftRow run_drafted(std::int32_t batch, double agreement);
  void report(std::int32_t batch, const std::string& what, int round) const;

  model::Decoder& decoder_;
  Stream& stream_;
  const DraftBenchOptions& options_;
  std::mt19937_64 random_;
  std::vector<Ids> learned_;   // the outputs of the batch's requests
  std::vector<Ids> measured_;  // likewise
};

// Fills the row but for the speed without drafts.
DraftRow DraftBench::run_drafted(std::int32_t batch, double agreement) {
  auto archive = std::make_shared<drafts::TokenArchive>(kArchiveBytes);
  const auto vocab = static_cast<std::int32_t>(decoder_.spec().vocab);
  for (const std::vector<Ids>& outputs : {learned_, measured_}) {
    for (const Ids& output : outputs) plant(output, agreement, random_, vocab, *archive);
  }
  drafts::Drafter drafter({.method = drafts::Method::kArchive, .max_drafts = options_.max_drafts},
                          archive);
  engine::EngineOptions with_drafts = engine_options(batch);
  with_drafts.draft_source = &drafter;
  with_drafts.max_drafts = options_.max_drafts;
  engine::Engine engine(decoder_, stream_, with_drafts);
  decode_together(engine, requests(batch, Purpose::kLearning));
  const drafts::DraftedSteps before = drafter.steps();
  const Decoding decoding = decode_together(engine, requests(batch, Purpose::kMeasured));
  const drafts::DraftedSteps after = drafter.steps();
  DraftRow row{.batch = batch, .agreement = agreement};
  row.tokens_per_s = as_double(decoding.num_tokens) / decoding.seconds;
  row.tokens_per_step =
      as_double(decoding.num_tokens) / as_double(decoding.num_tokens - decoding.num_accepted);
  row.drafted_share = as_double(after.with_drafts - before.with_drafts) /
                      as_double(std::max<std::int64_t>(1, after.all - before.all));
  row.reckoned_ratio = 1 + (after.saved_us - before.saved_us) / 1e6 / decoding.seconds;
  row.outputs_are_equal = decoding.outputs == measured_;
  return row;
}

void DraftBench::report(std::int32_t batch, const std::string& what, int round) const {
  if (!options_.on_run) return;
  options_.on_run(counted(std::int64_t{batch}, "sequence") + ", " + what + ", run " +
                  std::to_string(round + 1) + " of " + std::to_string(options_.repeat));
}

std::vector<DraftRow> DraftBench::run_batch(std::int32_t batch) {
  report(batch, "recording", 0);
  learned_ = run_plain(batch, Purpose::kLearning).outputs;
  measured_ = run_plain(batch, Purpose::kMeasured).outputs;
  std::vector<std::vector<DraftRow>> runs(options_.agreements.size());
  for (int round = 0; round < options_.repeat; ++round) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      report(batch, "agreement " + format_number(options_.agreements[i], 2), round);
      const Decoding plain = run_plain(batch, Purpose::kMeasured);
      runs[i].push_back(run_drafted(batch, options_.agreements[i]));
      runs[i].back().plain_tokens_per_s = as_double(plain.num_tokens) / plain.seconds;
    }
  }
  std::vector<DraftRow> rows;
  for (std::vector<DraftRow>& of_row : runs) {
    const bool are_equal = std::all_of(of_row.begin(), of_row.end(),
                                       [](const DraftRow& row) { return row.outputs_are_equal; });
    std::vector<double> ratios;
    for (const DraftRow& row : of_row) ratios.push_back(row.ratio());
    rows.push_back(of_row[median_index(ratios)]);
    rows.back().outputs_are_equal = are_equal;
  }
  return rows;
}

}  // namespace

std::vector<DraftRow> bench_drafts(model::Decoder& decoder, Stream& stream,
                                   const DraftBenchOptions& options) {
  CAPTION_CHECK(options.repeat >= 1 && options.output_tokens >= 4, "bench: nothing to decode");
  DraftBench bench(decoder, stream, options);
  std::vector<DraftRow> rows;
  for (const std::int32_t batch : options.batches) {
    for (DraftRow& row : bench.run_batch(batch)) rows.push_back(row);
  }
  return rows;
}

std::string to_table(const std::string& subject, const std::vector<DraftRow>& rows) {
  constexpr std::size_t kWidth = 14;
  const auto column = [](const std::string& text) { return pad_left(text, kWidth); };
  std::string text = subject + "\n\n";
  for (const char* name : {"sequences", "agreement", "tokens/step", "drafted", "plain tok/s",
                           "tok/s", "ratio", "reckoned", "outputs"}) {
    text += column(name);
  }
  text += "\n";
  for (const DraftRow& row : rows) {
    text += column(std::to_string(row.batch)) + column(format_number(row.agreement, 2)) +
            column(format_number(row.tokens_per_step)) + column(format_percent(row.drafted_share)) +
            column(format_number(row.plain_tokens_per_s)) +
            column(format_number(row.tokens_per_s)) + column(format_number(row.ratio()) + "x") +
            column(format_number(row.reckoned_ratio) + "x") +
            column(row.outputs_are_equal ? "equal" : "DIFFER") + "\n";
  }
  std::vector<std::pair<std::int32_t, double>> plain;
  for (const DraftRow& row : rows) plain.emplace_back(row.batch, row.plain_tokens_per_s);
  return text +
         "\nagreement: the probability that a guess is right if those before it are; drafted: "
         "steps with drafts;\nreckoned: the ratio by the measured costs of steps, as a run reports "
         "it\n" +
         describe_scatter(plain);
}

std::string to_json(const std::string& subject, const std::vector<DraftRow>& rows) {
  JsonWriter json;
  json.begin_object().add("model", subject).begin_list("rows");
  for (const DraftRow& row : rows) {
    json.begin_object()
        .add("sequences", std::int64_t{row.batch})
        .add("agreement", row.agreement)
        .add("tokens_per_step", row.tokens_per_step)
        .add("drafted_share", row.drafted_share)
        .add("plain_tokens_per_s", row.plain_tokens_per_s)
        .add("tokens_per_s", row.tokens_per_s)
        .add("ratio", row.ratio())
        .add("reckoned_ratio", row.reckoned_ratio)
        .add("outputs_are_equal", row.outputs_are_equal)
        .end_object();
  }
  return json.end_list().end_object().text() + "\n";
}

}  // namespace caption::bench
