#include "eval/ngram_metrics.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "eval/chrf.h"
#include "eval/diversity.h"
#include "golden.h"

namespace caption::eval {
namespace {

struct GoldenCorpus {
  std::vector<std::vector<WordIds>> references;
  std::vector<WordIds> hypotheses;
};

GoldenCorpus read(const std::vector<JsonObject>& segments) {
  GoldenCorpus corpus;
  WordTable words;
  for (const JsonObject& segment : segments) {
    std::vector<WordIds> references;
    for (const std::string& text : segment.get_strings("references")) {
      references.push_back(words.ids(eojeol_tokens(text)));
    }
    corpus.references.push_back(std::move(references));
    corpus.hypotheses.push_back(words.ids(eojeol_tokens(segment.require_string("hypothesis"))));
  }
  return corpus;
}

void add(BleuStatistics& sums, const BleuStatistics& statistics) {
  for (std::size_t n = 0; n < kMaxOrder; ++n) {
    sums.num_correct[n] += statistics.num_correct[n];
    sums.num_guessed[n] += statistics.num_guessed[n];
  }
  sums.hypothesis_length += statistics.hypothesis_length;
  sums.reference_length += statistics.reference_length;
}

}  // namespace

TEST_SUITE("eval/ngram_metrics") {
  TEST_CASE("BLEU-4, ROUGE-L and CIDEr-D equal pycocoevalcap") {
    const JsonObject file = golden("coco.json");
    const std::vector<JsonObject> segments = file.get_objects("segments");
    const GoldenCorpus corpus = read(segments);
    const CiderD cider(corpus.references);
    BleuStatistics bleu_sums;
    double rouge_sum = 0, cider_sum = 0;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      CAPTURE(i);
      const WordIds& hypothesis = corpus.hypotheses[i];
      const BleuStatistics statistics = bleu_statistics(hypothesis, corpus.references[i]);
      add(bleu_sums, statistics);
      check_close(bleu4(statistics), segments[i].get_double("bleu4", -1));
      const double rouge = rouge_l(hypothesis, corpus.references[i]);
      check_close(rouge, segments[i].get_double("rouge_l", -1));
      const double value = cider.score(hypothesis, corpus.references[i]);
      check_close(value, segments[i].get_double("cider_d", -1));
      rouge_sum += rouge;
      cider_sum += value;
    }
    const auto n = static_cast<double>(segments.size());
    const JsonObject total = *file.get_object("corpus");
    check_close(bleu4(bleu_sums), total.get_double("bleu4", -1));
    check_close(rouge_sum / n, total.get_double("rouge_l", -1));
    check_close(cider_sum / n, total.get_double("cider_d", -1));
  }

  TEST_CASE("nothing scores nothing") {
    const WordIds words = {1, 2, 3, 4, 5};
    const std::vector<WordIds> references = {words};
    const std::vector<WordIds> empty = {{}};
    CHECK(bleu4(bleu_statistics({}, references)) < 1e-6);
    CHECK(rouge_l({}, references) == 0.0);
    CHECK(rouge_l(words, empty) == 0.0);
    CHECK(rouge_l(words, {}) == 0.0);
    const CiderD cider(std::vector<std::vector<WordIds>>{references, empty});
    CHECK(cider.score({}, references) == 0.0);
    CHECK(cider.score(words, empty) == 0.0);
    CHECK(cider.score(words, {}) == 0.0);
    check_close(cider.score(words, references), 10.0);
    check_close(rouge_l(words, references), 1.0);
    // The tolerance covers the 1e-9 that the toolkit adds to each of the four counts.
    check_close(bleu4(bleu_statistics(words, references)), 1.0, 1e-8);
  }

  TEST_CASE("CIDEr-D of a single clip is zero, for the logarithm of one is") {
    const std::vector<WordIds> references = {{1, 2, 3}};
    const CiderD cider(std::vector<std::vector<WordIds>>{references});
    CHECK(cider.score({1, 2, 3}, references) == 0.0);
  }

  TEST_CASE("the best of several references counts") {
    const std::vector<WordIds> references = {{9, 9}, {1, 2, 3}};
    check_close(rouge_l({1, 2, 3}, references), 1.0);
    CHECK(bleu_statistics({1, 2, 3}, references).reference_length == 3);
    CHECK(bleu_statistics({1, 2, 3}, references).num_correct[2] == 1);
  }
}

TEST_SUITE("eval/chrf") {
  TEST_CASE("equals sacrebleu") {
    const JsonObject file = golden("chrf.json");
    ChrfStatistics sums;
    for (const JsonObject& c : file.get_objects("segments")) {
      const std::string hypothesis = c.require_string("hypothesis");
      CAPTURE(hypothesis);
      const ChrfStatistics s = chrf_statistics(hypothesis, c.get_strings("references"));
      check_close(chrf2(s), c.get_double("chrf2", -1), 100 * kGoldenTolerance);
      for (std::size_t n = 0; n < kChrfOrder; ++n) {
        sums.orders[n].num_hypothesis += s.orders[n].num_hypothesis;
        sums.orders[n].num_reference += s.orders[n].num_reference;
        sums.orders[n].num_matches += s.orders[n].num_matches;
      }
    }
    check_close(chrf2(sums), file.get_double("corpus", -1), 100 * kGoldenTolerance);
    for (const JsonObject& c : file.get_objects("several_references")) {
      const std::string hypothesis = c.require_string("hypothesis");
      CAPTURE(hypothesis);
      check_close(chrf2(chrf_statistics(hypothesis, c.get_strings("references"))),
                  c.get_double("chrf2", -1), 100 * kGoldenTolerance);
    }
  }

  TEST_CASE("a text equals itself, and nothing equals nothing") {
    const std::vector<std::string> same = {"푸른 하늘이 보인다"};
    check_close(chrf2(chrf_statistics(same[0], same)), 100.0, 100 * kGoldenTolerance);
    const std::vector<std::string> empty = {""};
    CHECK(chrf2(chrf_statistics("", empty)) == 0.0);
    CHECK(chrf2(chrf_statistics("하늘", empty)) == 0.0);
    CHECK(chrf2(chrf_statistics("하늘", {})) == 0.0);
  }
}

TEST_SUITE("eval/diversity") {
  TEST_CASE("counts words, pairs and repeated captions") {
    const std::vector<WordIds> captions = {{1, 2, 3}, {1, 2, 3}, {1, 1, 1}, {}};
    const Diversity d = diversity(captions);
    check_close(d.distinct_1, 3.0 / 9.0);
    check_close(d.distinct_2, 3.0 / 6.0);  // 1 2, 2 3, 1 1
    check_close(d.identical_share, 0.5);
    check_close(d.mean_length_words, 9.0 / 4.0);
    CHECK(d.num_distinct_captions == 3);
    CHECK(d.most_frequent_count == 2);
  }

  TEST_CASE("full collapse, full diversity, and no captions") {
    const std::vector<WordIds> same(5, WordIds{1, 2});
    CHECK(diversity(same).identical_share == 1.0);
    CHECK(diversity(same).num_distinct_captions == 1);
    const std::vector<WordIds> apart = {{1}, {2}, {3}};
    CHECK(diversity(apart).identical_share == 0.0);
    CHECK(diversity(apart).distinct_1 == 1.0);
    CHECK(diversity(apart).distinct_2 == 0.0);
    CHECK(diversity({}).distinct_1 == 0.0);
  }
}

}  // namespace caption::eval
