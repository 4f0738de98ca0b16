#include "eval/korean_stemmer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "golden.h"
#include "tests/support/no_descriptors.h"

namespace caption::eval {
namespace {

constexpr const char* kNowhere = "/nonexistent/ko";

const KoreanStemmer& installed() {
  static const KoreanStemmer stemmer;
  return stemmer;
}

struct Case {
  const char* word;
  const char* stem;
};

// Whether the dictionary is installed; prints a message when it is not, so that skipped tests are
// not taken for passed ones.
bool has_dictionary() {
  if (installed().mode() == StemmerMode::kHunspell) return true;
  MESSAGE("hunspell-ko is not installed: its tests are left out");
  return false;
}

// Whether the dictionary is the version with which the goldens were made.
bool has_golden_dictionary() {
  if (!has_dictionary()) return false;
  const std::string version = installed().identity().version;
  if (version.find(" 0.7.92 ") != std::string::npos) return true;
  MESSAGE("hunspell-ko is " << version << ", not 0.7.92: its goldens are left out");
  return false;
}

std::vector<std::string> split(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

// Whether the stems of the two words intersect, which makes them match in meteor-ko.
bool match(const std::string& a, const std::string& b) {
  const std::vector<std::string> of_a = installed().stems(a);
  const std::vector<std::string> of_b = installed().stems(b);
  return std::find_first_of(of_a.begin(), of_a.end(), of_b.begin(), of_b.end()) != of_a.end();
}

}  // namespace

TEST_SUITE("eval/korean_stemmer") {
  TEST_CASE("a dictionary that the machine cannot open is an error, not another way to score") {
    if (!has_dictionary()) return;
    const test::NoDescriptors none;
    CHECK_THROWS_AS(KoreanStemmer(), Error);
  }

  TEST_CASE("particles come off where the final consonant allows them") {
    const Case cases[] = {
        {"하늘이", "하늘"},
        {"바다를", "바다"},
        {"드론으로", "드론"},
        {"광안대교의", "광안대교"},
        {"성산일출봉의", "성산일출봉"},
        {"건물들이", "건물"},
        {"사람들", "사람"},
        {"서울로", "서울"},
        {"산에서부터", "산"},
        {"산에", "산에"},
        {"나이", "나이"},
        {"이", "이"},
        {"바다은", "바다은"},
        {"하늘를", "하늘를"},
        {"부산로", "부산로"},
    };
    for (const Case& c : cases) {
      CAPTURE(c.word);
      CHECK(strip_particle(c.word) == c.stem);
    }
  }

  TEST_CASE("hunspell's first stem is the right one") {
    if (!has_dictionary()) return;
    const Case cases[] = {
        {"하늘이", "하늘"},   {"바다를", "바다"},         {"산에서", "산"},
        {"흐르고", "흐르다"}, {"있다", "있다"},           {"건물들이", "건물"},
        {"도시의", "도시"},   {"걸어가는", "걸어가다"},   {"아름다운", "아름답다"},
        {"푸른", "푸르다"},   {"떠오르는", "떠오르다"},   {"촬영되었다", "촬영되다"},
        {"건물들", "건물"},   {"유채꽃이", "유채꽃"},     {"남산타워가", "남산타워"},
        {"드론으로", "드론"}, {"광안대교의", "광안대교"}, {"cctv가", "cctv"},
        {"cctv", "cctv"},     {"2개의", "2개"},           {"60fps", "60fps"},
    };
    for (const Case& c : cases) {
      CAPTURE(c.word);
      CHECK(installed().stems(c.word).front() == c.stem);
    }
  }

  TEST_CASE("an ambiguous word keeps all its stems") {
    if (!has_dictionary()) return;
    CHECK(installed().stems("배가") == std::vector<std::string>{"배가", "배"});
    const std::vector<std::string> clouds = installed().stems("구름이");
    CHECK(std::count(clouds.begin(), clouds.end(), "구름") == 1);
    CHECK(clouds.size() == 2);
  }

  TEST_CASE("a loan word the dictionary lacks matches its forms, an adverb its adjective") {
    if (!has_dictionary()) return;
    const Case same[] = {
        {"테이블에", "테이블"},   {"테이블", "테이블들이"}, {"높이", "높은"},
        {"높이", "높다"},         {"많이", "많은"},         {"깊이", "깊게"},
        {"끊임없이", "끊임없는"}, {"같이", "같은"},
    };
    for (const Case& c : same) {
      CAPTURE(c.word);
      CHECK(match(c.word, c.stem));
    }
    // Nouns that end in 이, and a noun with the particle 이, are not forms of the verbs 집다,
    // 먹다...
    const Case different[] = {{"집이", "집다"}, {"먹이", "먹다"}, {"나이", "나다"},
                              {"놀이", "놀다"}, {"높이", "놓다"}, {"테이블", "이블"},
                              {"길이", "길다"}};
    for (const Case& c : different) {
      CAPTURE(c.word);
      CHECK_FALSE(match(c.word, c.stem));
    }
  }

  TEST_CASE("stems are those of the rules written out in scripts/make_goldens_eval.py") {
    if (!has_golden_dictionary()) return;
    const JsonObject file = golden("ko_meteor.json");
    const std::vector<std::string> lines = file.get_strings("stems");
    CHECK(lines.size() > 900);
    for (const std::string& line : lines) {
      const std::vector<std::string> words = split(line);
      CAPTURE(line);
      CHECK(installed().stems(words.front()) ==
            std::vector<std::string>(words.begin() + 1, words.end()));
    }
    const std::vector<std::string> pairs = file.get_strings("same");
    CHECK(pairs.size() > 800);
    for (const std::string& line : pairs) {
      const std::vector<std::string> words = split(line);
      CAPTURE(line);
      CHECK(match(words.at(0), words.at(1)));
    }
  }

  TEST_CASE("every word has a stem, and no stem twice") {
    std::string endless;
    for (int i = 0; i < 5000; ++i) endless += "가";
    for (const std::string& word :
         {std::string(), std::string("들"), std::string("들이"), std::string("ㅋㅋ"),
          std::string("é를"), std::string("\u0301"), endless, endless + "들이"}) {
      CAPTURE(word.size());
      CHECK(KoreanStemmer(kNowhere).stems(word).front().empty() == word.empty());
      std::vector<std::string> stems = installed().stems(word);
      CHECK_FALSE(stems.empty());
      std::sort(stems.begin(), stems.end());
      CHECK(std::adjacent_find(stems.begin(), stems.end()) == stems.end());
    }
  }

  TEST_CASE("without a dictionary the mode is josa and says so") {
    const KoreanStemmer stemmer(kNowhere);
    CHECK(stemmer.mode() == StemmerMode::kJosa);
    CHECK(stemmer_mode_name(stemmer.mode()) == "josa");
    CHECK(stemmer.identity().base_path == kNowhere);
    CHECK(stemmer.identity().hash.empty());
    CHECK(stemmer.stems("하늘이") == std::vector<std::string>{"하늘"});
    CHECK(stemmer.stems("흐르고") == std::vector<std::string>{"흐르고"});
    CHECK(stemmer.stems("cctv가") == std::vector<std::string>{"cctv"});
  }

  TEST_CASE("names the dictionary's version and content") {
    if (!has_dictionary()) return;
    const DictionaryIdentity identity = installed().identity();
    CHECK(identity.version.find("hunspell-dict-ko") != std::string::npos);
    CHECK(identity.hash.size() == 32);
  }

  TEST_CASE("refuses a dictionary that is not Korean") {
    const auto folder = fresh_folder("stemmer_broken");
    write_file(folder / "ko.aff", "SET UTF-8\n");
    write_file(folder / "ko.dic", "1\nhello\n");
    const KoreanStemmer stemmer(folder / "ko");
    CHECK(stemmer.mode() == StemmerMode::kHunspell);
    CHECK_THROWS_AS(stemmer.stems("하늘이"), Error);
    CHECK_THROWS_AS(stemmer.stems("하늘이"), Error);  // a failure must not be cached as a result
    CHECK_THROWS_AS(stemmer.identity(), Error);
  }

  TEST_CASE("threads agree") {
    const std::vector<std::string> words = {"하늘이", "바다를", "건물들이", "배가", "유채꽃이"};
    std::vector<std::vector<std::vector<std::string>>> found(4);
    std::vector<std::thread> threads;
    for (auto& mine : found) {
      threads.emplace_back([&words, &mine] {
        for (const std::string& word : words) mine.push_back(installed().stems(word));
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& other : found) CHECK(other == found.front());
  }
}

}  // namespace caption::eval
