// pipeline/internal/record_errors.h: failures of a clip, stored in its record.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "records/record.h"

namespace caption::pipeline {

// Makes the record one of a failed clip, without a caption.
void set_failed(records::Record& record, ErrorCode code, const std::string& message);

// Runs work() and stores an exception in the record as its error. Messages that do not begin with
// the clip's path get it and `operation` ("reading it") in front.
void guard(records::Record& record, const std::string& operation,
           const std::function<void()>& work);

}  // namespace caption::pipeline
