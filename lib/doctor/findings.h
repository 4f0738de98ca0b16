// doctor/findings.h: what was found on a machine, as lines for a reader and as JSON for a program.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace caption::doctor {

enum class State {
  kOk,       // "ok"
  kNote,     // "note": worth knowing; `run` and `eval` work
  kMissing,  // "missing": `run` or `eval` would not work, or not on most films
};
std::string_view state_name(State state);

struct Finding {
  std::string name;  // "memory"
  State state = State::kOk;
  std::string text;    // one sentence without a full stop
  std::string remedy;  // a command or a hint; empty where there is nothing to do
};

std::size_t count_missing(const std::vector<Finding>& findings);

// A line per finding, "state name text", below it its remedy after "->", and a last line that sums
// up.
std::string to_text(const std::vector<Finding>& findings);
// {"works": bool, "findings": [{"name", "state", "text", "remedy"}, ...]} and a line feed; "remedy"
// is left out where it is empty.
std::string to_json(const std::vector<Finding>& findings);

}  // namespace caption::doctor
