// config/download_advice.h: what a model that is not here would need, and how to get it.
#pragma once

#include <string>

#include "base/error.h"

namespace caption::config {

struct DownloadAdvice {
  // kUnavailable where the name says that this build would not run the model; else kBadModel, as
  // for any model whose files are missing.
  ErrorCode code = ErrorCode::kBadModel;
  // The end of an error message. For a known model it has the sizes of its download and of its
  // weights in memory, whether they fit in this machine, the preset that is made for it, and the
  // command that gets it; for an unknown one the nearest known names.
  std::string text;
};

// `hub_name` is "organisation/model".
DownloadAdvice advise_download(const std::string& hub_name);

// "; the nearest known names are ..." with at most three names of known models on the hub; empty
// when none is near.
std::string nearest_hub_names(const std::string& name);

}  // namespace caption::config
