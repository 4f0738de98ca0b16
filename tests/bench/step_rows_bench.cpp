// What a step of one sequence costs by the number of its rows, and in which operations:
//   caption_step_rows_bench [SHAPE] [PROMPT_TOKENS] [ROUNDS] [ROWS]...
// Random weights in bf16. A step of n rows has n - 1 drafts, all of them wrong, so that every step
// gives one token and steps of all sizes see the same contexts. An engine for each number of rows;
// the engines take turns of one output, and half of the rounds time the operations.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/context.h"
#include "backend/machine.h"
#include "backend/profile.h"
#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "base/clock.h"
#include "bench/profile_report.h"
#include "bench/workload.h"
#include "drafts/draft_source.h"
#include "engine/engine.h"
#include "model/random_model.h"
#include "plan/known_models.h"

namespace {

using namespace caption;

constexpr std::int64_t kOutputTokens = 40;
constexpr std::uint64_t kSeed = 1;

// Proposes the same wrong tokens in each step.
class WrongDrafts final : public drafts::DraftSource {
 public:
  explicit WrongDrafts(std::int64_t count) : count_(count) {}
  void propose(std::span<const drafts::DraftQuery> queries, std::int64_t) override {
    for (const drafts::DraftQuery& query : queries) {
      for (std::int64_t i = 0; i < std::min(count_, query.most); ++i) {
        query.drafts->push_back(query.tokens.back());
      }
    }
  }

 private:
  std::int64_t count_;
};

class Contender {
 public:
  Contender(model::Decoder& decoder, Stream& stream, std::int64_t num_rows)
      : stream_(stream), drafts_(num_rows - 1), engine_(decoder, stream, options(num_rows)) {}

  void decode(const engine::Request& request, bool is_profiled) {
    engine_.submit(request);
    engine_.step();
    stream_.set_profile(is_profiled ? &profile_ : nullptr);
    for (std::int64_t step = 0; step + 12 < kOutputTokens && !engine_.idle(); ++step) {
      const Stopwatch stopwatch;
      engine_.step();
      const auto us = static_cast<double>(stopwatch.elapsed_us());
      if (!is_profiled) us_.push_back(us);
      if (is_profiled) profiled_us_ += us;
      if (is_profiled) ++num_profiled_;
    }
    stream_.set_profile(nullptr);
    while (!engine_.idle()) engine_.step();
  }
  double quantile(double share) {
    std::sort(us_.begin(), us_.end());
    return us_[static_cast<std::size_t>(share * static_cast<double>(us_.size() - 1))];
  }
  std::map<std::string, double> operations(const model::DecoderSpec& spec) const {
    std::map<std::string, double> us;
    for (const bench::OperationTime& operation : bench::name_operations(
             profile_.entries(), bench::named_matrices(spec), profiled_us_ / 1e6)) {
      us[operation.name] = operation.seconds * 1e6 / static_cast<double>(num_profiled_);
    }
    return us;
  }

 private:
  engine::EngineOptions options(std::int64_t num_rows) {
    engine::EngineOptions options;
    options.max_num_seqs = 1;
    options.kv_dtype = DType::kBF16;
    options.draft_source = &drafts_;
    options.max_drafts = static_cast<std::int32_t>(num_rows - 1);
    return options;
  }

  Stream& stream_;
  WrongDrafts drafts_;
  engine::Engine engine_;
  Profile profile_;
  double profiled_us_ = 0;
  std::int64_t num_profiled_ = 0;
  std::vector<double> us_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string shape = argc > 1 ? argv[1] : "demo";
  const std::int64_t prompt_tokens = argc > 2 ? std::atoll(argv[2]) : 141;
  const int num_rounds = argc > 3 ? std::atoi(argv[3]) : 20;
  const Context context{.num_threads = detect_machine().num_cpus};
  ThreadPool pool(context.num_threads);
  Stream stream(context, pool);
  const model::DecoderSpec spec = plan::find_known_model(shape).value().text.value();
  const std::unique_ptr<model::Decoder> decoder =
      model::make_random_decoder(stream, spec, weights::WeightFormat::kBF16, kSeed);
  const engine::Request request =
      bench::make_requests(bench::make_fixed_workload(1, prompt_tokens, kOutputTokens), spec, kSeed)
          .front();
  std::vector<std::unique_ptr<Contender>> contenders;
  std::vector<std::int64_t> rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16};
  if (argc > 4) rows.clear();
  for (int i = 4; i < argc; ++i) rows.push_back(std::max(1LL, std::atoll(argv[i])));
  for (const std::int64_t n : rows) {
    contenders.push_back(std::make_unique<Contender>(*decoder, stream, n));
  }
  for (int round = 0; round < num_rounds; ++round) {
    for (const auto& contender : contenders) contender->decode(request, round % 2 == 1);
  }
  std::printf("%-32s", "us per step, rows");
  for (const std::int64_t n : rows) std::printf("%8lld", static_cast<long long>(n));
  for (const double share : {0.1, 0.5}) {
    std::printf("\n%-32s", share == 0.1 ? "lower decile" : "median");
    for (const auto& contender : contenders) std::printf("%8.0f", contender->quantile(share));
  }
  std::printf("\n");
  for (const auto& [name, us] : contenders.front()->operations(spec)) {
    std::printf("%-32s", name.c_str());
    for (const auto& contender : contenders) {
      std::printf("%8.1f", contender->operations(spec)[name]);
    }
    std::printf("\n");
  }
}
