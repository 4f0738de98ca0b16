#include "eval_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/default_seed.h"
#include "base/error.h"
#include "base/join.h"
#include "base/json.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/paths.h"
#include "base/units.h"
#include "eval/corpus.h"
#include "eval/evaluate.h"
#include "eval/korean_stemmer.h"
#include "eval/report.h"
#include "option_types.h"
#include "process.h"
#include "records/file_name.h"
#include "write_text.h"

namespace caption::cli {
namespace {

constexpr const char* kReferenceField = "annotation.description_kr";

struct EvalFlags {
  std::string captions;
  std::string references;
  std::optional<std::string> reference_field;
  std::string match = "auto";
  std::optional<std::string> prompt;
  std::optional<std::string> adapter;
  std::vector<std::string> metrics;
  std::optional<std::string> dictionary;  // absent: the installed dictionary, if there is one
  std::string synonyms;
  std::optional<std::uint64_t> shuffle_seed;
  std::int64_t num_resamples = 1000;
  std::uint64_t seed = kDefaultSeed;
  std::string json;
  std::string per_clip;
};

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const eval::Metric metric : eval::all_metrics()) {
    names.emplace_back(eval::metric_name(metric));
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
      throw Error(ErrorCode::kUsage, "--metrics: no metric is named \"" + name + "\"; there are " +
                                         join(metric_names()) + did_you_mean(name, metric_names()));
    }
    if (std::find(metrics.begin(), metrics.end(), *metric) != metrics.end()) {
      throw Error(ErrorCode::kUsage, "--metrics: " + name + " is named twice; name each once");
    }
    metrics.push_back(*metric);
  }
  return metrics;
}

// Throws Error(kBadReference) with the first problem of each input. With -v the further ones are
// written to stderr before it.
void require_no_problems(const eval::Problems& of_references, const eval::Problems& of_captions) {
  std::vector<std::string> summaries;
  bool is_cut = false;
  for (const eval::Problems* const problems : {&of_references, &of_captions}) {
    if (problems->count() == 0) continue;
    summaries.push_back(problems->summary());
    if (problems->count() == 1) continue;
    is_cut = true;
    for (const std::string& problem : problems->shown()) log_detail("eval", one_line(problem));
  }
  if (summaries.empty()) return;
  throw Error(ErrorCode::kBadReference,
              join(summaries, "; ") + (is_cut ? " (-v names the first ten)" : ""));
}

// Notes captions of several configurations, as of outputs that were put together.
void describe_settings(const std::vector<eval::CaptionEntry>& captions) {
  std::set<std::string_view> settings;
  for (const eval::CaptionEntry& caption : captions) {
    if (!caption.is_failed && !caption.settings.empty()) settings.insert(caption.settings);
  }
  if (settings.size() < 2) return;
  log_info("eval", "the captions were made with " + std::to_string(settings.size()) +
                       " configurations (\"settings\" of their records) and are scored together");
}

// Reports all problems of captions and references at once. A score over a part of them could be
// mistaken for the score over all.
eval::Corpus read_corpus(const EvalFlags& flags) {
  eval::Problems of_references;
  eval::Problems of_captions;
  eval::References references = eval::read_references(
      flags.references, flags.reference_field.value_or(kReferenceField), of_references);
  eval::Captions captions = eval::read_captions(flags.captions, of_captions);
  require_no_problems(of_references, of_captions);
  const std::vector<eval::CaptionEntry> chosen =
      eval::choose_captions(std::move(captions.entries), flags.prompt, flags.adapter);
  describe_settings(chosen);
  // The chosen captions all answer the same prompt.
  if (!chosen.empty()) {
    references = eval::choose_references(std::move(references), chosen.front().prompt);
  }
  eval::Corpus corpus = eval::pair_up(references, chosen, chosen_match(flags.match));
  corpus.num_superseded = captions.num_superseded;
  return corpus;
}

bool has_meteor_ko(const std::vector<eval::Metric>& metrics) {
  return std::find(metrics.begin(), metrics.end(), eval::Metric::kMeteorKo) != metrics.end();
}

// Warns of options that change no score.
void warn_of_idle(const EvalFlags& flags, const std::vector<eval::Metric>& metrics) {
  if (flags.reference_field && !is_folder(flags.references)) {
    log_warning("eval", "--reference-field has no effect with --references " +
                            records::escape_file_name(flags.references) +
                            ", which is no folder of label files");
  }
  if (has_meteor_ko(metrics)) return;
  const std::string without =
      " has no effect without the metric " + std::string(metric_name(eval::Metric::kMeteorKo));
  if (flags.dictionary.has_value()) log_warning("eval", "--dictionary" + without);
  if (!flags.synonyms.empty()) log_warning("eval", "--synonyms" + without);
}

// Warns of words that were given as synonyms and are no stems.
void warn_of_not_stems(const eval::Report& report) {
  if (report.not_stems.empty()) return;
  const eval::NotStem& first = report.not_stems.front();
  const std::string example =
      json_quote(first.word) +
      (first.stem.empty() ? " is no single word" : " has the stem " + json_quote(first.stem));
  log_warning("eval", "--synonyms " + records::escape_file_name(report.synonyms) + ": stems are " +
                          "compared, and " +
                          counted(std::ssize(report.not_stems), "word is none", "words are none") +
                          ": " + example);
}

void run_eval(const EvalFlags& flags) {
  if (flags.captions == eval::kStandardInput && flags.references == eval::kStandardInput) {
    throw Error(ErrorCode::kUsage, "captions and references cannot both come from standard input");
  }
  require_two_files("--json", flags.json, "--per-clip", flags.per_clip);
  const std::vector<std::string> inputs = {flags.captions, flags.references};
  require_replaceable(flags.json, kScoresBegin, inputs);
  require_replaceable(flags.per_clip, kClipScoresBegin, inputs);
  eval::EvaluateOptions options;
  options.metrics = chosen_metrics(flags.metrics);
  warn_of_idle(flags, options.metrics);
  // Throws if the named dictionary is missing, because meteor-ko without it is a different metric.
  if (flags.dictionary.has_value() && has_meteor_ko(options.metrics)) {
    options.dictionary = eval::find_dictionary(*flags.dictionary);
  }
  if (!flags.synonyms.empty()) options.synonyms = flags.synonyms;
  options.shuffle_seed = flags.shuffle_seed;
  options.bootstrap.num_resamples = flags.num_resamples;
  options.bootstrap.seed = flags.seed;

  const eval::Report report = eval::evaluate(read_corpus(flags), options);
  warn_of_not_stems(report);

  if (!flags.json.empty()) write_text(flags.json, eval::to_json(report));
  if (!flags.per_clip.empty()) write_text(flags.per_clip, eval::to_clip_lines(report));
  // stdout carries one result: the table, unless another one was requested there.
  if (flags.json != "-" && flags.per_clip != "-") write_text("-", eval::to_table(report));
}

// A check for seeds: unsigned 64-bit integers.
CLI::Validator is_seed() {
  return {[](std::string& text) {
            std::uint64_t seed = 0;
            const char* const end = text.data() + text.size();
            const auto [parsed, error] = std::from_chars(text.data(), end, seed);
            const bool is_number = error == std::errc() && parsed == end;
            // CLI11 would read 010 as octal.
            if (is_number && !has_leading_zeros(text)) return std::string();
            return expected_text("a whole number from 0 to 18446744073709551615", text) +
                   (is_number ? "; leave out the leading zeros" : "");
          },
          ""};
}

void add_input_flags(CLI::App& command, EvalFlags& flags) {
  constexpr const char* kGroup = "Input";
  command
      .add_option("captions", flags.captions,
                  "captions as run writes them (JSONL), or - for stdin\n"
                  "Of several records of a clip, prompt and adapter the last counts. All but "
                  "failed ones are "
                  "scored, truncated and suspicious ones too.")
      ->type_name(kFileType)
      ->group(kGroup)
      ->required();
  command
      .add_option("--references", flags.references,
                  "JSONL, a folder of label files, or - for stdin\n"
                  "NAME.json, or NAME.mp4.json, is the label of NAME.mp4. "
                  "A line is {\"video\", \"captions\": [...]} or {\"video\", \"caption\"}; "
                  "\"prompts\": {NAME: [...]} beside or instead holds those of captions that "
                  "answer a named prompt.")
      ->type_name(kPathType)
      ->group(kGroup)
      ->required();
  command
      .add_option("--reference-field", flags.reference_field,
                  "where a label file holds its text: a dotted path")
      ->type_name("KEY")
      ->default_str(kReferenceField)
      ->group(kGroup);
  limit_to(command.add_option(
               "--match", flags.match,
               "what makes two paths one clip\n"
               "auto: the stem for label files, else the file name, or the path where these "
               "repeat."),
           {"auto", "path", "name", "stem"})
      ->default_str(flags.match)
      ->group(kGroup);
  command
      .add_option("--prompt", flags.prompt,
                  "score only the captions that answer this prompt\n"
                  "The name that their records have; \"\" stands for those that name none.")
      ->type_name("NAME")
      ->group(kGroup);
  command
      .add_option("--adapter", flags.adapter,
                  "score only the captions made with this adapter\n"
                  "The name that their records have; \"\" stands for those made without one.")
      ->type_name("NAME")
      ->group(kGroup);
}

void add_score_flags(CLI::App& command, EvalFlags& flags) {
  constexpr const char* kGroup = "Scores";
  command.add_option("--metrics", flags.metrics, "only these")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name(join(metric_names(), ","))
      ->group(kGroup);
  command
      .add_option("--dictionary", flags.dictionary,
                  "hunspell's Korean dictionary\n"
                  "Its path without suffix, its .aff or .dic file, or the folder of ko.aff and "
                  "ko.dic. Without this option and without the installed dictionary meteor-ko "
                  "takes particles off only, and is named meteor-ko (josa).")
      ->type_name(kPathType)
      ->default_str(eval::EvaluateOptions().dictionary.string())
      ->group(kGroup);
  command
      .add_option("--synonyms", flags.synonyms,
                  "groups of stems that count as equal\n"
                  "For METEOR's third stage: a group per line, separated by tabs.")
      ->type_name(kFileType)
      ->group(kGroup);
  command
      .add_option("--shuffled", flags.shuffle_seed,
                  "score against other clips' references; N is a seed\n"
                  "Does the model look at its videos? A model that does scores much less.")
      ->check(is_seed())
      ->type_name(kNumberType)
      ->group(kGroup);
  command.add_option("--resamples", flags.num_resamples, "bootstrap resamples of the intervals")
      ->check(in_range(std::int64_t{10}, std::int64_t{1000000}))
      ->type_name(kNumberType)
      ->default_str("1000")
      ->group(kGroup);
  command.add_option("--seed", flags.seed, "seed of the bootstrap")
      ->check(is_seed())
      ->type_name(kNumberType)
      ->default_str("20")
      ->group(kGroup);
}

}  // namespace

void add_eval_command(CLI::App& root, int& exit_code) {
  const auto flags = std::make_shared<EvalFlags>();
  CLI::App* command = root.add_subcommand(
      "eval",
      "Score captions against references\n"
      "Reports meteor-ko first, then other metrics, diversity and the share of identical captions, "
      "each with a bootstrap 95 % interval and with how it was made. Korean scores made with "
      "different tokenizers are not comparable, so every score names its own.");
  add_input_flags(*command, *flags);
  add_score_flags(*command, *flags);
  command->add_option("--json", flags->json, "the report as JSON to this file, or -")
      ->type_name(kFileType)
      ->group("Output");
  command->add_option("--per-clip", flags->per_clip, "every clip's scores as JSONL, or -")
      ->type_name(kFileType)
      ->group("Output");
  command->footer(
      "caption-cli eval --references references.jsonl captions.jsonl\n"
      "caption-cli eval --references labels/ --metrics meteor-ko captions.jsonl\n"
      "caption-cli eval --references references.jsonl --shuffled 1 captions.jsonl");
  command->callback([flags, &exit_code] {
    run_eval(*flags);
    exit_code = 0;
  });
}

}  // namespace caption::cli
