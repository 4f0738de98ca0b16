namespace caption::vision::internal {
static constexpr int kRegisterBytes = 16;
}

#include "vision/internal/filter_text.h"

namespace caption::vision::internal {

const FilterLoops& filter_loops_reference() { return kFilterLoops; }

}  // namespace caption::vision::internal
