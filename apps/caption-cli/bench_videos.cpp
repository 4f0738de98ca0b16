#include "bench_videos.h"

#include <algorithm>
#include <iostream>

#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "bench/video_report.h"
#include "bench_device.h"
#include "config/resolve.h"
#include "draft_prices.h"
#include "exit_codes.h"
#include "option_prices.h"
#include "pipeline/find_videos.h"
#include "video_runs.h"
#include "weight_prices.h"
#include "write_text.h"

namespace caption::cli {
namespace {

void report_copies(const std::vector<records::Record>& records) {
  const std::int64_t num_copies =
      std::count_if(records.begin(), records.end(),
                    [](const records::Record& record) { return !record.copy_of.empty(); });
  if (num_copies == 0) return;
  log_info("bench", counted(num_copies, "caption is that of another clip",
                            "captions are those of other clips") +
                        " of the same content and not counted");
}

bench::Roofline measure_machine(const Context& context) {
  ThreadPool pool(context.num_threads);
  Stream stream(context, pool);
  return bench::measure_roofline(stream);
}

std::string describe_run(const BenchDevice& device, const OpenedModel& opened) {
  return describe_setting(opened.costs.weights, opened.options.engine.kv_dtype, device) + ", " +
         describe_work(opened);
}

// Prints the prices and returns the exit code.
int report_prices(const BenchVideos& wanted, const bench::PriceReport& prices) {
  if (wanted.json != "-") std::cout << bench::to_table(prices);
  if (!wanted.json.empty()) write_text(wanted.json, bench::to_json(prices));
  return prices.rows.front().median_run().num_failed > 0 ? kExitClipsFailed : kExitOk;
}

int report_runs(const VideoBench& bench, const OpenedModel& opened, const bench::Subject& subject) {
  const BenchVideos& wanted = bench.wanted;
  bench::VideoReport report;
  report.subject = subject;
  report.max_num_seqs = opened.preset.engine.max_num_seqs;
  report.operands = bench::operands_of(opened.costs.weights);
  report.before = measure_machine(bench.context);
  std::vector<records::Record> records;
  for (int round = 0; round < wanted.repeat; ++round) {
    log_info("bench",
             "videos, run " + std::to_string(round + 1) + " of " + std::to_string(wanted.repeat));
    report.runs.push_back(run_once(bench, opened, opened.options, records));
  }
  report.after = measure_machine(bench.context);
  report_copies(records);
  if (bench.references.has_value()) {
    report.scores = scores_of(evaluate(*bench.references, bench.prompts.front().name, records));
  }
  if (wanted.json != "-") std::cout << bench::to_table(report);
  if (!wanted.json.empty()) write_text(wanted.json, bench::to_json(report));
  return report.median_run().num_failed > 0 ? kExitClipsFailed : kExitOk;
}

}  // namespace

int bench_videos(const BenchVideos& wanted, const BenchDevice& device,
                 const config::LoadedPreset& loaded, const Machine& machine) {
  config::Preset preset = loaded.preset;
  // The method that takes most memory.
  if (wanted.price == PriceOf::kDrafts) preset.speculative.method = config::DraftMethod::kArchive;
  config::require_available(preset, has_cuda_kernels());
  const pipeline::FoundVideos found = pipeline::find_videos(wanted.paths);
  if (found.inputs.empty()) {
    throw Error(ErrorCode::kUsage, "bench: no file in what was given; name videos or folders");
  }
  for (const std::string& skipped : pipeline::describe_skipped(found))
    log_warning("bench", skipped);
  const VideoBench bench = make_video_bench(wanted, device.context, machine, loaded, found.inputs);
  bench::Subject subject = {
      .model = preset.model.is_composed ? preset.model.llm : preset.model.path,
      .setting = device.description};
  if (wanted.price == PriceOf::kWeights) {
    PricedWeights priced = price_weights(bench, preset);
    if (priced.report.rows.empty()) {
      log(LogLevel::kError, "bench",
          "no clip could be captioned, so that there is nothing to compare");
      return kExitClipsFailed;
    }
    subject.setting += ", " + priced.work;
    priced.report.subject = subject;
    const int exit_code = report_prices(wanted, priced.report);
    if (!priced.warning.empty()) log_warning("bench", priced.warning);
    return exit_code;
  }
  const OpenedModel opened = open_for_bench(bench, preset);
  subject.setting = describe_run(device, opened);
  if (wanted.price == PriceOf::kNothing) return report_runs(bench, opened, subject);
  bench::PriceReport prices =
      wanted.price == PriceOf::kDrafts ? price_drafts(bench, opened) : price_options(bench, opened);
  prices.subject = subject;
  return report_prices(wanted, prices);
}

}  // namespace caption::cli
