#include "base/counted.h"

namespace caption {

std::string counted(const std::string& number, std::string_view one, std::string_view several) {
  std::string out = number + " ";
  if (number != "1" && !several.empty()) return out.append(several);
  out.append(one);
  return number == "1" ? out : out + "s";
}

std::string counted(std::int64_t count, std::string_view one, std::string_view several) {
  return counted(std::to_string(count), one, several);
}

std::string_view plural(std::int64_t count, std::string_view one, std::string_view several) {
  return count == 1 ? one : several;
}

}  // namespace caption
