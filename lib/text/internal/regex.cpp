#include "text/internal/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <new>

#include "base/error.h"
#include "base/json.h"

namespace caption::text {
namespace {

// A search of a published pattern takes a few steps per byte. The limits count backtracking: a
// match that needs more is refused, which bounds its time at one position to about a second.
constexpr std::uint32_t kMaxSteps = 50'000'000;
constexpr std::uint32_t kMaxHeapKib = 256 << 10;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeCompileContext {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  if (pcre2_get_error_message(code, text.data(), text.size()) < 0) return std::to_string(code);
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct RegexScratch::State {
  std::unique_ptr<pcre2_match_data, FreeMatch> match;
  std::unique_ptr<pcre2_match_context, FreeContext> context;
};

RegexScratch::RegexScratch() : state_(std::make_unique<State>()) {
  state_->match.reset(pcre2_match_data_create(1, nullptr));
  state_->context.reset(pcre2_match_context_create(nullptr));
  if (!state_->match || !state_->context) throw std::bad_alloc();
  pcre2_set_match_limit(state_->context.get(), kMaxSteps);
  pcre2_set_heap_limit(state_->context.get(), kMaxHeapKib);
}

RegexScratch::~RegexScratch() = default;

struct Regex::State {
  std::unique_ptr<pcre2_code, FreeCode> code;
  std::string pattern;       // as the file gives it, quoted
  bool is_compiled = false;  // to machine code
};

Regex::Regex(std::string_view pattern, const std::string& where)
    : state_(std::make_unique<State>()) {
  state_->pattern = json_quote(pattern);
  const std::string translated = translate_regex(pattern, where);
  const std::unique_ptr<pcre2_compile_context, FreeCompileContext> context(
      pcre2_compile_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  state_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()),
                                   translated.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
                                   &error, &offset, context.get()));
  if (!state_->code) {
    throw Error(ErrorCode::kUnavailable, where + ": PCRE2 cannot compile the pattern " +
                                             state_->pattern + ": " + error_text(error));
  }
  std::uint32_t matches_empty = 0;
  pcre2_pattern_info(state_->code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) {
    throw Error(ErrorCode::kUnavailable, where + ": the pattern " + state_->pattern +
                                             " may match the empty text; this build splits texts "
                                             "by patterns that match characters only");
  }
  // Without executable memory the interpreter runs the pattern.
  state_->is_compiled = pcre2_jit_compile(state_->code.get(), PCRE2_JIT_COMPLETE) == 0;
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

std::optional<Regex::Match> Regex::find(std::string_view text, std::size_t from,
                                        RegexScratch* scratch) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  pcre2_match_data* match = scratch->state_->match.get();
  pcre2_match_context* context = scratch->state_->context.get();
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (state_->is_compiled) {
    result = pcre2_jit_match(state_->code.get(), subject, text.size(), from, 0, match, context);
  }
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter has its memory on the heap
    result = pcre2_match(state_->code.get(), subject, text.size(), from,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, context);
  }
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
  if (result < 0) {
    throw Error(ErrorCode::kTooLarge,
                "the tokenizer's pattern " + state_->pattern + " takes too long on a text of " +
                    std::to_string(text.size()) + " bytes: " + error_text(result));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match);
  return Match{.begin = bounds[0], .end = bounds[1]};
}

}  // namespace caption::text
