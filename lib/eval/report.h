// eval/report.h: a Report as people, programs and spreadsheets read it.
#pragma once

#include <string>

#include "eval/evaluate.h"

namespace caption::eval {

// Several lines for a terminal, ending in a newline: scores first, then how they were made, then
// the ids that did not take part.
std::string to_table(const Report& report);

// One JSON object with everything in the table, numbers unrounded, all ids named; ends in a
// newline.
std::string to_json(const Report& report);

// One JSON line per referenced clip: {"video": id, "status": ..., "meteor-ko": 0.5, ...}. A clip
// without a caption has status "failed" or "missing" and the scores of an empty caption.
std::string to_clip_lines(const Report& report);

}  // namespace caption::eval
