// Bad inputs of real archives give one clear message and the right exit code, and do not affect
// others.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "tests/app/process.h"
#include "tests/support/drawn_checkpoint.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

bool is_one_error_line(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n') == 1 &&
         text.starts_with("error: caption-cli: ");
}

// Returns the samples' first clip, truncated to a share of its bytes.
std::string cut_clip(double share) {
  const std::string whole = read_text(sample_video("city-000-h264.mp4"));
  return whole.substr(0, static_cast<std::size_t>(static_cast<double>(whole.size()) * share));
}

// Makes a valid model folder with one file replaced.
fs::path broken_model(const TemporaryFolder& folder, const std::string& file,
                      const std::string& text) {
  const fs::path model = folder.path() / ("model_" + file);
  fs::copy(fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model", model);
  fs::remove(model / file);
  write_text(model / file, text);
  return model;
}

TEST_SUITE("app/bad_input") {
  TEST_CASE("bad clips have failed records, and the good one among them its caption") {
    const TemporaryFolder folder;
    const auto at = [&](const char* name) { return (folder.path() / name).string(); };
    fs::copy(sample_video("city-000-h264.mp4"), at("good.mp4"));
    write_text(at("empty.mp4"), "");
    write_text(at("page.mp4"), "<!DOCTYPE html><html><body>not found</body></html>\n");
    write_text(at("cut.mp4"), cut_clip(0.02));
    make_audio(at("audio.m4a"), Cover::kNone);
    write_text(at("name_\xff.mp4"), "no video");
    REQUIRE(::mkfifo(at("fifo.mp4").c_str(), 0600) == 0);
    const Finished finished =
        run_cli({"run", "-", at("fifo.mp4"), at("empty.mp4"), at("page.mp4"), at("cut.mp4"),
                 at("audio.m4a"), at("name_\xff.mp4"), at("good.mp4")},
                "\xEF\xBB\xBF" + at("missing.mp4") + "\r\n");
    CHECK(finished.exit_code == 1);
    struct Case {
      const char* name;
      const char* code;  // error code; nullptr: captioned
    };
    constexpr Case kCases[] = {{"missing.mp4", "not_found"},
                               {"fifo.mp4", "not_regular_file"},
                               {"empty.mp4", "not_video"},
                               {"page.mp4", "not_video"},
                               {"cut.mp4", ""},
                               {"audio.m4a", "no_video_stream"},
                               {"name_\\xff.mp4", "not_video"},
                               {"good.mp4", nullptr}};
    const std::vector<records::Record> records = parse_records(finished.out);
    CHECK(records.size() == std::size(kCases));
    for (const Case& c : kCases) {
      CAPTURE(c.name);
      const auto it = std::find_if(records.begin(), records.end(), [&](const auto& record) {
        return record.video == (folder.path() / c.name).string();
      });
      REQUIRE(it != records.end());
      CHECK(it->error.has_value() == (c.code != nullptr));
      CHECK(it->caption.empty() == (c.code != nullptr));
      if (!it->error) continue;
      CHECK(it->error->message.find('\n') == std::string::npos);
      if (std::string(c.code) == "not_regular_file") {
        CHECK(it->error->message.ends_with(
            "; name a video's file; what a FIFO gives is saved to one first"));
      }
      // "": any code, depending on the position of the cut.
      if (*c.code != '\0') CHECK(it->error->code == c.code);
    }
  }

  TEST_CASE("clips that fail alike behind the decoder are each named on standard error") {
    const std::vector<std::string> videos = {sample_video("city-000-h264.mp4").string(),
                                             sample_video("bridge-006-h264.mp4").string()};
    // More frames than the model has positions for; the number of frames is known only clip by
    // clip.
    const Finished finished =
        run_cli({"run", videos[0], videos[1], "--frames", "100", "--sampling", "fps=20"});
    CHECK(finished.exit_code == 1);
    for (const std::string& video : videos) {
      CAPTURE(video);
      const std::string begin = "warning: run: " + video + ": captioning it: ";
      const std::size_t first = finished.err.find(begin);
      CHECK(first != std::string::npos);
      CHECK(finished.err.find(begin, first + 1) == std::string::npos);
    }
    for (const records::Record& record : parse_records(finished.out)) {
      CHECK(record.error->code == "too_long");
      CHECK(record.vision_ms == 0);  // the tower did not encode it in vain
      CHECK(record.error->message.starts_with(record.video + ": captioning it: "));
    }
  }

  TEST_CASE("a grid of more vision tokens than the model has positions fails before the tower") {
    const testing::DrawnCheckpoint model(fs::path(CAPTION_SOURCE_DIR) /
                                         "tests/golden/qwen3_vl/untied_f32");
    const fs::path sizes = model.path() / "video_preprocessor_config.json";
    std::string text = read_text(sizes);
    const std::size_t edge = text.find("\"longest_edge\": 20000");
    REQUIRE(edge != std::string::npos);
    write_text(sizes, text.insert(text.find("20000", edge), "10000"));
    const std::string video = sample_video("city-000-h264.mp4").string();
    const Finished finished =
        run_cli({"run", video, "--model", model.path().string(), "--frames", "64"});
    CHECK(finished.exit_code == 1);
    const records::Record record = parse_records(finished.out).at(0);
    REQUIRE(record.error.has_value());
    CAPTURE(record.error->message);
    CHECK(record.error->code == "too_long");
    CHECK(record.error->message.find("64 frames of ") != std::string::npos);
    CHECK(record.error->message.find("; the model has 4096 positions; use fewer frames (--frames) "
                                     "or smaller ones (--max-pixels)") != std::string::npos);
    CHECK(record.vision_ms == 0);
    // With the text the vision tokens exceed the positions.
    const Finished nearly = run_cli({"run", video, "--model", model.path().string(), "--frames",
                                     "64", "--max-new-tokens", "300", "--max-pixels", "520000"});
    const records::Record long_record = parse_records(nearly.out).at(0);
    REQUIRE(long_record.error.has_value());
    CAPTURE(long_record.error->message);
    CHECK(long_record.error->message.ends_with(
        "; use fewer frames, smaller ones or fewer new tokens"));
    // What the advice says helps.
    const Finished smaller = run_cli({"run", video, "--model", model.path().string(), "--frames",
                                      "64", "--max-new-tokens", "2", "--max-pixels", "200000"});
    CAPTURE(smaller.err);
    CHECK(smaller.exit_code == 0);
  }

  TEST_CASE("a name that the system refuses is an error of its own, not one of the machine") {
    const TemporaryFolder folder;
    const std::string loop = (folder.path() / "loop").string();
    fs::create_symlink("loop", loop);
    const std::string captions = (folder.path() / "captions.jsonl").string();
    write_text(captions, "{\"video\": \"a.mp4\", \"caption\": \"a\"}\n");
    for (const std::string& name : {loop, std::string(300, 'x')}) {
      const struct {
        std::vector<std::string> arguments;
        int exit_code;
      } cases[] = {
          {{"bench", "--model", name}, 3},
          {{"run", "--model", name, sample_video("city-000-h264.mp4").string()}, 3},
          {{"quantize", "--format", "nf4", "-o", captions + ".folder", name}, 3},
          {{"eval", "--references", name, "--reference-field", "x", captions}, 3},
      };
      for (const auto& c : cases) {
        CAPTURE(c.arguments);
        const Finished finished = run_cli(c.arguments);
        CAPTURE(finished.err);
        CHECK(finished.exit_code == c.exit_code);
        CHECK(finished.err.find("filesystem error") == std::string::npos);
      }
    }
  }

  TEST_CASE("an unreadable clip is said to be unreadable") {
    if (::geteuid() == 0) {
      MESSAGE("root reads everything; not tested");
      return;
    }
    const TemporaryFolder folder;
    const fs::path clip = folder.path() / "a.mp4";
    fs::copy(sample_video("city-000-h264.mp4"), clip);
    fs::permissions(clip, fs::perms::none);
    const Finished finished = run_cli({"run", clip.string()});
    CHECK(finished.exit_code == 1);
    CHECK(parse_records(finished.out).at(0).error->code == "unreadable");
  }

  TEST_CASE("what the user may not open is said with what to do") {
    if (::geteuid() == 0) {
      MESSAGE("root opens everything; not tested");
      return;
    }
    const TemporaryFolder folder;
    const fs::path locked = folder.path() / "locked";
    fs::create_directory(locked);
    write_text(folder.path() / "own.json", "");
    fs::permissions(locked, fs::perms::none);
    fs::permissions(folder.path() / "own.json", fs::perms::owner_read);
    const std::string advice = ": Permission denied (chmod or chown grants access)";
    const Finished inspected = run_cli({"inspect", locked.string()});
    CHECK(inspected.exit_code == 3);
    CHECK(inspected.err == "error: caption-cli: " + locked.string() + advice + "\n");
    const Finished written =
        run_cli({"bench", "--shape", "demo", "--json", (folder.path() / "own.json").string()});
    CHECK(written.exit_code == 5);
    CHECK(written.err.find(": cannot write" + advice + ", or name another file\n") !=
          std::string::npos);
    const std::string clip = sample_video("city-000-h264.mp4").string();
    const Finished run = run_cli({"run", "-o", (locked / "c.jsonl").string(), clip});
    CHECK(run.exit_code == 5);
    CHECK(run.err.find(advice) != std::string::npos);
    fs::permissions(locked, fs::perms::owner_all);  // so that the folder can be removed
  }

  TEST_CASE("in a folder what is no video is left out, what claims to be one is not") {
    const TemporaryFolder folder;
    fs::copy(sample_video("city-000-h264.mp4"), folder.path() / "good.mp4");
    write_text(folder.path() / "label.json", "{}");
    write_text(folder.path() / "readme.txt", "text\n");
    write_text(folder.path() / "page.mp4", "<html></html>");
    const Finished finished = run_cli({"run", folder.path().string()});
    CHECK(finished.exit_code == 1);
    CHECK(parse_records(finished.out).size() == 2);
    CHECK(finished.err.find("2 files in folders are no videos") != std::string::npos);
  }

  TEST_CASE("a wrong command line, preset or model is one line and its exit code") {
    const TemporaryFolder folder;
    const std::string video = sample_video("city-000-h264.mp4").string();
    const auto at = [&](const char* name) { return (folder.path() / name).string(); };
    write_text(at("bad.yaml"), "engine:\n  max_num_seqs: many\n");
    write_text(at("broken.yaml"), "engine: {\n");
    write_text(at("notes.txt"), "mine");
    write_text(at("one.jsonl"), "{\"video\":\"a.mp4\",\"caption\":\"가\"}\n");
    write_text(at("refs.jsonl"), "{\"video\": \"a.mp4\", \"captions\": [\"가\"]}\n");
    fs::copy(video, at("film.mp4"));
    fs::create_directory(at("none"));
    const std::string config = broken_model(folder, "config.json", "{\"model_type\": ").string();
    const std::string weights =
        broken_model(folder, "model.safetensors", std::string("\xff\xff\xff\xff\0\0\0\0{}", 10))
            .string();
    struct Case {
      std::vector<std::string> arguments;
      int exit_code;
      const char* message;
    };
    const Case cases[] = {
        {{}, 2, "a command is missing"},
        {{"caption"}, 2, "no command \"caption\""},
        {{"run"}, 2, "VIDEOS is missing"},
        {{"run", video, "--no-such-flag"}, 2, "--no-such-flag"},
        {{"run", video, "--temperature", "nan"}, 2, "--temperature: expected 0 to 10"},
        {{"run", video, "--frames", "0"}, 2, "--frames: expected 1 to 4096"},
        {{"run", video, "--max-new-tokens", "010"}, 2, "\"010\"; leave out the leading zeros"},
        {{"run", video, "--limit", "010"}, 2, "\"010\"; leave out the leading zeros"},
        {{"run", video, "--limit", "+1"}, 2, "\"+1\"; leave out the sign"},
        {{"bench", "--shape", "demo", "--requests", "010"}, 2, "leave out the leading zeros"},
        {{"eval", at("one.jsonl"), "--references", at("refs.jsonl"), "--seed", "010"},
         2,
         "leave out the leading zeros"},
        {{"run", video, "--format", "xml"}, 2, "none of jsonl, csv, txt"},
        {{"run", video, "--overwrite"}, 2, "caption-cli: --overwrite needs -o FILE"},
        {{"run", video, "--retry-failed", "-o", "-"}, 2, "--retry-failed needs -o FILE"},
        {{"run", video, "--retry", "truncated"}, 2, "--retry needs -o FILE"},
        {{"run", video, "-o", at("x"), "--overwrite", "--retry-failed"}, 2, "give one of the two"},
        {{"run", video, "-o", at("x"), "--overwrite", "--retry", "truncated"}, 2, "one of the two"},
        {{"run", video, "-o", at("notes.txt")}, 2, "no manifest"},
        {{"run", video, "-o", at("none")}, 2, "a folder"},
        {{"run", at("none")}, 2, "no file"},
        {{"run", video, at("gone.mp4"), "-o", at("gone.jsonl")}, 2, "no such file or folder"},
        {{"run", video, "--prompts", at("gone.txt")}, 2, "gone.txt"},
        {{"run", video, "--prompts", at("none")}, 2, "none"},
        {{"run", video, "--min-new-tokens", "200"},
         2,
         "caption-cli: --min-new-tokens 200 exceeds generation.max_new_tokens: 128 ("},
        {{"run", video, "--preset", "h200"}, 3, "no preset is named"},
        {{"run", video, "--preset", at("bad.yaml")}, 3, "bad.yaml:2:17: "},
        {{"run", video, "--preset", at("broken.yaml")}, 3, "broken.yaml:"},
        {{"run", video, "--model", at("none")}, 3, "none"},
        {{"run", video, "--model", config}, 3, "config.json"},
        {{"run", video, "--model", weights}, 3, "model.safetensors"},
        {{"run", video, "--preset", "h100"}, 4, "preset h100: what is asked for needs CUDA"},
        {{"run", video, "--device", "cuda"}, 4, "caption-cli: --device cuda"},
        {{"run", video, "--devices", "0,1"},
         4,
         "caption-cli: --devices 0,1 needs CUDA kernels, which this build"},
        {{"run", video, "--devices", "all", "--dry-run"}, 4, "--devices all needs CUDA kernels"},
        {{"run", video, "--devices", "0", "--device", "cpu"},
         2,
         "--devices 0: --device cpu runs the model on the CPU; leave one of the two options out"},
        {{"bench", video, "--devices", "0,1"},
         4,
         "caption-cli: --devices 0,1 needs CUDA kernels, which this build"},
        {{"bench", "--shape", "demo", "--devices", "0"}, 4, "--devices 0 needs CUDA kernels"},
        {{"bench", "--shape", "demo", "--device", "cuda"}, 4, "caption-cli: --device cuda"},
        {{"plan", "--devices", "0,1"}, 4, "; without --devices the model runs on the CPU"},
        {{"plan", "--device", "cuda"}, 4, "plan: --device cuda is for a CUDA device, and none is"},
        {{"run", video, "--num-beams", "4", "--temperature", "0.5"},
         2,
         "--temperature and --num-beams exclude each other"},
        {{"run", video, "--num-beams", "32"}, 2, "--num-beams 32: beams run together"},
        {{"run", video, "--min-new-tokens", "20", "--max-new-tokens", "10"},
         2,
         "caption-cli: --min-new-tokens 20 exceeds --max-new-tokens 10;"},
        {{"run", video, "--kv-cache-dir", at("notes.txt")}, 5, "--kv-cache-dir"},
        {{"run", video, "--dtype", "awq"}, 2, "holds no AWQ codes"},
        {{"run", video, "--kv-cache-bytes", "100"}, 2, "--kv-cache-bytes 100 holds 0 KV pages"},
        {{"run", video, "-o", at("none/no/c.jsonl")}, 5, "cannot open"},
        {{"inspect"}, 2, "--machine"},
        {{"inspect", at("missing.mp4")}, 2, "missing.mp4: no such file or folder"},
        {{"inspect", video, "--sampling", "some"}, 2, "\"some\" is not known"},
        {{"run", video, "-o", ""}, 2, "run: --output needs a value (FILE), and \"\" is none"},
        {{"run", video, "--output="}, 2, "run: --output needs a value (FILE), and \"\" is none"},
        {{"run", video, "--stop", ""}, 2, "run: --stop needs a value (TEXT), and \"\" is none"},
        {{"run", video, "--prompt", ""},
         2,
         "run: --prompt needs a value (TEXT), and \"\" is none; without --prompt the model is "
         "asked "
         "its own"},
        {{"run", video, "--adapter", ""}, 2, "run: --adapter needs a value"},
        {{"run", video, "--format="}, 2, "--format needs a value (one of jsonl, csv, txt), and"},
        {{"run", video, "--examples", ""}, 2, "run: --examples needs a value (FILE)"},
        {{"run", video, "--model", ""}, 2, "run: --model needs a value (MODEL)"},
        {{"plan", "--card", ""}, 2, "plan: --card needs a value"},
        {{"presets", "--show", ""}, 2, "presets: --show needs a value"},
        {{"eval", at("one.jsonl"), "--references", ""}, 2, "eval: --references needs a value"},
        {{"eval", at("one.jsonl"), "--references", at("refs.jsonl"), "--dictionary", ""},
         2,
         "eval: --dictionary needs a value"},
        {{"quantize", "", "-o", at("q"), "--format", "nf4"}, 2, "quantize: an argument is empty"},
        {{"run", ""}, 2, "run: an argument is empty (\"\"); usage: "},
        {{"run", video, "--adapter", "=x"},
         2,
         "\"=x\" has no name that a list could hold; give FOLDER, or NAME=FOLDER"},
        {{"run", video, "--adapter", "nofolder"},
         3,
         "adapter nofolder: there is no such folder, and it is no name of the form "
         "organisation/adapter; give the folder of a LoRA as PEFT saves it"},
        {{"run", video, "--dtype", "f16"},
         4,
         "caption-cli: --dtype (quantization.weights of a preset): this build holds no weights as "
         "f16; it has auto, f32, "},
        {{"eval", "--references", at("refs.jsonl"), video},
         3,
         "holds no text, as a video does not; captions are the JSON lines that `run` writes"},
        {{"eval", "--references", at("refs.jsonl"), "/dev/null"},
         3,
         "/dev/null: is a device, not a regular file; name a file of JSON lines"},
        {{"run", video, "--sampling", "foo"}, 2, "--sampling: \"foo\" is not known; arange"},
        {{"run", video, "--dtype", "BF16"}, 2, "found \"BF16\"; did you mean bf16?"},
        {{"run", video, "--device", "CPU"}, 2, "found \"CPU\"; did you mean cpu?"},
        {{"run", video, "-o", at("x"), "--retry", "FAILED"}, 2, "did you mean failed?"},
        {{"inspect", video, "-o", at("notes.txt")}, 2, "notes.txt: holds something else"},
        {{"inspect", at("film.mp4"), "-o", at("film.mp4")}, 2, "film.mp4: is read as"},
        {{"bench", video, "--json", at("notes.txt")}, 2, "notes.txt: holds something else"},
        {{"bench", at("film.mp4"), "--json", at("film.mp4")}, 2, "film.mp4: is read as"},
        {{"eval", at("one.jsonl"), "--references", at("refs.jsonl"), "--json", at("one.jsonl")},
         2,
         "one.jsonl: is read as"},
        {{"eval", at("one.jsonl"), "--references", at("refs.jsonl"), "--per-clip",
          at("refs.jsonl")},
         2,
         "refs.jsonl: is read as"},
        {{"eval", at("one.jsonl"), "--references", at("refs.jsonl"), "--json", at("notes.txt")},
         2,
         "notes.txt: holds something else"},
        {{"completion", "BASH"}, 2, "found \"BASH\"; did you mean bash?"},
    };
    for (const Case& c : cases) {
      std::string line;
      for (const std::string& argument : c.arguments) line += argument + " ";
      CAPTURE(line);
      const Finished finished = run_cli(c.arguments);
      CAPTURE(finished.err);
      CHECK(finished.exit_code == c.exit_code);
      CHECK(finished.out == "");
      const std::size_t last = finished.err.rfind("error: ");
      CHECK(is_one_error_line(last == std::string::npos ? "" : finished.err.substr(last)));
      CHECK(finished.err.find(c.message) != std::string::npos);
    }
    CHECK(read_text(at("notes.txt")) == "mine");
    CHECK(read_text(at("film.mp4")) == read_text(video));
    CHECK_FALSE(std::filesystem::exists(at("gone.jsonl")));
  }
}

}  // namespace
}  // namespace caption::test
