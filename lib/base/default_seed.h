// base/default_seed.h: the seed of everything random that has an option for it.
#pragma once

namespace caption {

inline constexpr int kDefaultSeed = 20;

}  // namespace caption
