#include "text/library_versions.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <array>
#include <string>

namespace caption::text {

std::string library_versions() {
  std::array<char, 64> pcre2{};  // such as "10.42 2022-12-11"
  pcre2_config(PCRE2_CONFIG_VERSION, pcre2.data());
  const std::string version = pcre2.data();
  return "pcre2 " + version.substr(0, version.find(' ')) + ", utf8proc " + utf8proc_version();
}

}  // namespace caption::text
