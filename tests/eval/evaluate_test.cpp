#include "eval/evaluate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "eval/report.h"
#include "golden.h"

namespace caption::eval {
namespace {

Segment segment(const std::string& id, std::vector<std::string> references,
                std::optional<std::string> caption) {
  return Segment{id, std::move(references), std::move(caption)};
}

Corpus three_clips() {
  Corpus corpus;
  corpus.segments = {segment("1.mp4", {"푸른 하늘이 보인다."}, "푸른 하늘이 보인다"),
                     segment("2.mp4", {"바다가 넓게 펼쳐져 있다", "넓은 바다"}, "넓은 바다"),
                     segment("3.mp4", {"사람들이 길을 걷고 있다"}, std::nullopt)};
  corpus.missing = {"3.mp4"};
  corpus.extra = {"9.mp4"};
  return corpus;
}

EvaluateOptions without_dictionary() {
  EvaluateOptions options;
  options.dictionary = "/nonexistent/ko";
  options.bootstrap.num_resamples = 50;
  return options;
}

const MetricReport& metric_of(const Report& report, Metric metric) {
  return *std::find_if(report.metrics.begin(), report.metrics.end(),
                       [&](const MetricReport& m) { return m.metric == metric; });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("eval/evaluate") {
  TEST_CASE("every metric has one name, found again") {
    for (const Metric metric : all_metrics()) CHECK(find_metric(metric_name(metric)) == metric);
    CHECK(all_metrics().front() == Metric::kMeteorKo);
    CHECK(all_metrics().size() == 7);
    CHECK_FALSE(find_metric("meteor").has_value());
  }

  TEST_CASE("means are over the scored clips and, labelled, over all references") {
    const Report report = evaluate(three_clips(), without_dictionary());
    CHECK(report.num_scored == 2);
    const MetricReport& meteor = metric_of(report, Metric::kMeteorKo);
    const double first = 1.0 - 0.5 / 27.0, second = 1.0 - 0.5 / 8.0;
    check_close(meteor.clip_scores[0], first);
    check_close(meteor.clip_scores[1], second);
    CHECK(meteor.clip_scores[2] == 0.0);
    check_close(meteor.scored.value, (first + second) / 2);
    check_close(meteor.all.value, (first + second) / 3);
    for (const MetricReport& metric : report.metrics) {
      CAPTURE(metric_name(metric.metric));
      CHECK(metric.all.value < metric.scored.value);
      CHECK(metric.scored.interval.low <= metric.scored.value);
      CHECK(metric.scored.value <= metric.scored.interval.high + 1e-12);
      CHECK_FALSE(metric.tokenizer.empty());
      CHECK_FALSE(metric.aggregation.empty());
    }
  }

  TEST_CASE("perfect captions reach the end of every scale but COCO's summed METEOR") {
    Corpus corpus;
    for (const char* text : {"푸른 하늘이 보이고 있다", "넓은 바다가 펼쳐져 있는 풍경",
                             "사람들이 길을 천천히 걷는다"}) {
      corpus.segments.push_back(segment(text, {text}, text));
    }
    for (const MetricReport& metric : evaluate(corpus, without_dictionary()).metrics) {
      CAPTURE(metric_name(metric.metric));
      // A perfect clip scores 1 - 0.5 / m^3 with the greedy METEOR: more than 0.99 from four words
      // on. METEOR 1.5 is perfect per clip, but penalises the chunks of summed statistics. BLEU
      // adds 1e-9 to each count.
      CHECK(metric.mean_of_clips > metric.best * 0.99);
      if (metric.metric != Metric::kMeteorCoco) CHECK(metric.scored.value > metric.best * 0.99);
      CHECK(metric.scored.value <= metric.best + 1e-9);
    }
  }

  TEST_CASE("the metrics chosen are those scored, in that order") {
    EvaluateOptions options = without_dictionary();
    options.metrics = {Metric::kChrf2, Metric::kBleu4};
    const Report report = evaluate(three_clips(), options);
    REQUIRE(report.metrics.size() == 2);
    CHECK(report.metrics[0].metric == Metric::kChrf2);
    CHECK_FALSE(report.stemmer_mode.has_value());
    options.metrics.clear();
    CHECK_THROWS_AS(evaluate(three_clips(), options), Error);
  }

  TEST_CASE("shuffled captions are scored against other clips, and the report says so") {
    EvaluateOptions options = without_dictionary();
    options.shuffle_seed = 7;
    const Report shuffled = evaluate(three_clips(), options);
    const Report straight = evaluate(three_clips(), without_dictionary());
    CHECK(shuffled.caption_from == std::vector<std::string>{"2.mp4", "1.mp4", ""});
    CHECK(metric_of(shuffled, Metric::kMeteorKo).scored.value <
          metric_of(straight, Metric::kMeteorKo).scored.value);
    CHECK(contains(to_table(shuffled), "SHUFFLED with seed 7"));
    CHECK(contains(to_json(shuffled), "\"shuffled_seed\": 7"));
    CHECK(contains(to_clip_lines(shuffled), "\"caption_from\": \"2.mp4\""));
    CHECK_FALSE(contains(to_table(straight), "SHUFFLED"));
    Corpus one = three_clips();
    one.segments.resize(1);
    CHECK_THROWS_AS(evaluate(one, options), Error);
  }

  TEST_CASE("nothing to score is an error") {
    Corpus corpus = three_clips();
    for (Segment& s : corpus.segments) s.caption.reset();
    CHECK_THROWS_WITH_AS(evaluate(corpus, without_dictionary()),
                         doctest::Contains("nothing to score"), Error);
  }

  TEST_CASE("the same input gives the same report") {
    CHECK(to_json(evaluate(three_clips(), without_dictionary())) ==
          to_json(evaluate(three_clips(), without_dictionary())));
  }

  TEST_CASE("files of stems and synonyms are read for meteor-ko alone") {
    EvaluateOptions options = without_dictionary();
    options.synonyms = "/nowhere/synonyms.txt";
    CHECK_THROWS_WITH_AS(evaluate(three_clips(), options), doctest::Contains("synonyms.txt"),
                         Error);
    options.metrics = {Metric::kBleu4, Metric::kMeteorHf};
    const Report report = evaluate(three_clips(), options);
    CHECK(report.metrics.size() == 2);
    CHECK_FALSE(report.stemmer_mode.has_value());
    CHECK(report.synonyms.empty());
  }

  TEST_CASE("NFD texts are counted") {
    Corpus corpus = three_clips();
    corpus.segments[0].references = {"\u1112\u1161\u1102\u1173\u11AF"};
    const Report report = evaluate(corpus, without_dictionary());
    CHECK(report.num_not_nfc == 1);
    CHECK(contains(to_table(report), "1 text is not in NFC"));
  }
}

TEST_SUITE("eval/report") {
  TEST_CASE("the table names scores, methods and absent clips") {
    const std::string table = to_table(evaluate(three_clips(), without_dictionary()));
    for (const char* part :
         {"meteor-ko (josa)", "meteor-hf", "meteor-coco", "bleu-4", "rouge-l", "cider-d", "chrf2",
          "scored clips (2)", "all references (3)", "distinct-1", "95 % interval",
          "50 resamples, seed 20", "matched by name", "missing, no caption (1): 3.mp4",
          "extra, no reference (1): 9.mp4", "install hunspell-ko"}) {
      CAPTURE(part);
      CHECK(contains(table, part));
    }
  }

  TEST_CASE("cider-d of a single clip is 0, and the table says why") {
    const std::string note = "note: cider-d is 0 for whatever caption";
    Corpus one = three_clips();
    one.segments.resize(1);
    const Report report = evaluate(one, without_dictionary());
    REQUIRE(report.ids.size() == 1);
    CHECK(metric_of(report, Metric::kCiderD).scored.value == 0);
    CHECK(contains(to_table(report), note));
    EvaluateOptions others = without_dictionary();
    others.metrics = {Metric::kBleu4};
    CHECK_FALSE(contains(to_table(evaluate(one, others)), note));
    CHECK_FALSE(contains(to_table(evaluate(three_clips(), without_dictionary())), note));
  }

  TEST_CASE("the table says that intervals over few clips are too narrow") {
    const std::string note = "note: intervals over 2 clips are narrower than the uncertainty";
    CHECK(contains(to_table(evaluate(three_clips(), without_dictionary())), note));
    Corpus many = three_clips();
    const Segment first = many.segments.front();
    for (int i = 0; i < 8; ++i) {
      many.segments.push_back(first);
      many.segments.back().id = "further-" + std::to_string(i);
    }
    CHECK_FALSE(contains(to_table(evaluate(many, without_dictionary())), "note: intervals"));
  }

  TEST_CASE("the installed dictionary is named with version and hash") {
    EvaluateOptions options;
    options.metrics = {Metric::kMeteorKo};
    const Report report = evaluate(three_clips(), options);
    if (report.stemmer_mode != StemmerMode::kHunspell) return;
    CHECK(contains(to_table(report), report.dictionary.hash));
    CHECK(contains(to_table(report), "hunspell-dict-ko"));
    CHECK_FALSE(contains(to_table(report), "(josa)"));
  }

  TEST_CASE("the JSON reads back with unrounded numbers") {
    const Report report = evaluate(three_clips(), without_dictionary());
    const JsonObject json = JsonObject::parse(to_json(report), "report", ErrorCode::kInternal);
    CHECK(json.require_int("references", 3, 3) == 3);
    CHECK(json.require_int("scored", 2, 2) == 2);
    CHECK(json.get_strings("missing") == std::vector<std::string>{"3.mp4"});
    CHECK(json.get_object("dictionary")->require_string("mode") == "josa");
    const std::vector<JsonObject> metrics = json.get_objects("metrics");
    REQUIRE(metrics.size() == 7);
    CHECK(metrics[0].require_string("name") == "meteor-ko");
    CHECK(metrics[0].require_string("mode") == "josa");
    CHECK(metrics[0].get_object("scored")->get_double("value", -1) ==
          report.metrics[0].scored.value);
    CHECK(metrics[0].get_object("scored")->get_doubles("interval").size() == 2);
  }

  TEST_CASE("superseded records and suspicious captions are said") {
    Corpus corpus = three_clips();
    corpus.suspicious = {"2.mp4"};
    corpus.num_superseded = 4;
    const Report report = evaluate(corpus, without_dictionary());
    CHECK(contains(to_table(report), "superseded by a later one of the same clip and prompt: 4"));
    CHECK(contains(to_table(report), "suspicious, scored like the others (1): 2.mp4"));
    const JsonObject json = JsonObject::parse(to_json(report), "report", ErrorCode::kInternal);
    CHECK(json.require_int("superseded", 4, 4) == 4);
    CHECK(json.get_strings("suspicious") == std::vector<std::string>{"2.mp4"});
    CHECK_FALSE(contains(to_table(evaluate(three_clips(), without_dictionary())), "superseded"));
  }

  TEST_CASE("one line per clip, with its status and scores") {
    Corpus corpus = three_clips();
    corpus.segments.push_back(segment("가 \"4\".mp4", {"산"}, std::nullopt));
    corpus.failed = {"가 \"4\".mp4"};
    const Report report = evaluate(corpus, without_dictionary());
    const std::string lines = to_clip_lines(report);
    std::vector<JsonObject> clips;
    for (std::size_t begin = 0; begin < lines.size();) {
      const std::size_t end = lines.find('\n', begin);
      clips.push_back(
          JsonObject::parse(lines.substr(begin, end - begin), "line", ErrorCode::kInternal));
      begin = end + 1;
    }
    REQUIRE(clips.size() == 4);
    CHECK(clips[0].require_string("status") == "scored");
    CHECK(clips[0].get_double("meteor-ko", -1) == report.metrics[0].clip_scores[0]);
    CHECK(clips[2].require_string("status") == "missing");
    CHECK(clips[3].require_string("status") == "failed");
    CHECK(clips[3].require_string("video") == "가 \"4\".mp4");
  }
}

}  // namespace caption::eval
