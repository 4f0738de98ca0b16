// config/internal/yaml_values.h: reads a preset's text as a flat list of keys with scalars or lists
// of scalars.
//
// Uses yaml-cpp's events instead of its nodes, which accept duplicate keys silently and follow
// aliases that contain themselves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caption::config {

struct YamlValue {
  std::string key = {};  // "section.name", or "section" for a scalar in the place of a section
  std::string text = {};
  // Elements of a list; those of generation.examples may be maps of texts, as JSON objects.
  std::vector<std::string> items = {};
  bool is_list = false;
  bool is_quoted = false;  // a string, even if it looks like a number
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
  std::vector<YamlSection> sections;  // every section that is a map, including empty ones
  std::vector<YamlValue> values;
};

// Throws Error(kBadPreset) "name:line:column: ..." for broken YAML, more than one document,
// aliases, anchors, tags, duplicate keys, maps below a section, and sequences other than one of
// scalars as the value of a section's key, or of maps of scalars as that of generation.examples.
YamlDocument read_yaml(std::string_view text, std::string_view name);

[[noreturn]] void throw_at(std::string_view name, int line, int column, const std::string& message);

}  // namespace caption::config
