#include "doctor/findings.h"

#include <algorithm>

#include "base/display_width.h"
#include "base/json_writer.h"

namespace caption::doctor {
namespace {

constexpr std::size_t kStateWidth = 9;
constexpr std::size_t kNameWidth = 14;

std::string padded(std::string_view text, std::size_t width) {
  return std::string(text) + std::string(text.size() < width ? width - text.size() : 1, ' ');
}

std::string summary(std::size_t num_missing) {
  if (num_missing == 0) return "run and eval work here.";
  if (num_missing == 1) return "1 thing that run or eval needs is missing.";
  return std::to_string(num_missing) + " things that run or eval needs are missing.";
}

}  // namespace

std::string_view state_name(State state) {
  switch (state) {
    case State::kOk: return "ok";
    case State::kNote: return "note";
    case State::kMissing: return "missing";
  }
  return "?";
}

std::size_t count_missing(const std::vector<Finding>& findings) {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [](const Finding& finding) { return finding.state == State::kMissing; }));
}

std::string to_text(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& finding : findings) {
    out += padded(state_name(finding.state), kStateWidth) + padded(finding.name, kNameWidth) +
           printable(finding.text) + "\n";
    if (!finding.remedy.empty()) {
      out += std::string(kStateWidth + kNameWidth, ' ') + "-> " + printable(finding.remedy) + "\n";
    }
  }
  return out + "\n" + summary(count_missing(findings)) + "\n";
}

std::string to_json(const std::vector<Finding>& findings) {
  JsonWriter json;
  json.begin_object().add("works", count_missing(findings) == 0).begin_list("findings");
  for (const Finding& finding : findings) {
    json.begin_object().add("name", finding.name).add("state", state_name(finding.state));
    json.add("text", finding.text);
    if (!finding.remedy.empty()) json.add("remedy", finding.remedy);
    json.end_object();
  }
  return json.end_list().end_object().text() + "\n";
}

}  // namespace caption::doctor
