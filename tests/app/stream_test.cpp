// Tests streamed captions, stop strings, and retries.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

const std::string& video() {
  static const std::string path = sample_video("city-000-h264.mp4").string();
  return path;
}

records::Record record_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"run", video(), "-q"});
  const Finished finished = run_cli(arguments);
  CHECK(finished.exit_code == 0);
  return parse_records(finished.out).at(0);
}

TEST_SUITE("app/stream") {
  TEST_CASE("a streamed caption is the caption, and -o keeps its record too") {
    const TemporaryFolder folder;
    const records::Record whole = record_of({});
    const Finished streamed = run_cli({"run", video(), "--stream"});
    CHECK(streamed.exit_code == 0);
    CHECK(streamed.out == whole.caption + "\n");
    const std::string out = (folder.path() / "c.jsonl").string();
    CHECK(run_cli({"run", video(), "--stream", "-o", out}).out == whole.caption + "\n");
    CHECK(parse_records(read_text(out)).at(0).caption == whole.caption);
    const Finished again = run_cli({"run", video(), "--stream", "-o", out});
    CHECK(again.exit_code == 0);
    CHECK(again.out == "");
    const std::string broken = (folder.path() / "broken.mp4").string();
    write_text(broken, "no video");
    const Finished failed = run_cli({"run", broken, "--stream"});
    CHECK(failed.exit_code == 1);
    CHECK(failed.out == "");
  }

  TEST_CASE("a streamed caption that is suspicious or truncated says so after it") {
    const TemporaryFolder folder;
    const ClipSpec spec = {.solid_yuv = {{16, 128, 128}}};
    if (const std::string why = why_not_available(spec); !why.empty()) {
      MESSAGE(why);
      return;
    }
    const std::string black = (folder.path() / "black.mp4").string();
    make_clip(black, spec);
    const Finished suspicious = run_cli({"run", black, "--stream", "-q"});
    CHECK(suspicious.exit_code == 0);
    CHECK(suspicious.err.starts_with("warning: run: " + black + ": the caption is suspicious: "));
    CHECK(suspicious.err.find("black", suspicious.err.find("suspicious: ")) != std::string::npos);
    CHECK(std::count(suspicious.err.begin(), suspicious.err.end(), '\n') == 1);
    const Finished cut = run_cli({"run", video(), "--stream", "-q", "--max-new-tokens", "5"});
    CHECK(cut.err == "warning: run: " + video() +
                         ": the caption is truncated after 5 tokens: --max-new-tokens allows a "
                         "longer one\n");
    // On a terminal with both, the live line is below the caption.
    const std::string both = (folder.path() / "both").string();
    const std::string command = std::string(CAPTION_BINARY) +
                                " run -q --stream --max-new-tokens 5 " + video() + " >" + both +
                                " 2>&1";
    CHECK(std::system(command.c_str()) == 0);
    CHECK(read_text(both) == cut.out + cut.err);
    CHECK(run_cli({"run", video(), "--stream", "-q"}).err == "");
  }

  TEST_CASE("what cannot be streamed is refused in one sentence") {
    const std::vector<std::vector<std::string>> refused = {
        {sample_video("bridge-006-h264.mp4").string()},
        {"--prompt", "a", "--prompt", "b"},
        {"--num-beams", "2"},
        {"--format", "csv"},
    };
    for (const std::vector<std::string>& arguments : refused) {
      CAPTURE(arguments[0]);
      std::vector<std::string> command = {"run", video(), "--stream", "-q"};
      command.insert(command.end(), arguments.begin(), arguments.end());
      const Finished finished = run_cli(command);
      CHECK(finished.exit_code == 2);
      CHECK(finished.err.find("--stream") != std::string::npos);
      CHECK(finished.out == "");
    }
  }

  TEST_CASE("a reader who leaves a stream ends the run quietly") {
    const TemporaryFolder folder;
    const std::string err = (folder.path() / "err").string();
    const std::string command =
        std::string(CAPTION_BINARY) + " run -q --stream " + video() + " 2>" + err + " | true";
    CHECK(std::system(command.c_str()) == 0);
    CHECK(read_text(err) == "");
    const std::string full = std::string(CAPTION_BINARY) + " run -q --stream " + video() +
                             " >/dev/full 2>" + err + "; test $? -eq 5";
    CHECK(std::system(full.c_str()) == 0);
    CHECK(read_text(err).find("standard output: cannot write") != std::string::npos);
  }

  TEST_CASE("a stop string ends a caption and is no part of it") {
    const records::Record whole = record_of({});
    const std::size_t comma = whole.caption.find(',');
    REQUIRE(comma != std::string::npos);
    const records::Record stopped = record_of({"--stop", "no such text", "--stop", ","});
    CHECK(stopped.caption == whole.caption.substr(0, comma));
    CHECK(stopped.status == records::Status::kOk);
    CHECK(stopped.finish_reason == "stop");
    CHECK(stopped.output_tokens < whole.output_tokens);
    CHECK(run_cli({"run", video(), "-q", "--stream", "--stop", ","}).out == stopped.caption + "\n");
    for (const std::string text : {"가을", "가을 ", "xyz ", " ", "."}) {
      CAPTURE(text);
      const Finished streamed = run_cli({"run", video(), "-q", "--stream", "--stop", text});
      CHECK(streamed.out == record_of({"--stop", text}).caption + "\n");
    }
    const Finished beams = run_cli({"run", video(), "-q", "--stop", ",", "--num-beams", "2"});
    CHECK(beams.exit_code == 2);
    CHECK(beams.err.find("exclude each other") != std::string::npos);
  }

  TEST_CASE("beams, penalties and KV formats reach the engine; what they exclude is refused") {
    CHECK(record_of({"--quality"}).status == records::Status::kOk);
    CHECK(record_of({"--num-beams", "3", "--length-penalty", "0.5", "--early-stopping", "never"})
              .caption != "");
    CHECK(record_of({"--kv-dtype", "int8"}).caption != "");
    CHECK(record_of({"--kv-dtype", "f16"}).caption != "");
    CHECK(run_cli({"run", video(), "--num-beams", "2", "--temperature", "1"}).exit_code == 2);
    CHECK(run_cli({"run", video(), "--num-beams", "2", "--logprobs", "1"}).exit_code == 2);
    CHECK(run_cli({"run", video(), "--num-beams", "32"}).exit_code == 2);
  }

  TEST_CASE("log-probabilities are there when asked for") {
    CHECK(run_cli({"run", video(), "-q"}).out.find("logprobs") == std::string::npos);
    const Finished finished = run_cli({"run", video(), "-q", "--logprobs", "2"});
    CHECK(finished.out.find("\"logprobs\":{\"mean\":-") != std::string::npos);
    CHECK(finished.out.find("\"top\":[[") != std::string::npos);
  }

  TEST_CASE("truncated captions are made again with more tokens, and the manifest says so") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    CHECK(run_cli({"run", video(), "-o", out, "--max-new-tokens", "5"}).exit_code == 0);
    const std::vector<std::string> longer = {"run", video(), "-o", out, "--max-new-tokens", "100"};
    CHECK(run_cli(longer).exit_code == 2);
    std::vector<std::string> retry = longer;
    retry.insert(retry.end(), {"--retry", "truncated,suspicious"});
    CHECK(run_cli(retry).exit_code == 0);
    const auto records = parse_records(read_text(out));
    REQUIRE(records.size() == 1);
    CHECK(records[0].caption == record_of({}).caption);
    const std::string manifest = read_text(out + ".manifest.json");
    CHECK(manifest.find("\"retried_with.") != std::string::npos);
    CHECK(manifest.find("\": \"truncated,suspicious: generation.max_new_tokens=100\"") !=
          std::string::npos);
    retry.insert(retry.end(), {"--frames", "4"});
    CHECK(run_cli(retry).exit_code == 2);
    CHECK(run_cli({"run", video(), "-o", out, "--retry", "ok"}).exit_code == 2);
    CHECK(run_cli({"run", video(), "--retry", "failed"}).exit_code == 2);
  }
}

}  // namespace
}  // namespace caption::test
