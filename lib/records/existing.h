// records/existing.h: what a run does with an output that already holds records.
#pragma once

#include <string>
#include <vector>

#include "records/record.h"

namespace caption::records {

enum class Existing {
  kResume,  // keep every record; RecordFile::find() tells which clips have one
  // Start anew in "<output>.new", which replaces the old file in RecordFile::finish(). An
  // interrupted overwriting run is continued in that file.
  kOverwrite,
};

// Which records are captioned again. The old record is kept until there is a better one: a better
// status, or a longer part of a truncated caption.
struct Retry {
  std::vector<Status> statuses = {};
  // Prefixes of the names of settings ("generation.") that may differ from the file's manifest in a
  // retry. The manifest then records under "retried_with.<settings key>" which statuses were
  // retried and with which settings.
  std::vector<std::string> changeable = {};
};

}  // namespace caption::records
