// pipeline/internal/record_errors.h: failures of a clip, stored in its record.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "records/record.h"

namespace caption::pipeline {

// Makes the record one of a failed clip, without a caption.
void set_failed(records::Record& record, ErrorCode code, const std::string& message);

// Runs work() and stores an exception in the record as its error. `who` names the clip and the
// operation, and precedes messages that do not begin with the clip's path.
void guard(records::Record& record, const std::string& who, const std::function<void()>& work);

}  // namespace caption::pipeline
