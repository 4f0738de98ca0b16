#include "config/internal/yaml_values.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "config/preset.h"

namespace caption::config {
namespace {

// No preset needs more, and the limit bounds the recursion of yaml-cpp on nested brackets.
constexpr std::size_t kMaxFileBytes = 64u << 10;

class FlatReader final : public YAML::EventHandler {
 public:
  explicit FlatReader(std::string_view name) : name_(name) {}

  YamlDocument take() { return std::move(document_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (has_document_) fail(mark, "a second document; a preset is one");
    has_document_ = true;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    if (is_in_item_) fail(mark, "a key or a value is missing");
    if (is_in_list_) fail(mark, "a list with nothing in a place");
    if (depth_ == 0) return;  // an empty file
    if (expects_key_) fail(mark, "a key is missing");
    add_value(mark, {.text = "", .is_null = true});
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    fail(mark, "aliases are not part of a preset");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    refuse_anchor(mark, anchor);
    // yaml-cpp gives plain scalars the tag "?" and quoted ones "!".
    if (tag != "?" && tag != "!" && !tag.empty()) fail(mark, "tags are not part of a preset");
    if (depth_ == 0) fail(mark, "expected sections with keys, found a single value");
    if (is_in_item_) return add_to_item(mark, text);
    if (is_in_list_) {
      list_.items.push_back(text);
      return;
    }
    if (expects_key_) {
      set_key(mark, text);
    } else {
      add_value(mark, {.text = text, .is_quoted = tag == "!"});
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    refuse_anchor(mark, anchor);
    if (tag != "?" && !tag.empty()) fail(mark, "tags are not part of a preset");
    if (depth_ != 2 || expects_key_ || is_in_list_) {
      fail(mark, "a list; only the key of a section may have one");
    }
    is_in_list_ = true;
    list_ = {.items = {}, .is_list = true};
    list_mark_ = mark;
  }
  void OnSequenceEnd() override {
    is_in_list_ = false;
    add_value(list_mark_, std::move(list_));
  }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    refuse_anchor(mark, anchor);
    if (tag != "?" && !tag.empty()) fail(mark, "tags are not part of a preset");
    if (is_in_list_) return begin_item(mark);
    if (depth_ > 0 && expects_key_) fail(mark, "a map as a key");
    if (depth_ == 2) fail(mark, "a map below a section; a preset has two levels");
    if (depth_ == 1) {
      document_.sections.push_back({key_, key_mark_.line + 1, key_mark_.column + 1});
      section_ = key_;
    }
    ++depth_;
    expects_key_ = true;
  }

  void OnMapEnd() override {
    if (is_in_item_) {
      list_.items.push_back("{" + item_ + "}");
      is_in_item_ = false;
      return;
    }
    --depth_;
    expects_key_ = true;
    if (depth_ == 1) section_.clear();
  }

 private:
  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& message) const {
    throw_at(name_, mark.line + 1, mark.column + 1, message);
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != 0) fail(mark, "anchors are not part of a preset");
  }

  void set_key(const YAML::Mark& mark, const std::string& text) {
    const std::string full = section_.empty() ? text : section_ + "." + text;
    if (!keys_.insert(full).second) fail(mark, "key " + json_quote(full) + " appears twice");
    key_ = text;
    key_mark_ = mark;
    expects_key_ = false;
  }

  // A map of texts in a list becomes the text of a JSON object.
  void begin_item(const YAML::Mark& mark) {
    if (is_in_item_ || section_ + "." + key_ != kExamplesKey) fail(mark, "a map in a list");
    is_in_item_ = true;
    item_.clear();
    item_keys_.clear();
    expects_item_key_ = true;
  }

  void add_to_item(const YAML::Mark& mark, const std::string& text) {
    if (expects_item_key_ && !item_keys_.insert(text).second) {
      fail(mark, "key " + json_quote(text) + " appears twice");
    }
    if (expects_item_key_ && !item_.empty()) item_ += ", ";
    item_ += json_quote(text) + (expects_item_key_ ? ": " : "");
    expects_item_key_ = !expects_item_key_;
  }

  void add_value(const YAML::Mark& mark, YamlValue value) {
    value.key = section_.empty() ? key_ : section_ + "." + key_;
    value.line = mark.line + 1;
    value.column = mark.column + 1;
    value.key_line = key_mark_.line + 1;
    value.key_column = key_mark_.column + 1;
    document_.values.push_back(std::move(value));
    expects_key_ = true;
  }

  std::string_view name_;
  YamlDocument document_;
  std::set<std::string> keys_;
  std::string section_;
  std::string key_;
  YAML::Mark key_mark_;
  int depth_ = 0;
  bool has_document_ = false;
  bool expects_key_ = false;
  bool is_in_list_ = false;
  bool is_in_item_ = false;  // whether the parser is inside a list item that is a map
  bool expects_item_key_ = false;
  std::string item_;
  std::set<std::string> item_keys_;
  YamlValue list_;
  YAML::Mark list_mark_;
};

// What to do about a line, counted from 0, that is not YAML.
std::string advise_on_line(std::string_view text, int line) {
  for (int i = 0; i < line && !text.empty(); ++i) {
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  const std::string_view begin = text.substr(0, text.find_first_not_of(" \t"));
  if (begin.find('\t') != std::string_view::npos) {
    return "the line is indented by a tab, and YAML takes spaces";
  }
  return "a preset has lines of \"section:\" and, below each and indented by spaces, of \"key: "
         "value\", where text with : # { [ & * or quotes stands in quotes";
}

}  // namespace

void throw_at(std::string_view name, int line, int column, const std::string& message) {
  throw Error(ErrorCode::kBadPreset, std::string(name) + ":" + std::to_string(line) + ":" +
                                         std::to_string(column) + ": " + message);
}

YamlDocument read_yaml(std::string_view text, std::string_view name) {
  if (text.size() > kMaxFileBytes) {
    throw_at(name, 1, 1,
             std::to_string(text.size()) + " bytes; a preset has at most " +
                 std::to_string(kMaxFileBytes));
  }
  if (!is_valid_utf8(text) || text.find('\0') != std::string_view::npos) {
    throw_at(name, 1, 1, "not a text in UTF-8");
  }
  FlatReader reader(name);
  // Removes trailing line breaks: yaml-cpp 0.7 takes an unterminated quoted scalar before one as
  // closed.
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(reader)) {
    }
  } catch (const YAML::Exception& error) {
    // yaml-cpp quotes single bytes, which may be parts of a character.
    throw_at(name, error.mark.line + 1, error.mark.column + 1,
             "not valid YAML (" + make_valid_utf8(error.msg) + "); " +
                 advise_on_line(text, error.mark.line));
  }
  return reader.take();
}

}  // namespace caption::config
