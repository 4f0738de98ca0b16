#include "config/preset_check.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/figures.h"
#include "base/join.h"
#include "base/units.h"
#include "config/choices.h"
#include "config/internal/yaml_values.h"
#include "config/load_preset.h"
#include "config/plan_input.h"
#include "config/resolve.h"
#include "config/run_planner.h"
#include "config/weight_choice.h"
#include "plan/cards.h"
#include "plan/known_models.h"

namespace caption::config {
namespace {

constexpr std::string_view kPlanMark = "# Plan for ";

// A line "#   NAME  FIGURE  ..." of the comment.
struct WrittenFigure {
  int line = 0;  // 1-based
  std::string_view name;
  std::string_view text;
};

struct PlanComment {
  int line = 0;  // 0: there is none
  std::string_view card;
  std::vector<WrittenFigure> figures;
};

// Returns the text up to two spaces, and removes it with the spaces that follow.
std::string_view take_column(std::string_view& text) {
  const std::string_view column = text.substr(0, text.find("  "));
  text.remove_prefix(column.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return column;
}

PlanComment read_comment(std::string_view text) {
  constexpr std::string_view kFigureBegin = "#  ";
  PlanComment comment;
  for (int line = 1; !text.empty(); ++line) {
    std::string_view row = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(row.size() + 1, text.size()));
    if (comment.line == 0) {
      if (!row.starts_with(kPlanMark)) continue;
      comment.line = line;
      row.remove_prefix(kPlanMark.size());
      comment.card = row.substr(0, row.find_first_of(" ,:."));
    } else if (row.starts_with(kFigureBegin)) {
      row.remove_prefix(kFigureBegin.size());
      row.remove_prefix(std::min(row.find_first_not_of(' '), row.size()));
      const std::string_view name = take_column(row);
      comment.figures.push_back({.line = line, .name = name, .text = take_column(row)});
    } else {
      break;
    }
  }
  return comment;
}

constexpr std::string_view kBytes = "B";

// A figure of a plan, called as in its report.
struct Figure {
  std::string_view name;
  std::string_view unit;  // kBytes: any unit of sizes
  double (*of)(const plan::Plan&);
};

template <auto kMember>
double value_of(const plan::Plan& plan) {
  return static_cast<double>(plan.*kMember);
}

using plan::Plan;
constexpr std::array kFigures = {
    Figure{"may be used", kBytes, value_of<&Plan::usable_bytes>},
    Figure{"weights", kBytes, value_of<&Plan::weight_bytes>},
    Figure{"draft model", kBytes, value_of<&Plan::draft_weight_bytes>},
    Figure{"KV per token", kBytes, value_of<&Plan::token_bytes>},
    Figure{"activations", kBytes, value_of<&Plan::scratch_bytes>},
    Figure{"vision activations", kBytes, value_of<&Plan::vision_bytes>},
    Figure{"KV pages", kBytes, value_of<&Plan::pool_bytes>},
    Figure{"together", kBytes, value_of<&Plan::total_bytes>},
    Figure{"tokens", "", value_of<&Plan::video_tokens>},
    Figure{"pages", "", value_of<&Plan::pages_per_video>},
    Figure{"at a time", "", value_of<&Plan::num_concurrent>},
    Figure{"prefill", "tok/s", value_of<&Plan::prefill_tokens_per_s>},
    Figure{"decode", "tok/s", value_of<&Plan::decode_tokens_per_s>},
    Figure{"videos", "/s", value_of<&Plan::videos_per_s>}};

std::string figure_text(const Figure& figure, double value) {
  if (figure.unit == kBytes) return format_bytes(static_cast<std::int64_t>(value));
  const std::string number = format_number(value);
  return figure.unit.empty() ? number : number + " " + std::string(figure.unit);
}

// A number as it is written, with half of its last digit.
struct Rounded {
  double value = 0;
  double half_digit = 0;
};

std::optional<Rounded> parse_figure(std::string_view text, std::string_view unit) {
  Rounded number;
  const char* const end = text.data() + text.size();
  const auto [rest, error] =
      std::from_chars(text.data(), end, number.value, std::chars_format::fixed);
  if (error != std::errc() || number.value < 0) return std::nullopt;
  const std::string_view digits = text.substr(0, static_cast<std::size_t>(rest - text.data()));
  const std::size_t point = digits.find('.');
  const std::size_t num_decimals = point == std::string_view::npos ? 0 : digits.size() - point - 1;
  number.half_digit = 0.5 * std::pow(10, -static_cast<double>(num_decimals));
  std::string_view written = text.substr(digits.size());
  if (written.starts_with(' ')) written.remove_prefix(1);
  if (unit != kBytes) {
    return written == unit ? std::optional<Rounded>(number) : std::nullopt;
  }
  const std::optional<std::int64_t> scale = parse_bytes("1" + std::string(written));
  if (!scale.has_value() || written.empty()) return std::nullopt;
  number.value *= static_cast<double>(*scale);
  number.half_digit *= static_cast<double>(*scale);
  return number;
}

// Returns what is wrong with a figure; std::nullopt if nothing is.
std::optional<std::string> find_fault(const WrittenFigure& written, const plan::Plan& plan) {
  const std::string name(written.name);
  const auto* const figure =
      std::find_if(kFigures.begin(), kFigures.end(),
                   [&](const Figure& known) { return known.name == written.name; });
  if (figure == kFigures.end()) {
    std::vector<std::string_view> names;
    for (const Figure& known : kFigures) names.push_back(known.name);
    return "\"" + name + "\" is no figure of a plan; there are " + join(names);
  }
  const double planned = figure->of(plan);
  const std::optional<Rounded> number = parse_figure(written.text, figure->unit);
  // What doubles lose is far below half a digit of what a person writes.
  const double slack = 1e-9 * planned;
  const bool is_right =
      number.has_value() && std::abs(planned - number->value) <= number->half_digit + slack;
  if (is_right) return std::nullopt;
  return name + ": the comment says \"" + std::string(written.text) + "\", the plan " +
         figure_text(*figure, planned);
}

// The blueprint of a known model needs no files, so that the result is the same on any machine.
PresetBlueprint find_shape(const LoadedPreset& loaded) {
  const ModelSection& section = loaded.preset.model;
  if (!section.is_composed) {
    if (auto known = plan::find_known_model(section.path)) {
      return {.blueprint = *std::move(known), .note = "known by its name"};
    }
  }
  return find_preset_blueprint(section, loaded.locations);
}

plan::Plan make_plan_of(const LoadedPreset& loaded, const Machine& machine,
                        const std::string& card) {
  PresetBlueprint found = find_shape(loaded);
  apply_max_pixels(loaded.preset.video, found.blueprint);
  if (!found.blueprint.text.has_value()) {
    throw Error(ErrorCode::kBadModel, found.blueprint.name + ": has no decoder to plan for");
  }
  PlanAssumptions assumed;
  assumed.card = card;
  if (card.empty()) {
    // The CPU's memory is checked, and not its speed, which would have to be measured.
    assumed.bytes_per_s = 1;
    assumed.flops_per_s = 1;
  }
  RunPlanner planner(
      {.context = {}, .machine = machine, .loaded = loaded, .found = std::move(found)},
      std::move(assumed));
  const WeightFormat weights = loaded.preset.quantization.weights;
  if (weights == WeightFormat::kAuto) return compare_formats(planner, {}).planned().plan;
  plan::PlanInput input = planner.input(weights);
  limit_frames(loaded.preset, input);
  return plan::make_plan(input);
}

// Whether the preset's text gives a value to any option.
bool has_keys(std::string_view text, std::string_view name) {
  const YamlDocument document = read_yaml(text, name);
  return std::any_of(document.values.begin(), document.values.end(),
                     [](const YamlValue& value) { return !value.is_null; });
}

// Options that cannot be met whatever the memory.
std::vector<std::string> find_wrong_options(const Preset& preset) {
  std::vector<std::string> wrong;
  for (const std::string& feature : missing_features(preset, true)) {
    wrong.push_back("asks for " + feature + ", which this version does not have");
  }
  try {
    require_consistent(preset);
  } catch (const Error& error) {
    wrong.emplace_back(error.what());
  }
  return wrong;
}

// The card to plan for; empty: none, or an unknown one, which `wrong` gets.
std::string card_of(const Preset& preset, const PlanComment& comment,
                    std::vector<std::string>& wrong) {
  const bool is_for_card = preset.device.type == DeviceType::kCuda;
  const bool has_own_card = is_for_card && plan::find_card(preset.name).has_value();
  if (comment.line == 0) {
    if (is_for_card) {
      wrong.push_back("is for a card, and no comment \"" + std::string(kPlanMark) +
                      "CARD\" has figures of its plan; CARD may be " + join(plan::card_names()));
    }
    return has_own_card ? preset.name : "";
  }
  std::string card(comment.card);
  if (!is_for_card) {
    wrong.push_back("has a plan for " + card + ", and runs on the CPU");
    return {};
  }
  if (!plan::find_card(card).has_value()) {
    wrong.push_back("no card is known as \"" + card + "\"; there are " + join(plan::card_names()));
    return has_own_card ? preset.name : "";
  }
  if (has_own_card && plan::find_card(preset.name)->name != plan::find_card(card)->name) {
    wrong.push_back("is named after a card, and its plan is for " + card);
  }
  return card;
}

}  // namespace

PresetCheck check_preset(std::string_view name_or_path, const Locations& locations,
                         const Machine& machine) {
  const LoadedPreset loaded = load_preset(name_or_path, locations, machine, true);
  const Preset& preset = loaded.preset;
  PresetCheck check{.name = preset.name, .subject = {}};
  if (!loaded.note.empty()) {
    check.name = std::filesystem::path(name_or_path).stem().string();
    check.subject = "takes " + preset.name + " on this machine";
    return check;
  }
  const std::string path = loaded.path.string();
  const PlanComment comment = read_comment(loaded.text);
  std::vector<std::string> wrong = find_wrong_options(preset);
  if (!has_keys(loaded.text, path)) {
    wrong.emplace_back(
        "has no keys, so that a run with it has the defaults of every option; `caption-cli presets "
        "--show cpu` prints a file to start from");
  }
  const std::string card = card_of(preset, comment, wrong);
  const bool is_planned = !card.empty() || preset.device.type != DeviceType::kCuda;
  std::optional<plan::Plan> plan;
  if (is_planned) {
    plan = make_plan_of(loaded, machine, card);
    wrong.insert(wrong.end(), plan->warnings.begin(), plan->warnings.end());
    if (auto obstacle = find_format_obstacle(plan->input)) wrong.push_back(*std::move(obstacle));
    check.subject =
        plan->input.device_name + ", " + counted(plan->num_concurrent, "video") + " at a time";
  }
  for (const std::string& one : wrong) check.contradictions.push_back(path + ": " + one);
  if (!plan.has_value()) return check;
  for (const WrittenFigure& figure : comment.figures) {
    if (const auto fault = find_fault(figure, *plan)) {
      check.contradictions.push_back(path + ":" + std::to_string(figure.line) + ": " + *fault);
    }
  }
  return check;
}

}  // namespace caption::config
