// base/mend_advice.h: the general advice at the end of an error message about a model's file that
// is damaged, or that this build cannot run, where no more specific remedy is known.
#pragma once

#include <string>

#include "base/error.h"

namespace caption {

inline constexpr const char* kDownloadOrMend = "download the file again, or mend it";
// The advice for GGUF files.
inline constexpr const char* kConvertAgain = "download the file again, or convert the model again";
inline constexpr const char* kRunAnother = "run another model";

// Returns "; " and kDownloadOrMend for kBadModel, and an empty text for any other code.
inline std::string mend_advice(ErrorCode code) {
  return code == ErrorCode::kBadModel ? std::string("; ") + kDownloadOrMend : "";
}

// Throws Error(kBadModel) with `what` and kDownloadOrMend.
[[noreturn]] inline void fail_bad_file(const std::string& what) {
  throw Error(ErrorCode::kBadModel, what + mend_advice(ErrorCode::kBadModel));
}

// Throws Error(kUnavailable) with `what` and kRunAnother.
[[noreturn]] inline void fail_unsupported(const std::string& what) {
  throw Error(ErrorCode::kUnavailable, what + "; " + kRunAnother);
}

}  // namespace caption
