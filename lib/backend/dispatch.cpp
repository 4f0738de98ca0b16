#include "backend/dispatch.h"

#include <string>

#include "backend/machine.h"
#include "base/error.h"

namespace caption {

void throw_device_unavailable(Device device) {
  throw Error(ErrorCode::kUnavailable, std::string(device_name(device)) + ": this build has no " +
                                           (device == Device::kCuda ? "CUDA" : "such") +
                                           " kernels; run on the device \"cpu\"");
}

}  // namespace caption
