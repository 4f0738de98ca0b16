// bench/internal/resources_json.h: the text of kernels/cuda/resources.json; made by CMake.
#pragma once

#include <string_view>

namespace caption::bench {

std::string_view resources_json();

}  // namespace caption::bench
