#include "eval/korean_stemmer.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <hunspell.hxx>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <unordered_map>

#include "base/error.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "eval/internal/unicode.h"

namespace caption::eval {
namespace {

// The condition on the syllable before a particle.
enum class Before {
  kAny,
  kConsonant,     // it has a final consonant
  kVowel,         // it has none
  kVowelOrRieul,  // it has none, or ㄹ
};

struct Particle {
  std::u32string_view text;
  Before before;
};

constexpr Before kAny = Before::kAny, kC = Before::kConsonant, kV = Before::kVowel,
                 kL = Before::kVowelOrRieul;
constexpr std::array kParticles = std::to_array<Particle>(
    {{U"은", kC},       {U"는", kV},       {U"이", kC},         {U"가", kV},
     {U"을", kC},       {U"를", kV},       {U"과", kC},         {U"와", kV},
     {U"의", kAny},     {U"에", kAny},     {U"로", kL},         {U"으로", kC},
     {U"도", kAny},     {U"만", kAny},     {U"나", kV},         {U"이나", kC},
     {U"며", kV},       {U"이며", kC},     {U"랑", kV},         {U"이랑", kC},
     {U"여", kC},       {U"야", kV},       {U"에서", kAny},     {U"에게", kAny},
     {U"에는", kAny},   {U"에도", kAny},   {U"에만", kAny},     {U"에의", kAny},
     {U"으로는", kC},   {U"으로도", kC},   {U"로는", kL},       {U"로도", kL},
     {U"으로써", kC},   {U"로써", kL},     {U"으로서", kC},     {U"로서", kL},
     {U"까지", kAny},   {U"부터", kAny},   {U"처럼", kAny},     {U"보다", kAny},
     {U"만큼", kAny},   {U"마다", kAny},   {U"밖에", kAny},     {U"조차", kAny},
     {U"마저", kAny},   {U"하고", kAny},   {U"한테", kAny},     {U"께서", kAny},
     {U"라는", kV},     {U"이라는", kC},   {U"라고", kV},       {U"이라고", kC},
     {U"이다", kC},     {U"이고", kC},     {U"이라", kC},       {U"인데", kAny},
     {U"대로", kAny},   {U"에서는", kAny}, {U"에서도", kAny},   {U"에서의", kAny},
     {U"에게는", kAny}, {U"에게서", kAny}, {U"에서부터", kAny}, {U"으로부터", kC},
     {U"로부터", kL},   {U"까지는", kAny}, {U"까지도", kAny},   {U"부터는", kAny},
     {U"에까지", kAny}, {U"과의", kC},     {U"와의", kV},       {U"만의", kAny},
     {U"이라도", kC},   {U"이나마", kC},   {U"들", kAny},       {U"들이", kAny},
     {U"들을", kAny},   {U"들의", kAny},   {U"들은", kAny},     {U"들과", kAny},
     {U"들도", kAny},   {U"들에", kAny}});

// Memory of a loaded dictionary per byte of its two files: 50 MB were measured for ko (14 MB).
constexpr std::size_t kLoadedBytesPerByte = 4;

constexpr char32_t kPlural = U'들';
constexpr int kMaxCompoundParts = 3;
// Longer runs are not words. hunspell's limit is near 100, and the time of its compound search
// grows with the length.
constexpr std::size_t kMaxWordCharacters = 40;

bool fits(char32_t previous, Before before) {
  if (before == kAny || !is_hangul_syllable(previous)) return true;
  const char32_t final_consonant = (previous - 0xAC00) % 28;  // 0: none, 8: ㄹ
  switch (before) {
    case Before::kConsonant: return final_consonant != 0;
    case Before::kVowel: return final_consonant == 0;
    case Before::kVowelOrRieul: return final_consonant == 0 || final_consonant == 8;
    case Before::kAny: break;
  }
  return true;
}

bool is_particle(std::u32string_view text) {
  return std::any_of(kParticles.begin(), kParticles.end(),
                     [&](const Particle& particle) { return particle.text == text; });
}

bool is_plural_ending(std::u32string_view text) {
  return !text.empty() && text[0] == kPlural && (text.size() == 1 || is_particle(text.substr(1)));
}

std::u32string without_particle(std::u32string_view word) {
  std::size_t longest = 0;
  for (const Particle& particle : kParticles) {
    const std::size_t length = particle.text.size();
    const std::size_t kept_at_least = length == 1 ? 2 : 1;
    if (length <= longest || word.size() < length + kept_at_least) continue;
    if (word.substr(word.size() - length) != particle.text) continue;
    if (fits(word[word.size() - length - 1], particle.before)) longest = length;
  }
  word.remove_suffix(longest);
  if (word.size() > 2 && word.back() == kPlural) word.remove_suffix(1);
  return std::u32string(word);
}

bool is_ascii_alphanumeric(char32_t c) {
  return (c >= U'0' && c <= U'9') || (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z');
}

// The stem of a word that begins with ASCII letters or digits: "cctv가" gives cctv, "2개의" gives
// 2개. hunspell would read such words letter by letter, so it never gets them. std::nullopt for
// other words.
std::optional<std::string> western_stem(std::u32string_view word) {
  const auto first_other = std::find_if_not(word.begin(), word.end(), is_ascii_alphanumeric);
  const auto num_western = static_cast<std::size_t>(first_other - word.begin());
  if (num_western == 0) return std::nullopt;
  if (num_western == word.size()) return encode_utf8(word);
  if (is_particle(word.substr(num_western))) return encode_utf8(word.substr(0, num_western));
  return encode_utf8(without_particle(word));
}

// The value of the first field with the name `key` (colon included) in one line of hunspell's
// analysis, for example "pa:건물 st:건물".
std::optional<std::string> field(std::string_view line, std::string_view key) {
  for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    if (at > 0 && line[at - 1] != ' ') continue;
    const std::size_t begin = at + key.size();
    return std::string(line.substr(begin, line.find(' ', begin) - begin));
  }
  return std::nullopt;
}

void add_once(std::vector<std::string>& list, std::string text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

bool ends_with(std::string_view text, std::string_view tail) {
  return text.size() >= tail.size() && text.substr(text.size() - tail.size()) == tail;
}

bool is_readable_file(const std::filesystem::path& path) {
  try {
    require_regular_file(path);
    return true;
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    return false;
  }
}

// Throws std::bad_alloc when the memory for a dictionary is not available.
void require_memory_for(const std::string& aff, const std::string& dic) {
  const auto size_bytes =
      static_cast<std::size_t>(std::filesystem::file_size(aff) + std::filesystem::file_size(dic));
  void* const volatile probe = std::malloc(size_bytes * kLoadedBytesPerByte);
  if (probe == nullptr) throw std::bad_alloc();
  std::free(probe);
}

// hunspell reports neither an unreadable file nor failed allocations; it then knows no word.
// Therefore a word that every Korean dictionary contains is looked up, and loading is tried twice,
// in case the lack of memory was temporary.
std::unique_ptr<Hunspell> load_dictionary(const std::string& aff, const std::string& dic) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto dictionary = std::make_unique<Hunspell>(aff.c_str(), dic.c_str());
    if (dictionary->spell(std::string("하늘이"))) return dictionary;
    dictionary.reset();
    require_memory_for(aff, dic);
  }
  throw Error(ErrorCode::kBadReference,
              dic +
                  ": is not a Korean hunspell dictionary (it does not know 하늘이); name ko.aff "
                  "or ko.dic of the package hunspell-ko");
}

// Finds stems from hunspell's analysis with one loaded dictionary and from rules for compounds,
// derived adverbs, plurals and particles. Not thread-safe.
class HunspellRules {
 public:
  HunspellRules(const std::string& aff, const std::string& dic)
      : hunspell_(load_dictionary(aff, dic)) {}

  std::string version() const { return hunspell_->get_version_cpp(); }

  std::vector<std::string> stems(std::u32string_view word, int depth) {
    if (auto stem = western_stem(word)) return {*stem};
    if (word.size() > kMaxWordCharacters) return {encode_utf8(without_particle(word))};
    const std::vector<std::string> lines = hunspell_->analyze(encode_utf8(word));
    std::vector<std::string> found;
    for (const std::string& line : lines) {
      if (field(line, "pa:")) continue;
      if (auto stem = field(line, "st:")) add_once(found, std::move(*stem));
    }
    if (found.empty()) found = compound_stems(word, lines, depth);
    add_adjective(word, found);
    prefer_singular(word, found);
    if (found.empty()) found.push_back(encode_utf8(without_particle(word)));
    return found;
  }

 private:
  // hunspell reports only the first part of a compound; the rest is a particle, a plural ending, or
  // a word that is stemmed in turn.
  std::vector<std::string> compound_stems(std::u32string_view word,
                                          const std::vector<std::string>& lines, int depth) {
    std::vector<std::string> found;
    for (const std::string& line : lines) {
      const std::optional<std::string> part = field(line, "pa:");
      if (!part) continue;
      const std::u32string prefix = decode_utf8_lossy(*part);
      if (prefix.empty() || word.substr(0, prefix.size()) != prefix) continue;
      const std::u32string_view rest = word.substr(prefix.size());
      if (rest.empty() || is_particle(rest) || is_plural_ending(rest)) {
        add_once(found, *part);
      } else if (depth < kMaxCompoundParts) {
        for (const std::string& stem : stems(rest, depth + 1)) add_once(found, *part + stem);
      }
    }
    // A compound reading is uncertain: a loan word that the dictionary lacks can be split anywhere
    // (테이블 is read as 테 and 이블). The word without its particle is therefore a candidate as
    // well, so that such a word matches its inflected forms, for which hunspell finds nothing.
    if (!found.empty()) add_once(found, encode_utf8(without_particle(word)));
    return found;
  }

  // The dictionary has entries for adverbs such as 높이 and 많이, which are regularly derived with
  // 이 from the adjectives 높다 and 많다. A word is taken for such an adverb only if it has no
  // other reading and the adjective is in the dictionary; a verb (먹다) is excluded because, unlike
  // an adjective, it also has the form 먹는다.
  void add_adjective(std::u32string_view word, std::vector<std::string>& found) {
    if (word.size() < 2 || word.back() != U'이') return;
    const std::u32string_view root = word.substr(0, word.size() - 1);
    if (!is_hangul_syllable(root.back()) || fits(root.back(), Before::kVowelOrRieul)) return;
    if (found.size() != 1 || found.front() != encode_utf8(word)) return;
    const std::string adjective = encode_utf8(root) + "다";
    if (!hunspell_->spell(adjective) || hunspell_->spell(encode_utf8(root) + "는다")) return;
    const std::vector<std::string> lines = hunspell_->analyze(adjective);
    const bool is_entry = std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return !field(line, "pa:") && field(line, "st:") == adjective;
    });
    if (is_entry) found.push_back(adjective);
  }

  // 건물들이 is the plural of 건물, but hunspell also finds the verb 들다, "to hold", in it.
  void prefer_singular(std::u32string_view word, std::vector<std::string>& found) {
    for (std::size_t at = word.size() - 1; at > 0; --at) {
      if (word[at] != kPlural || !is_plural_ending(word.substr(at))) continue;
      const std::string singular = encode_utf8(word.substr(0, at));
      if (!hunspell_->spell(singular)) continue;
      found.erase(std::remove_if(found.begin(), found.end(),
                                 [&](const std::string& stem) {
                                   return stem == singular || ends_with(stem, "들다");
                                 }),
                  found.end());
      found.insert(found.begin(), singular);
      return;
    }
  }

  std::unique_ptr<Hunspell> hunspell_;
};

}  // namespace

std::string_view stemmer_mode_name(StemmerMode mode) {
  return mode == StemmerMode::kHunspell ? "hunspell" : "josa";
}

std::filesystem::path find_dictionary(const std::filesystem::path& named) {
  std::filesystem::path base = named;
  std::error_code ignored;
  if (named.extension() == ".aff" || named.extension() == ".dic") {
    base.replace_extension();
  } else if (std::filesystem::is_directory(named, ignored)) {
    base /= "ko";
  }
  for (const char* suffix : {".aff", ".dic"}) {
    const std::string file = base.string() + suffix;
    try {
      require_regular_file(file);
    } catch (const Error& error) {
      if (is_of_machine(error.code())) throw;
      throw Error(ErrorCode::kBadReference,
                  std::string(error.what()) +
                      "; a hunspell dictionary is a pair of files, as ko.aff and ko.dic of the "
                      "package hunspell-ko: name one of them, or their path without suffix");
    }
  }
  return base;
}

std::string strip_particle(std::string_view word) {
  return encode_utf8(without_particle(decode_utf8_lossy(word)));
}

struct KoreanStemmer::State {
  std::filesystem::path aff;
  std::filesystem::path dic;
  std::string base_path;
  StemmerMode mode = StemmerMode::kJosa;

  std::mutex mutex;
  std::optional<HunspellRules> rules;
  std::unordered_map<std::string, std::vector<std::string>> cache;

  // The caller must hold the mutex.
  HunspellRules& loaded() {
    if (!rules) rules.emplace(aff.string(), dic.string());
    return *rules;
  }
};

KoreanStemmer::KoreanStemmer(const std::filesystem::path& dictionary)
    : state_(std::make_unique<State>()) {
  state_->base_path = dictionary.string();
  state_->aff = state_->base_path + ".aff";
  state_->dic = state_->base_path + ".dic";
  if (is_readable_file(state_->aff) && is_readable_file(state_->dic)) {
    state_->mode = StemmerMode::kHunspell;
  }
}

KoreanStemmer::~KoreanStemmer() = default;

StemmerMode KoreanStemmer::mode() const { return state_->mode; }

DictionaryIdentity KoreanStemmer::identity() const {
  DictionaryIdentity identity{state_->base_path, {}, {}};
  if (state_->mode == StemmerMode::kJosa) return identity;
  Hasher hasher;
  for (const std::filesystem::path& path : {state_->aff, state_->dic}) {
    const MappedFile file(path);
    hasher.update(file.bytes());
  }
  identity.hash = hasher.digest().hex();
  const std::lock_guard lock(state_->mutex);
  identity.version = state_->loaded().version();
  return identity;
}

std::vector<std::string> KoreanStemmer::stems(std::string_view word) const {
  const std::lock_guard lock(state_->mutex);
  const std::string key(word);
  if (const auto entry = state_->cache.find(key); entry != state_->cache.end()) {
    return entry->second;
  }
  const std::u32string chars = decode_utf8_lossy(word);
  std::vector<std::string> found;
  if (chars.empty()) {
    found = {key};
  } else if (state_->mode == StemmerMode::kHunspell) {
    found = state_->loaded().stems(chars, 0);
  } else {
    found = {western_stem(chars).value_or(encode_utf8(without_particle(chars)))};
  }
  return state_->cache.emplace(key, std::move(found)).first->second;
}

}  // namespace caption::eval
