// model/internal/families.h: the list of the families of captioners.
#pragma once

#include <string_view>

namespace caption::model {

struct Family;

// Returns nullptr when this build has no family with this model_type.
const Family* find_family(std::string_view model_type);

}  // namespace caption::model
