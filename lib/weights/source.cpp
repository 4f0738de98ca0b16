#include "weights/source.h"

#include "base/error.h"

namespace caption::weights {

QuantisedMatrix Source::read_codes(std::string_view tensor, const Shape& /*shape*/,
                                   std::int64_t /*first*/, std::int64_t /*count*/) const {
  throw Error(ErrorCode::kInternal, name() + ": tensor " + std::string(tensor) + " has no codes");
}

void Source::decode_rows(std::string_view tensor, std::int64_t /*first*/, std::int64_t /*count*/,
                         float* /*to*/) const {
  throw Error(ErrorCode::kInternal,
              name() + ": tensor " + std::string(tensor) + " is not decoded by rows");
}

}  // namespace caption::weights
