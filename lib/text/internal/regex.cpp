#include "text/internal/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>
#include <new>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mend_advice.h"
#include "base/utf8.h"

namespace caption::text {
namespace {

// PCRE2 counts the steps of a match at each position where it may begin. A published pattern takes
// a few. A window of positions is searched with the first limit, which bounds its steps to ten
// million; where a position needs more, a window of one position with the second, which is about a
// second. The time is looked at after each window of the second kind, and after many of the first.
constexpr std::size_t kWindowBytes = 1024;
constexpr std::uint32_t kFewSteps = 10'000;
constexpr std::uint32_t kMaxSteps = 50'000'000;
constexpr std::uint32_t kMaxHeapKib = 256 << 10;
constexpr std::uint32_t kWindowsPerLook = 256;

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

bool is_continuation(char c) { return (static_cast<std::uint8_t>(c) & 0xC0u) == 0x80u; }

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  if (pcre2_get_error_message(code, text.data(), text.size()) < 0) return std::to_string(code);
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct RegexScratch::State {
  std::unique_ptr<pcre2_match_data, FreeMatch> match;
  std::unique_ptr<pcre2_match_context, FreeContext> context;
  std::int64_t end_us = 0;        // thread_cpu_us() at which searches must have ended
  std::uint32_t num_windows = 0;  // windows searched since the time was looked at
};

RegexScratch::RegexScratch(std::int64_t budget_us) : state_(std::make_unique<State>()) {
  state_->end_us = thread_cpu_us() + budget_us;
  state_->match.reset(pcre2_match_data_create(1, nullptr));
  state_->context.reset(pcre2_match_context_create(nullptr));
  if (!state_->match || !state_->context) throw std::bad_alloc();
  pcre2_set_heap_limit(state_->context.get(), kMaxHeapKib);
}

RegexScratch::~RegexScratch() = default;

struct Regex::State {
  std::unique_ptr<pcre2_code, FreeCode> code;
  std::string pattern;       // as the file gives it, quoted for messages
  bool is_compiled = false;  // whether it is compiled to machine code

  // Returns the result of PCRE2 for matches that begin in `window_bytes` bytes from `from` on.
  int match(std::string_view text, std::size_t from, std::size_t window_bytes,
            std::uint32_t max_steps, RegexScratch::State& scratch) const;
};

Regex::Regex(std::string_view pattern, const std::string& where)
    : state_(std::make_unique<State>()) {
  state_->pattern = json_quote_start(pattern, kCitedBytes);
  const std::string translated = translate_regex(pattern, where);
  const std::unique_ptr<pcre2_compile_context, FreeCompileContext> context(
      pcre2_compile_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  state_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()),
                                   translated.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_USE_OFFSET_LIMIT,
                                   &error, &offset, context.get()));
  if (!state_->code) {
    fail_unsupported(where + ": PCRE2 cannot compile the pattern " + state_->pattern + ": " +
                     error_text(error));
  }
  std::uint32_t matches_empty = 0;
  pcre2_pattern_info(state_->code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) {
    fail_unsupported(where + ": the pattern " + state_->pattern +
                     " may match the empty text; this build splits texts "
                     "by patterns that match characters only");
  }
  // Without executable memory the interpreter runs the pattern.
  state_->is_compiled = pcre2_jit_compile(state_->code.get(), PCRE2_JIT_COMPLETE) == 0;
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

int Regex::State::match(std::string_view text, std::size_t from, std::size_t window_bytes,
                        std::uint32_t max_steps, RegexScratch::State& scratch) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  pcre2_match_data* match = scratch.match.get();
  pcre2_match_context* context = scratch.context.get();
  pcre2_set_match_limit(context, max_steps);
  pcre2_set_offset_limit(context, from + window_bytes - 1);
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (is_compiled) {
    result = pcre2_jit_match(code.get(), subject, text.size(), from, 0, match, context);
  }
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter has its memory on the heap
    result = pcre2_match(code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         match, context);
  }
  return result;
}

std::optional<Regex::Match> Regex::find(std::string_view text, std::size_t from,
                                        RegexScratch* scratch) const {
  RegexScratch::State& searches = *scratch->state_;
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorCode::kTooLarge, "the tokenizer's pattern " + state_->pattern +
                                          " takes too long on a text of " +
                                          std::to_string(text.size()) + " bytes: " + why);
  };
  std::size_t window_bytes = kWindowBytes;
  while (from < text.size()) {
    const bool is_slow = window_bytes < kWindowBytes;
    const int result =
        state_->match(text, from, window_bytes, is_slow ? kMaxSteps : kFewSteps, searches);
    if (is_slow || ++searches.num_windows == kWindowsPerLook) {
      searches.num_windows = 0;
      if (thread_cpu_us() > searches.end_us) fail("its searches have used up their time");
    }
    if (result == PCRE2_ERROR_MATCHLIMIT && !is_slow) {
      window_bytes = utf8_length(text[from]);
    } else if (result == PCRE2_ERROR_NOMATCH) {
      from += window_bytes;
      window_bytes = kWindowBytes;
      while (from < text.size() && is_continuation(text[from])) ++from;
    } else if (result == PCRE2_ERROR_NOMEMORY) {
      throw std::bad_alloc();
    } else if (result < 0) {
      fail(error_text(result));
    } else {
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(searches.match.get());
      return Match{.begin = bounds[0], .end = bounds[1]};
    }
  }
  return std::nullopt;
}

}  // namespace caption::text
