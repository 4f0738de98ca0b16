// Tests the output formats.
#include "records/format.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "sample_record.h"

namespace caption::records {
namespace {

// Parses RFC 4180 independently of the writer: returns the rows and fields of the text.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      row.back() += text[++i];
    } else if (c == '"') {
      is_quoted = !is_quoted;
    } else if (!is_quoted && c == ',') {
      row.emplace_back();
    } else if (!is_quoted && c == '\r') {
      rows.push_back(std::move(row));
      row.assign(1, "");
      ++i;
    } else {
      row.back() += c;
    }
  }
  return rows;
}

TEST_SUITE("records/format") {
  TEST_CASE("names are read back, and others refused") {
    for (const Format format : {Format::kJsonl, Format::kCsv, Format::kTxt}) {
      CHECK(parse_format(format_name(format)) == format);
    }
    CHECK_THROWS_WITH_AS(parse_format("xml"), "--format: \"xml\" is none of jsonl, csv, txt",
                         Error);
  }

  TEST_CASE("csv keeps commas, quotes and line breaks, and every row has the header's columns") {
    const Record record = sample_record("a, \"b\".mp4");
    const auto rows = parse_csv(format_header(Format::kCsv) + format_record(Format::kCsv, record) +
                                format_record(Format::kCsv, failed_record("x.mp4")));
    REQUIRE(rows.size() == 3);
    CHECK(rows[1].size() == rows[0].size());
    CHECK(rows[2].size() == rows[0].size());
    const auto column = [&](const std::string& name) {
      return static_cast<std::size_t>(std::find(rows[0].begin(), rows[0].end(), name) -
                                      rows[0].begin());
    };
    CHECK(rows[1][column("video")] == record.video);
    CHECK(rows[1][column("caption")] == record.caption);
    CHECK(rows[1][column("total_ms")] == "99.875");
    CHECK(rows[2][column("error_code")] == "not_found");
  }

  TEST_CASE("a csv cell is never a formula, and a number stays one") {
    struct Case {
      const char* text;
      const char* cell;
    };
    constexpr Case kCases[] = {
        {"=1+1", "\"'=1+1\""},
        {"+82", "\"'+82\""},
        {"-v.mp4", "\"'-v.mp4\""},
        {"@SUM(A1)", "\"'@SUM(A1)\""},
        {"\tx", "\"'\tx\""},
        {"\rx", "\"'\rx\""},
        {"\n=x", "\"'\n=x\""},
        {"=HYPERLINK(\"a\",\"b\")", "\"'=HYPERLINK(\"\"a\"\",\"\"b\"\")\""},
        {"＝1", "\"'＝1\""},
        {"－1", "\"'－1\""},
        {"a=b", "a=b"},
        {"눈 내리는 밤", "눈 내리는 밤"},
        {"'=x", "'=x"},
        {"", ""},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.text);
      Record record = sample_record(c.text);
      record.caption = c.text;
      record.warnings = {c.text};
      record.window_begin_s = -1.5;
      const std::string line = format_record(Format::kCsv, record);
      CHECK(line.starts_with(std::string(c.cell) + ","));
      CHECK(line.ends_with("," + std::string(c.cell) + ",,,,\r\n"));
      CHECK(line.find(",-1.5,") != std::string::npos);
      CHECK(line.find(",ok," + std::string(c.cell) + ",") != std::string::npos);
    }
  }

  TEST_CASE("a file's suffix asks for a form") {
    CHECK(format_of_suffix("a/b.csv") == Format::kCsv);
    CHECK(format_of_suffix("B.CSV") == Format::kCsv);
    CHECK(format_of_suffix("b.txt") == Format::kTxt);
    CHECK(format_of_suffix("b.csv.jsonl") == Format::kJsonl);
    CHECK(format_of_suffix("b.ndjson") == Format::kJsonl);
    for (const char* other : {"b.json", "b", "a.csv/b", "dir/.csv", "csv", "", "-", "b.csv."}) {
      CAPTURE(other);
      CHECK_FALSE(format_of_suffix(other).has_value());
    }
  }

  TEST_CASE("txt is one line a clip, and says why one failed") {
    CHECK(format_record(Format::kTxt, sample_record("v.mp4")) ==
          "v.mp4: 해 질 녘 \"바다\"의 영상입니다. 둘째 줄, 쉼표\n");
    CHECK(format_record(Format::kTxt, failed_record("v.mp4")) ==
          "v.mp4: [not_found] v.mp4: No such file\n");
  }
}

}  // namespace
}  // namespace caption::records
