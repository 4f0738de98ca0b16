#include "option_prices.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "plan/kv_dtype_name.h"
#include "price_comparison.h"

namespace caption::cli {
namespace {

struct PricedOptions {
  std::string name;
  pipeline::Options options;
};

std::vector<PricedOptions> kv_variants(const pipeline::Options& options) {
  std::vector<PricedOptions> variants;
  for (const DType dtype : kPricedPages) {
    variants.push_back(
        {.name = std::string(plan::kv_dtype_name(dtype)) + " KV", .options = options});
    variants.back().options.engine.kv_dtype = dtype;
  }
  return variants;
}

// The number of kept tokens is a share of the prompt, because prompt lengths differ between models.
std::vector<PricedOptions> attention_variants(const pipeline::Options& options,
                                              std::int64_t prompt_tokens) {
  std::vector<PricedOptions> variants;
  const auto add = [&](std::string name, const engine::EngineOptions& changed) {
    variants.push_back({.name = std::move(name), .options = options});
    variants.back().options.engine = changed;
  };
  add("full attention", options.engine);
  for (const std::int64_t part : {2, 4}) {
    engine::EngineOptions merged = options.engine;
    merged.compression.mode = engine::CompressionMode::kTopkMerge;
    merged.compression.keep_tokens = static_cast<std::int32_t>(
        std::max<std::int64_t>(merged.compression.window_tokens, prompt_tokens / part));
    merged.compression.num_summaries = 8;
    add("topk-merge, " + std::to_string(merged.compression.keep_tokens) + " of " +
            std::to_string(prompt_tokens) + " kept",
        merged);
  }
  for (const float threshold : {0.01F, 0.05F}) {
    engine::EngineOptions squeezed = options.engine;
    squeezed.compression.mode = engine::CompressionMode::kSqueezed;
    squeezed.compression.threshold = threshold;
    add("squeezed, clusters above " + std::to_string(static_cast<int>(threshold * 100)) + " %",
        squeezed);
  }
  return variants;
}

std::vector<PricedOptions> variants_of(PriceOf price, const pipeline::Options& options,
                                       std::int64_t prompt_tokens) {
  switch (price) {
    case PriceOf::kKvCache: return kv_variants(options);
    default: return attention_variants(options, prompt_tokens);
  }
}

}  // namespace

std::int64_t warm_up(const VideoBench& bench, const OpenedModel& opened) {
  log_info("bench", "prices, a run to warm up");
  std::vector<records::Record> records;
  const bench::VideoRun warm = run_once(bench, opened, opened.options, records);
  if (warm.num_captions == 0) {
    throw Error(ErrorCode::kDecode,
                "bench: no clip could be captioned, so that there is nothing to compare");
  }
  return warm.prompt_tokens / warm.num_captions;
}

bench::PriceReport price_options(const VideoBench& bench, const OpenedModel& opened) {
  const std::int64_t prompt_tokens = warm_up(bench, opened);
  pipeline::Options options = opened.options;
  options.encodes_first = true;
  options.vision_queue_bytes = std::max(options.vision_queue_bytes, kEncodedBytes);
  const std::vector<PricedOptions> variants =
      variants_of(bench.wanted.price, options, prompt_tokens);
  PriceCollector collector(bench);
  for (const PricedOptions& variant : variants) collector.add_row(variant.name);
  std::vector<records::Record> records;
  for (int round = 0; round < bench.wanted.repeat; ++round) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      log_info("bench", variants[i].name + ", run " + std::to_string(round + 1) + " of " +
                            std::to_string(bench.wanted.repeat));
      bench::VideoRun run = run_once(bench, opened, variants[i].options, records);
      collector.add_run(i, std::move(run), records);
    }
  }
  return collector.take_report();
}

}  // namespace caption::cli
