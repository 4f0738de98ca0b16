// doctor/findings.h: the results of `doctor`, as text for a reader and as JSON for a program.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace caption::doctor {

enum class State {
  kOk,       // "ok"
  kNote,     // "note": `run` and `eval` work; a remark
  kMissing,  // "missing": `run` or `eval` fails, at least on most films
};
std::string_view state_name(State state);

struct Finding {
  std::string name;  // "memory"
  State state = State::kOk;
  std::string text;    // one sentence without a full stop
  std::string remedy;  // a command or a hint; empty where there is nothing to do
};

std::size_t count_missing(const std::vector<Finding>& findings);

// One line "state name text" per finding, below it the remedy after "->" if there is one, and a
// summary as the last line. What a finding quotes of files adds no line (printable()).
std::string to_text(const std::vector<Finding>& findings);
// {"works": bool, "findings": [{"name", "state", "text", "remedy"}, ...]} and a line feed; an empty
// "remedy" is left out.
std::string to_json(const std::vector<Finding>& findings);

}  // namespace caption::doctor
