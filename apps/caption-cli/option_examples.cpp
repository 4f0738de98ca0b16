#include "option_examples.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "option_types.h"

namespace caption::cli {
namespace {

struct Example {
  std::string_view command;  // empty: every command with the option
  std::string_view option;
  const char* value;
  const char* with = "";  // other options without which this one is refused
};
// Options for whose example neither a default nor the kind of the value serves.
constexpr Example kExamples[] = {
    {"eval", "--adapter", "news"},
    {"eval", "--prompt", "p1"},
    {"eval", "--reference-field", "annotation.description_kr"},
    {"eval", "--dictionary", "/usr/share/hunspell/ko"},
    {"eval", "--json", "report.json"},
    {"eval", "--per-clip", "clips.jsonl"},
    {"eval", "--synonyms", "synonyms.txt"},
    {"bench", "--json", "bench.json"},
    {"plan", "--batch", "8", "--fit"},
    {"plan", "--svg", "chart.svg", "--fit"},
    {"quantize", "--output", "quantised/"},
    {"run", "--retry", "truncated", "-o captions.jsonl"},
    {"", "--adapter", "lora/"},
    {"", "--bandwidth", "50"},
    {"", "--calibrate", "videos/"},
    {"", "--cpu-tier", "reference"},
    {"", "--devices", "first"},
    {"", "--dictionary", "/usr/share/hunspell/ko"},
    {"", "--draft-from", "earlier.jsonl", "--drafts archive"},
    {"", "--draft-model", "demo", "--drafts model"},
    {"", "--dtype", "bf16"},
    {"", "--dump-frames", "frames/"},
    {"", "--examples", "examples.jsonl"},
    {"", "--exclude", "'*.tmp.mp4'"},
    {"", "--flops", "500"},
    {"", "--include", "'*.mp4'"},
    {"", "--kv-cache-bytes", "4GiB"},
    {"", "--kv-cache-dir", "kv-cache/"},
    {"", "--model", "demo"},
    {"", "--price-base", "base-model/"},
    {"", "--prompt", "'한 문장으로 설명해 주세요.'"},
    {"", "--prompts", "prompts.txt"},
    {"", "--sampling", "fps=2"},
    {"", "--save-calibration", "prompts.safetensors"},
    {"", "--shape", "demo"},
    {"", "--stop", "'끝'"},
    {"", "--svg", "chart.svg"},
    {"", "--sweep", "1,2,4,8"},
    {"", "--system", "'한국어로 답해 주세요.'"},
};

bool is_number(const std::string& text) { return text.find_first_of("0123456789") == 0; }

std::string value_by_kind(const OptionRow& option) {
  if (!option.choices.empty()) return option.choices.back();
  switch (option.kind) {
    case ValueKind::kFile: return option.placeholder == "FILE.png" ? "sheet.png" : "captions.jsonl";
    case ValueKind::kFolder:
    case ValueKind::kModel: return "folder/";
    case ValueKind::kPath: return "references.jsonl";
    case ValueKind::kPreset: return "cpu";
    default: break;
  }
  if (option.placeholder == kSizeType) return "4GiB";
  if (option.placeholder == kTimeType) return "90s";
  return "8";
}

const Example* find_example(const std::string& command, const OptionRow& option) {
  const auto* const found =
      std::find_if(std::begin(kExamples), std::end(kExamples), [&](const Example& example) {
        return example.option == option.long_name() &&
               (example.command.empty() || example.command == command);
      });
  return found == std::end(kExamples) ? nullptr : found;
}

}  // namespace

std::string example_of(const std::string& command, const OptionRow& option) {
  const std::string& default_text = option.default_text;
  const std::string name = option.long_name() + " ";
  if (const Example* const found = find_example(command, option)) {
    return name + found->value + (*found->with == '\0' ? "" : " ") + found->with;
  }
  return name + (is_number(default_text) ? default_text : value_by_kind(option));
}

}  // namespace caption::cli
