// kernels/cpu/avxvnni/integer_panels.h: panel8a8 and panel4a8 of the AVX2 tier on CPUs that have
// AVX-VNNI, too. They give the same sums, so that they are no tier of their own.
#pragma once

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

void panel8a8_avxvnni(const IntegerArgs& args);
void panel4a8_avxvnni(const Integer4Args& args);

}  // namespace caption::kernels::cpu
