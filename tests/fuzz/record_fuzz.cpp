// Any line as a caption record: an error, or a record that reads back the same from what it writes.
// Input: the line.
#include "base/error.h"
#include "records/format.h"
#include "records/record.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace caption;
  records::Record record;
  try {
    record = records::parse_json_line(fuzz::as_text(bytes, size));
  } catch (const Error&) {
    return 0;
  }
  const std::string line = records::to_json_line(record);
  // The text of foreign log-probabilities is kept as it is, whatever it holds.
  if (!record.logprobs_json.empty()) return 0;
  const records::Record again = records::parse_json_line(line);
  fuzz::require(records::to_json_line(again) == line, "what is written reads back");
  fuzz::require(line.find('\n') == std::string::npos, "a record is one line");
  records::format_record(records::Format::kCsv, record);
  records::format_record(records::Format::kTxt, record);
  return 0;
}
