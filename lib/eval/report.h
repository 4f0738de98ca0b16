// eval/report.h: formats a Report as a table, as JSON and as one line per clip.
#pragma once

#include <string>

#include "eval/evaluate.h"

namespace caption::eval {

// Several lines for a terminal, ending in a newline: scores first, then the settings, then the ids
// that were not scored.
std::string to_table(const Report& report);

// One JSON object with the content of the table, but with unrounded numbers and all ids; ends in a
// newline.
std::string to_json(const Report& report);

// One JSON line per referenced clip: {"video": id, "status": ..., "meteor-ko": 0.5, ...}. A clip
// without a caption has status "failed" or "missing" and the scores of an empty caption.
std::string to_clip_lines(const Report& report);

}  // namespace caption::eval
