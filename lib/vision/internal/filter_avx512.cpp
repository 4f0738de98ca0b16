namespace caption::vision::internal {
static constexpr int kRegisterBytes = 64;
}

#include "vision/internal/filter_text.h"

namespace caption::vision::internal {

const FilterLoops& filter_loops_avx512() { return kFilterLoops; }

}  // namespace caption::vision::internal
