// model/internal/module_pattern.h: the keys of PEFT's rank_pattern and alpha_pattern.
#pragma once

#include <optional>
#include <string_view>

namespace caption::model {

// Whether Python's re.match("(.*\.)?(PATTERN)$", module) finds a match: the pattern matches the
// module's whole name, or what follows one of its dots. Supported are characters, `.`, escapes of
// punctuation, \d, sets as [0-9a], the quantifiers * + ?, a leading ^ and a trailing $. Returns
// std::nullopt for a pattern with anything else. Takes time proportional to the product of the two
// lengths.
std::optional<bool> matches_module(std::string_view pattern, std::string_view module);

}  // namespace caption::model
