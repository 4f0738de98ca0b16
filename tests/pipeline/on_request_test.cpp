// What is told of each request before the engine gets it, and that a change of it counts.
#include <doctest/doctest.h>

#include <map>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "fake_model.h"

namespace caption::pipeline {
namespace {

using records::Record;

TEST_SUITE("pipeline/on_request") {
  TEST_CASE("each request comes once with the clip and the prompt that it answers") {
    FakeModel model;
    Options options = fake_options();
    options.prompts = {{.name = "a", .text = ""}, {.name = "b", .text = "+20"}};
    std::map<std::pair<std::string, std::string>, std::string> ids;
    options.on_request = [&](const Record& record, engine::Request& request) {
      CHECK(request.prompt_ids.size() == static_cast<std::size_t>(record.prompt_tokens));
      CHECK(ids.emplace(std::pair(record.video, record.prompt), record.id).second);
    };
    KeepingSink sink;
    run(model, clips(20), options, sink);
    CHECK(ids.size() == 40);
    REQUIRE(sink.kept.size() == 40);
    for (const Record& record : sink.kept) {
      CHECK(ids.at({record.video, record.prompt}) == record.id);
      CHECK(record.id.size() == 64);
    }
  }

  TEST_CASE("a request runs as it was changed, and a refusal fails its clip alone") {
    FakeModel model;
    Options options = fake_options();
    options.on_request = [](const Record& record, engine::Request& request) {
      if (record.video == clip_name(3)) throw Error(ErrorCode::kUsage, "not this one");
      if (record.video == clip_name(5)) request.sampling.max_new_tokens = 2;
    };
    KeepingSink sink;
    run(model, clips(8), options, sink);
    CHECK(sink.kept.size() == 8);
    for (const Record& record : sink.kept) {
      CAPTURE(record.video);
      if (record.video == clip_name(3)) {
        REQUIRE(record.error.has_value());
        CHECK(record.error->message.find("not this one") != std::string::npos);
      } else if (record.video == clip_name(5)) {
        CHECK(record.output_tokens == 2);
        CHECK(record.status == records::Status::kTruncated);
      } else {
        CHECK(record.caption == expected_caption(clip_number(record.video)));
      }
    }
  }
}

}  // namespace
}  // namespace caption::pipeline
