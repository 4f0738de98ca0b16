// config/internal/yaml_values.h: a preset's text as a flat list of keys with scalars or lists of scalars.
//
// Built from yaml-cpp's events rather than its nodes: nodes keep duplicate keys without a word and
// follow aliases that contain themselves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caption::config {

struct YamlValue {
  std::string key = {};  // "section.name", or "section" for a scalar where a section could stand
  std::string text = {};
  std::vector<std::string> items = {};  // of a list
  bool is_list = false;
  bool is_quoted = false;  // a string, whatever it looks like
  bool is_null = false;
  int line = 0;  // 1-based
  int column = 0;
  int key_line = 0;
  int key_column = 0;
};

struct YamlSection {
  std::string name;
  int line = 0;
  int column = 0;
};

struct YamlDocument {
  std::vector<YamlSection> sections;  // every section that is a map, empty ones too
  std::vector<YamlValue> values;
};

// Throws Error(kBadPreset) "name:line:column: ..." for broken YAML, more than one document,
// aliases, anchors, tags, duplicate keys, maps below a section, and sequences but for one of scalars
// as the value of a section's key.
YamlDocument read_yaml(std::string_view text, std::string_view name);

[[noreturn]] void throw_at(std::string_view name, int line, int column, const std::string& message);

}  // namespace caption::config
