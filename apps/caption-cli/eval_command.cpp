#include "eval_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "eval/corpus.h"
#include "eval/evaluate.h"
#include "eval/report.h"

namespace caption::cli {
namespace {

struct EvalFlags {
  std::string captions;
  std::string references;
  std::string reference_field = "annotation.description_kr";
  std::string match = "auto";
  std::optional<std::string> prompt;
  std::vector<std::string> metrics;
  std::string dictionary = "/usr/share/hunspell/ko";
  std::string synonyms;
  std::optional<std::uint64_t> shuffle_seed;
  std::int64_t num_resamples = 1000;
  std::uint64_t seed = 20;
  std::string json;
  std::string per_clip;
};

std::string metric_names() {
  std::string names;
  for (const eval::Metric metric : eval::all_metrics()) {
    names += (names.empty() ? "" : ", ") + std::string(eval::metric_name(metric));
  }
  return names;
}

eval::MatchBy chosen_match(const std::string& name) {
  constexpr std::array kAll = {eval::MatchBy::kAuto, eval::MatchBy::kPath, eval::MatchBy::kName,
                               eval::MatchBy::kStem};
  const auto found = std::find_if(kAll.begin(), kAll.end(), [&](eval::MatchBy match) {
    return eval::match_by_name(match) == name;
  });
  CAPTION_CHECK(found != kAll.end(), "--match was checked while parsing");
  return *found;
}

std::vector<eval::Metric> chosen_metrics(const std::vector<std::string>& names) {
  if (names.empty()) return eval::all_metrics();
  std::vector<eval::Metric> metrics;
  for (const std::string& name : names) {
    const std::optional<eval::Metric> metric = eval::find_metric(name);
    if (!metric) {
      throw Error(ErrorCode::kUsage,
                  "--metrics: no metric is named \"" + name + "\"; there are " + metric_names());
    }
    metrics.push_back(*metric);
  }
  return metrics;
}

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    if (!std::cout) throw Error(ErrorCode::kIo, "stdout: the report could not be written");
    return;
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (!file) throw Error(ErrorCode::kIo, path + ": the report could not be written");
}

// Several problems are a line each on stderr before the error that counts them.
void require_no_problems(const eval::Problems& problems) {
  if (problems.count() <= 1) return problems.throw_if_any();
  for (const std::string& problem : problems.shown()) log(LogLevel::kError, "eval", problem);
  const auto num_shown = static_cast<std::int64_t>(problems.shown().size());
  throw Error(ErrorCode::kBadReference,
              std::to_string(problems.count()) +
                  " lines or files cannot be used, so nothing is scored" +
                  (problems.count() > num_shown
                       ? "; the first " + std::to_string(num_shown) +
                             std::string(plural(num_shown, " is", " are")) + " named above"
                       : ""));
}

// All that is wrong with captions and references is said at once; a score over a part of them would
// pass for one over all.
eval::Corpus read_corpus(const EvalFlags& flags) {
  eval::Problems problems;
  eval::References references =
      eval::read_references(flags.references, flags.reference_field, problems);
  eval::Captions captions = eval::read_captions(flags.captions, problems);
  require_no_problems(problems);
  const std::vector<eval::CaptionEntry> chosen =
      eval::choose_prompt(std::move(captions.entries), flags.prompt);
  // All of the captions answer one prompt.
  if (!chosen.empty()) {
    references = eval::choose_references(std::move(references), chosen.front().prompt);
  }
  eval::Corpus corpus = eval::pair_up(references, chosen, chosen_match(flags.match));
  corpus.num_superseded = captions.num_superseded;
  return corpus;
}

void run_eval(const EvalFlags& flags) {
  if (flags.captions == eval::kStandardInput && flags.references == eval::kStandardInput) {
    throw Error(ErrorCode::kUsage, "captions and references cannot both come from standard input");
  }
  if (flags.json == "-" && flags.per_clip == "-") {
    throw Error(ErrorCode::kUsage, "--json and --per-clip cannot both go to stdout");
  }
  eval::EvaluateOptions options;
  options.metrics = chosen_metrics(flags.metrics);
  options.dictionary = flags.dictionary;
  if (!flags.synonyms.empty()) options.synonyms = flags.synonyms;
  options.shuffle_seed = flags.shuffle_seed;
  options.bootstrap.num_resamples = flags.num_resamples;
  options.bootstrap.seed = flags.seed;

  const eval::Report report = eval::evaluate(read_corpus(flags), options);

  if (!flags.json.empty()) write_text(flags.json, eval::to_json(report));
  if (!flags.per_clip.empty()) write_text(flags.per_clip, eval::to_clip_lines(report));
  // stdout carries one result: the table, unless it was asked for another.
  if (flags.json != "-" && flags.per_clip != "-") write_text("-", eval::to_table(report));
}

}  // namespace

void add_eval_command(CLI::App& root, int& exit_code) {
  const auto flags = std::make_shared<EvalFlags>();
  CLI::App* command = root.add_subcommand("eval", "Score captions against references");
  command
      ->add_option("captions", flags->captions,
                   "Captions as `run` writes them (JSONL), or - for standard input; of several "
                   "records of a clip and prompt the last counts; all but failed ones are scored, "
                   "truncated and suspicious ones too")
      ->required();
  command
      ->add_option("--references", flags->references,
                   "JSONL of {\"video\", \"captions\": [...]} or {\"video\", \"caption\"}, or a "
                   "folder of label files, or - for standard input")
      ->required();
  command
      ->add_option("--reference-field", flags->reference_field,
                   "Where a label file holds its text, as a dotted path")
      ->capture_default_str();
  command
      ->add_option("--match", flags->match,
                   "What makes two paths one clip; auto: the stem for label files, else the file "
                   "name, or the path where names repeat")
      ->check(CLI::IsMember({"auto", "path", "name", "stem"}))
      ->capture_default_str();
  command->add_option("--prompt", flags->prompt,
                      "Score the captions of this prompt, where several were asked");
  command->add_option("--metrics", flags->metrics, "Some of: " + metric_names())->delimiter(',');
  command
      ->add_option("--dictionary", flags->dictionary,
                   "hunspell's Korean dictionary, without .aff and .dic")
      ->capture_default_str();
  command->add_option("--synonyms", flags->synonyms,
                      "Groups of stems for METEOR's third stage, one per line, tab-separated");
  command->add_option("--shuffled", flags->shuffle_seed,
                      "Score every caption against another clip's references, drawn with this "
                      "seed: does the model look at its videos?");
  command
      ->add_option("--resamples", flags->num_resamples, "Bootstrap resamples behind the intervals")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000000}))
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "Seed of the bootstrap")->capture_default_str();
  command->add_option("--json", flags->json, "Write the report as JSON to this file, or -");
  command->add_option("--per-clip", flags->per_clip,
                      "Write every clip's scores as JSONL to this file, or -");
  command->callback([flags, &exit_code] {
    run_eval(*flags);
    exit_code = 0;
  });
}

}  // namespace caption::cli
