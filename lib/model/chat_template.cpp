#include "model/internal/chat_template.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/open_file.h"

namespace caption::model {
namespace {

constexpr char kOther = '\x1F';  // text that is not known, in TemplateOutput
constexpr std::string_view kSpace = " \t\r\n";

bool is_word_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Reads the string literal that begins at `at` with a quote, and moves `at` behind it.
std::string read_literal(std::string_view code, std::size_t& at) {
  const char quote = code[at++];
  std::string text;
  for (; at < code.size() && code[at] != quote; ++at) {
    if (code[at] != '\\' || at + 1 == code.size()) {
      text += code[at];
      continue;
    }
    const char escaped = code[++at];
    switch (escaped) {
      case 'n': text += '\n'; break;
      case 't': text += '\t'; break;
      case 'r': text += '\r'; break;
      case '\\':
      case '\'':
      case '"': text += escaped; break;
      default: text.append("\\") += escaped;
    }
  }
  at = std::min(at + 1, code.size());
  return text;
}

// What an expression writes: the literals that it joins with + or ~, and kOther for the rest.
// Literals in calls and subscripts are not written.
std::string expression_output(std::string_view code) {
  std::string text;
  std::vector<bool> is_group;  // for each open bracket
  std::size_t num_calls = 0;   // open brackets of calls and subscripts
  const auto is_written = [&] { return num_calls == 0; };
  const auto add_other = [&] {
    if (is_written() && (text.empty() || text.back() != kOther)) text += kOther;
  };
  bool follows_value = false;  // a bracket here is a call or a subscript
  for (std::size_t at = 0; at < code.size();) {
    const char c = code[at];
    if (c == '\'' || c == '"') {
      const std::string literal = read_literal(code, at);
      if (is_written()) text += literal;
      follows_value = true;
    } else if (is_word_char(c)) {
      const std::size_t begin = at;
      while (at < code.size() && is_word_char(code[at])) ++at;
      const std::string_view name = code.substr(begin, at - begin);
      add_other();
      if (is_written() && (name == "bos_token" || name == "eos_token")) {
        text.append("<").append(name) += '>';
      }
      follows_value = true;
    } else {
      ++at;
      if (c == '(' || c == '[' || c == '{') {
        is_group.push_back(c == '(' && !follows_value);
        if (!is_group.back()) ++num_calls;
      } else if ((c == ')' || c == ']' || c == '}') && !is_group.empty()) {
        if (!is_group.back()) --num_calls;
        is_group.pop_back();
      }
      if (kSpace.find(c) == std::string_view::npos) follows_value = c == ')' || c == ']';
    }
  }
  return text;
}

// Whether code contains a word, such as "tool" in "message.tool_calls".
bool mentions(std::string_view code, std::string_view word) {
  return code.find(word) != std::string_view::npos;
}

// Walks through a program and collects its output.
class OutputReader {
 public:
  explicit OutputReader(std::string_view program) : program_(program) {
    if (program_.ends_with('\n')) program_.remove_suffix(1);
  }

  TemplateOutput read() {
    while (at_ < program_.size()) {
      const std::size_t tag = find_tag();
      write_raw(tag);
      if (tag == std::string_view::npos) break;
      read_tag(tag);
    }
    return output_;
  }

 private:
  std::size_t find_tag() const {
    constexpr std::string_view kSecond = "{%#";
    for (std::size_t at = program_.find('{', at_); at < program_.size();
         at = program_.find('{', at + 1)) {
      const bool is_tag =
          at + 1 < program_.size() && kSecond.find(program_[at + 1]) < kSecond.size();
      if (is_tag) return at;
    }
    return std::string_view::npos;
  }

  // Writes the raw text up to a tag, without the white space that the tags around it remove.
  void write_raw(std::size_t tag) {
    std::string_view raw = program_.substr(at_, tag - at_);
    if (strips_next_) raw.remove_prefix(std::min(raw.find_first_not_of(kSpace), raw.size()));
    if (trims_newline_ && raw.starts_with('\n')) raw.remove_prefix(1);
    if (tag != std::string_view::npos && tag + 2 < program_.size()) {
      if (program_[tag + 2] == '-') {
        raw = raw.substr(0, raw.find_last_not_of(kSpace) + 1);
      } else if (program_[tag + 1] != '{') {
        const std::size_t last = raw.find_last_not_of(" \t");
        const bool is_alone = last != std::string_view::npos && raw[last] == '\n';
        if (is_alone) raw = raw.substr(0, last + 1);
      }
    }
    write(raw);
  }

  void read_tag(std::size_t tag) {
    const char kind = program_[tag + 1];
    const std::string closing = {kind == '{' ? '}' : kind, '}'};
    std::size_t end = tag + 2;
    while (end < program_.size() && !program_.substr(end).starts_with(closing)) {
      const bool is_text = kind != '#' && (program_[end] == '\'' || program_[end] == '"');
      if (is_text) {
        read_literal(program_, end);
      } else {
        ++end;
      }
    }
    std::string_view code = program_.substr(tag + 2, end - tag - 2);
    strips_next_ = code.ends_with('-');
    trims_newline_ = kind != '{';
    at_ = std::min(end + 2, program_.size());
    if (code.starts_with('-')) code.remove_prefix(1);
    if (code.ends_with('-')) code.remove_suffix(1);
    if (kind == '{') write(expression_output(code));
    if (kind == '%') run_statement(code);
  }

  void run_statement(std::string_view code) {
    code.remove_prefix(std::min(code.find_first_not_of(kSpace), code.size()));
    const std::string_view verb = code.substr(0, code.find_first_of(" \t\r\n("));
    const bool is_about_tools = mentions(code, "tool");
    const bool ends_branch =
        verb == "elif" || verb == "else" || verb == "endif" || verb == "endfor";
    if (ends_branch && about_tools_.empty()) return;
    if (ends_branch) {
      num_about_tools_ -= about_tools_.back() ? 1 : 0;
      about_tools_.pop_back();
    }
    if (verb == "if" || verb == "for" || verb == "elif" || verb == "else") {
      about_tools_.push_back(is_about_tools);
      num_about_tools_ += is_about_tools ? 1 : 0;
    } else if (verb == "set") {
      const std::size_t sign = code.find('=');
      if (sign == std::string_view::npos) return;
      write(std::string(1, kOther) + expression_output(code.substr(sign + 1)) + kOther);
    }
  }

  void write(std::string_view text) {
    output_.all += text;
    if (num_about_tools_ == 0) output_.without_tools += text;
  }

  std::string_view program_;
  std::size_t at_ = 0;
  bool strips_next_ = false;       // the last tag ended with "-"
  bool trims_newline_ = false;     // the last tag was a statement or a comment
  std::vector<bool> about_tools_;  // for each open if and for
  std::size_t num_about_tools_ = 0;
  TemplateOutput output_;
};

// Finds where marks such as "<...>" end. Each part of the text is looked at once, however many
// marks begin in it.
class MarkEnds {
 public:
  MarkEnds(std::string_view text, char closing)
      : text_(text), stops_{' ', '\n', kOther, closing}, closing_(closing) {}

  // The place behind the mark that begins at `at`, or `at` if a space comes before its end; `at`
  // rises from call to call.
  std::size_t find(std::size_t at) {
    if (stop_ <= at) stop_ = std::min(text_.find_first_of(stops_, at), text_.size());
    return stop_ < text_.size() && text_[stop_] == closing_ ? stop_ + 1 : at;
  }

 private:
  std::string_view text_;
  std::string stops_;
  char closing_;
  std::size_t stop_ = 0;  // the first of `stops_` after the last `at`, or the text's size
};

// The words of a text: "<...>" and "[...]" without spaces, and runs of letters and digits.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  MarkEnds angles(text, '>');
  MarkEnds squares(text, ']');
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    if (text[at] == '<') end = angles.find(at);
    if (text[at] == '[') end = squares.find(at);
    while (end == at && end < text.size() && is_word_char(text[end])) {
      end = at + 1;
      while (end < text.size() && is_word_char(text[end])) ++end;
    }
    if (end == at) {
      ++at;
      continue;
    }
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

// Words of templates that matter to images and roles only.
constexpr std::array kHarmlessWords = {
    "system",         "user",          "assistant",     "USER",          "ASSISTANT",
    "<image>",        "<IMG_CONTEXT>", "<|image_pad|>", "<|video_pad|>", "<|vision_start|>",
    "<|vision_end|>", "Picture",       "Video"};

std::vector<std::string> literals_of(const ChatFormat& format, std::string_view video_literal) {
  std::vector<std::string> literals = format.literals;
  literals.emplace_back(video_literal);
  if (!format.default_system.empty()) literals.push_back(format.default_system);
  return literals;
}

std::string whole(const PromptFrame& frame, std::string_view words) {
  return frame.head + frame.glue_before + std::string(words) + frame.glue_after + frame.tail;
}

}  // namespace

TemplateOutput find_output(std::string_view program) { return OutputReader(program).read(); }

std::string find_difference(std::string_view program, const ChatFormat& format,
                            std::string_view video_literal) {
  const TemplateOutput output = find_output(program);
  std::set<std::string> known(kHarmlessWords.begin(), kHarmlessWords.end());
  for (const std::string& literal : literals_of(format, video_literal)) {
    if (output.all.find(literal) == std::string::npos) return "it lacks " + json_quote(literal);
    for (std::string& word : words_of(literal)) known.insert(std::move(word));
  }
  for (std::string& word : words_of(whole(format.assistant, ""))) known.insert(std::move(word));
  for (const std::string& word : words_of(output.without_tools)) {
    if (!known.contains(word)) return "it writes " + json_quote_start(word);
  }
  return {};
}

ChatTemplate read_chat_template(const ModelFolder& folder, std::string_view video_token) {
  const std::filesystem::path jinja = folder.path() / "chat_template.jinja";
  if (is_present(jinja)) return {.text = read_model_file(jinja), .file = jinja};
  if (folder.is_gguf()) {
    const std::string text = folder.gguf_template();
    if (!mentions(text, video_token)) return {};
    return {.text = text, .file = folder.gguf_text()->path()};
  }
  for (const std::string_view name :
       {"chat_template.json", "processor_config.json", "tokenizer_config.json"}) {
    const std::optional<JsonObject> config = folder.find_json(name);
    if (!config) continue;
    const auto text = config->find_string_at("chat_template");
    if (!text || (name == "tokenizer_config.json" && !mentions(*text, video_token))) continue;
    return {.text = *text, .file = folder.path() / name};
  }
  return {};
}

void warn_of_other_template(const ChatTemplate& chat_template, const ChatFormat& format,
                            std::string_view video_literal) {
  if (chat_template.text.empty()) return;
  const std::string difference = find_difference(chat_template.text, format, video_literal);
  if (difference.empty()) return;
  PromptFrame question = format.user;
  question.head += video_literal;
  std::string rendered = whole(question, "PROMPT") + whole(format.generation, "");
  if (!format.default_system.empty()) {
    rendered.insert(0, whole(format.system, format.default_system));
  }
  log_warning("model", chat_template.file.string() +
                           ": this chat template is not run, and it differs from the text that is "
                           "rendered for this family of models (" +
                           difference + "); prompts are " + json_quote(rendered));
}

}  // namespace caption::model
