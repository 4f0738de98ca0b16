#include "forced_runs.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "records/file_name.h"

namespace caption::cli {
namespace {

// The same for the captions of one content in all runs, whichever of equal files is captioned.
std::string key_of(const records::Record& record) {
  return record.id + " " + records::caption_key(record);
}

// The options of greedy captions of which every token is the model's own choice to make or refuse.
pipeline::Options plain_options(const OpenedModel& opened) {
  pipeline::Options options = opened.options;
  options.sampling.num_beams = 1;
  options.sampling.temperature = 0;
  options.sampling.num_logprobs = -1;
  return options;
}

// Positions 0 to count - 1 in an order whose every beginning is spread over all of them: they are
// sorted by the fractional part of multiples of the golden ratio.
std::vector<std::size_t> spread_order(std::size_t count) {
  constexpr double kGoldenRatio = 0.6180339887498949;
  const auto place = [](std::size_t i) {
    const double multiple = static_cast<double>(i) * kGoldenRatio;
    return multiple - std::floor(multiple);
  };
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
  return order;
}

// Captions as they are written, clip by clip.
class Writer {
 public:
  Writer(const VideoBench& bench, const OpenedModel& reference)
      : bench_(bench), reference_(reference) {}

  bool has_enough() const { return positions_ >= bench_.wanted.price_positions; }
  pipeline::InputList take_inputs() { return std::move(inputs_); }
  FailedClips take_failed() { return std::move(failed_); }
  std::map<std::string, bench::WrittenCaption> take_captions() { return std::move(captions_); }

  // Captions these inputs together and takes them one after the other until there are enough.
  void write(const std::vector<std::size_t>& numbers) {
    pipeline::InputList chunk;
    for (const std::size_t number : numbers) add(number, chunk);
    bench::TokenLog log;
    pipeline::Options options = plain_options(reference_);
    options.on_request = [&](const records::Record& record, engine::Request& request) {
      log.watch(key_of(record), request);
    };
    CollectingSink sink;
    pipeline::run(*reference_.model, chunk, options, sink);
    failed_.merge(find_failed(sink.records));
    for (const std::size_t number : numbers) {
      if (!has_enough() && take(bench_.inputs.path(number), sink.records, log)) {
        add(number, inputs_);
      }
    }
  }

 private:
  void add(std::size_t number, pipeline::InputList& list) const {
    list.add(bench_.inputs.path(number), bench_.inputs.origin(number),
             bench_.inputs.adapter(number));
  }

  // Returns whether the clip has captions that no clip before it has.
  bool take(std::string_view path, const std::vector<records::Record>& records,
            const bench::TokenLog& log) {
    const std::string video = records::escape_file_name(path);
    bool has_new = false;
    for (const records::Record& record : records) {
      const bool is_captioned = record.status != records::Status::kFailed && record.copy_of.empty();
      if (record.video != video || !is_captioned) continue;
      const bench::WrittenCaption* const written = log.find(key_of(record));
      CAPTION_CHECK(written != nullptr, "bench: a caption of no request");
      const bool is_new = captions_.emplace(key_of(record), *written).second;
      if (is_new) positions_ += std::ssize(written->tokens);
      has_new = has_new || is_new;
    }
    return has_new;
  }

  const VideoBench& bench_;
  const OpenedModel& reference_;
  pipeline::InputList inputs_;
  FailedClips failed_;
  std::map<std::string, bench::WrittenCaption> captions_;
  std::int64_t positions_ = 0;
};

// The code of an error whose name a record holds.
ErrorCode code_of(const records::ErrorInfo& error) {
  for (const ErrorCode code : {ErrorCode::kUsage, ErrorCode::kBadModel, ErrorCode::kOutOfMemory,
                               ErrorCode::kIo, ErrorCode::kTooLong, ErrorCode::kInternal}) {
    if (error.code == error_code_name(code)) return code;
  }
  return ErrorCode::kUnavailable;
}

// Runs the captions' clips with requests that `lead` changes.
void run_forced(const ForcedRuns& runs, const OpenedModel& opened,
                const std::function<void(const std::string&, engine::Request&)>& lead) {
  pipeline::Options options = plain_options(opened);
  options.stop_strings = {};
  options.on_request = [&](const records::Record& record, engine::Request& request) {
    lead(key_of(record), request);
  };
  CollectingSink sink;
  pipeline::run(*opened.model, runs.inputs, options, sink);
  for (const records::Record& record : sink.records) {
    if (!record.error.has_value()) continue;
    throw Error(code_of(*record.error),
                "bench: the reference's caption cannot be followed: " + record.error->message);
  }
}

}  // namespace

FailedClips find_failed(const std::vector<records::Record>& records) {
  FailedClips failed;
  for (const records::Record& record : records) {
    if (record.status != records::Status::kFailed) continue;
    failed.emplace(record.video, record.id.empty() ? record.video : record.id);
  }
  for (const records::Record& record : records) {
    if (record.status != records::Status::kFailed) failed.erase(record.video);
  }
  return failed;
}

ForcedRuns write_forced_runs(const VideoBench& bench, const OpenedModel& reference) {
  const std::vector<std::size_t> order = spread_order(bench.inputs.size());
  const auto chunk =
      static_cast<std::size_t>(std::max<std::int32_t>(1, reference.options.engine.max_num_seqs));
  Writer writer(bench, reference);
  for (std::size_t i = 0; i < order.size() && !writer.has_enough(); i += chunk) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(i);
    const std::size_t count = std::min(chunk, order.size() - i);
    writer.write({begin, begin + static_cast<std::ptrdiff_t>(count)});
  }
  ForcedRuns runs{
      .inputs = writer.take_inputs(), .captions = nullptr, .failed = writer.take_failed()};
  std::map<std::string, bench::WrittenCaption> captions = writer.take_captions();
  if (captions.empty()) return runs;
  runs.captions =
      std::make_unique<bench::ForcedCaptions>(std::move(captions), bench.locations.temporary);
  runs.captions->reserve(reference.model->decoder().spec().vocab);
  run_forced(runs, reference, [&](const std::string& key, engine::Request& request) {
    runs.captions->record(key, request);
  });
  return runs;
}

bench::LogitPrice compare_logits(const ForcedRuns& runs, const OpenedModel& opened) {
  CAPTION_CHECK(runs.captions != nullptr, "bench: no caption to follow");
  run_forced(runs, opened, [&](const std::string& key, engine::Request& request) {
    runs.captions->compare(key, request);
  });
  return bench::summarise(runs.captions->take_divergences());
}

}  // namespace caption::cli
