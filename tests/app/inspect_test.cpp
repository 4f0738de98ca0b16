// Tests `caption-cli inspect` as a process with several paths, some of them bad.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

// Folders that contain videos of the same name, and a working folder.
class Folder {
 public:
  Folder() {
    fs::create_directories(path() / "a");
    fs::create_directories(path() / "b/a");
    fs::copy_file(sample_video("city-000-h264.mp4"), path() / "a/x.mp4");
    fs::copy_file(sample_video("bridge-006-h264.mp4"), path() / "b/a/x.mp4");
    write_text((path() / "broken.mp4").string(), "no video");
  }

  fs::path path() const { return folder_.path(); }
  bool has(const std::string& name) const { return fs::exists(path() / name); }
  Finished inspect(std::vector<std::string> paths) const {
    paths.insert(paths.begin(), {"inspect", "--frames", "2"});
    return run_cli_in({.folder = path()}, paths);
  }

 private:
  TemporaryFolder folder_;
};

TEST_SUITE("app/inspect") {
  TEST_CASE("a sheet takes the place of a sheet, and of no other picture") {
    const Folder folder;
    const fs::path sheet = folder.path() / "x.mp4.frames.png";
    REQUIRE(folder.inspect({"a/x.mp4"}).exit_code == 0);
    const std::string whole = read_text(sheet);
    CHECK(folder.inspect({"a/x.mp4"}).exit_code == 0);
    CHECK(read_text(sheet) == whole);
    // The same picture without the chunk that names its maker.
    constexpr std::size_t kHeaderBytes = 33, kChunkBytes = 12 + 9 + 19;
    const std::string foreign = std::string(whole).erase(kHeaderBytes, kChunkBytes);
    write_text(sheet, foreign);
    const Finished refused = folder.inspect({"a/x.mp4"});
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find("x.mp4.frames.png: holds something else and is not overwritten") !=
          std::string::npos);
    CHECK(read_text(sheet) == foreign);
  }

  TEST_CASE("films of the same name have sheets of their own") {
    const Folder folder;
    CHECK(folder.inspect({"a/x.mp4"}).exit_code == 0);
    CHECK(folder.has("x.mp4.frames.png"));
    fs::remove(folder.path() / "x.mp4.frames.png");
    const Finished both = folder.inspect({"a/x.mp4", "b/a/x.mp4", "a/../a/x.mp4"});
    CHECK(both.exit_code == 0);
    CHECK_FALSE(folder.has("x.mp4.frames.png"));
    const std::string top = folder.path().filename().string();
    const std::string first = top + "-a-x.mp4.frames.png";
    const std::string line = "sheet       " + first + "\n";
    CHECK(both.out.find(line) != both.out.rfind(line));
    CHECK(both.out.find("sheet       b-a-x.mp4.frames.png\n") != std::string::npos);
    CHECK(folder.has(first));
    CHECK(folder.has("b-a-x.mp4.frames.png"));
    CHECK(read_text(folder.path() / first) != read_text(folder.path() / "b-a-x.mp4.frames.png"));
  }

  TEST_CASE("files of records and of references are named with the commands that read them") {
    const Folder folder;
    const Finished captioned = run_cli_in(
        {.folder = folder.path()},
        {"run", "-q", "-o", "captions.jsonl", small_video("city-000-h264.mp4").string()});
    REQUIRE(captioned.exit_code == 0);
    write_text(folder.path() / "references.jsonl",
               "{\"video\": \"a.mp4\", \"captions\": [\"하나\"]}\n");
    write_text(folder.path() / "plain.jsonl", "{\"video\": \"a.mp4\", \"caption\": \"하나\"}\n");
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"captions.jsonl",
         "error: caption-cli: inspect: captions.jsonl: holds records of captions; `caption-cli "
         "eval "
         "--references REFERENCES captions.jsonl` scores them, and the `caption-cli run -o "
         "captions.jsonl` that wrote them goes on with them\n"},
        {"references.jsonl",
         "error: caption-cli: inspect: references.jsonl: holds references; `caption-cli eval "
         "--references references.jsonl CAPTIONS` scores captions against them\n"},
        {"plain.jsonl",
         "error: caption-cli: inspect: plain.jsonl: holds captions of videos; `caption-cli eval "
         "--references REFERENCES plain.jsonl` scores them, and `caption-cli eval --references "
         "plain.jsonl CAPTIONS` takes them for references\n"}};
    for (const auto& [name, message] : cases) {
      const Finished refused = folder.inspect({name});
      CHECK(refused.exit_code == 2);
      CHECK(refused.err == message);
    }
  }

  TEST_CASE("a dumped frame replaces an earlier one whole, or not at all") {
    const Folder folder;
    const std::string film = small_video("city-000-h264.mp4").string();
    const fs::path frames = folder.path() / "frames";
    fs::create_directory(frames);
    const fs::path linked = folder.path() / "linked.ppm";  // to an earlier dump's first frame
    write_text(frames / "frame_000.ppm", "an earlier picture");
    fs::create_hard_link(frames / "frame_000.ppm", linked);
    CHECK(folder.inspect({film, "--dump-frames", frames.string()}).exit_code == 0);
    CHECK(read_text(frames / "frame_000.ppm").starts_with("P6\n"));
    CHECK(read_text(linked) == "an earlier picture");  // it was not written in place
    for (const auto& entry : fs::directory_iterator(frames)) {
      CHECK(entry.path().extension() == ".ppm");
    }
  }

  TEST_CASE("an empty name of an output is refused, not taken for none") {
    for (const char* const option : {"-o", "--dump-frames"}) {
      CAPTURE(std::string(option));
      const Finished finished =
          run_cli({"inspect", sample_video("city-000-h264.mp4").string(), option, ""});
      CHECK(finished.exit_code == 2);
      CHECK(finished.out.empty());
      CHECK(finished.err.find(" needs a value (") != std::string::npos);
      CHECK(finished.err.find("), and \"\" is none; for example: ") != std::string::npos);
    }
  }

  TEST_CASE("frames of an earlier film are removed, and what cannot be removed is said") {
    const Folder folder;
    const auto dump = [&](const char* frames) {
      return run_cli_in({.folder = folder.path()}, {"inspect", "--frames", frames, "--dump-frames",
                                                    "frames", "-o", "sheet.png", "a/x.mp4"});
    };
    CHECK(dump("3").exit_code == 0);
    CHECK(folder.has("frames/frame_002.ppm"));
    CHECK(dump("2").exit_code == 0);
    CHECK_FALSE(folder.has("frames/frame_002.ppm"));
    fs::create_directories(folder.path() / "frames/frame_002.ppm/mine");
    const Finished refused = dump("2");
    CHECK(refused.exit_code == 5);
    CHECK(refused.err.find("frames/frame_002.ppm: cannot remove what is no frame of this film: ") !=
          std::string::npos);
  }

  TEST_CASE("a joined name that another film has gets a number") {
    const Folder folder;
    fs::create_directories(folder.path() / "c");
    fs::copy_file(folder.path() / "a/x.mp4", folder.path() / "c/b-a-x.mp4");
    const Finished finished = folder.inspect({"a/x.mp4", "b/a/x.mp4", "c/b-a-x.mp4"});
    CHECK(finished.exit_code == 0);
    CHECK(finished.out.find("sheet       b-a-x.mp4-2.frames.png\n") != std::string::npos);
  }

  TEST_CASE("a film of fewer frames than wanted says so, here and in its record") {
    const TemporaryFolder folder;
    for (const int num_frames : {1, 7, 8}) {
      const ClipSpec spec = {.num_frames = num_frames};
      if (const std::string why = why_not_available(spec); !why.empty()) {
        MESSAGE(why);
        return;
      }
      CAPTURE(num_frames);
      const std::string clip = (folder.path() / "clip.mp4").string();
      make_clip(clip, spec);
      const Finished run = run_cli({"run", "-q", clip});
      const records::Record record = parse_records(run.out).at(0);
      const Finished shown =
          run_cli({"inspect", clip, "-o", (folder.path() / "sheet.png").string()});
      if (num_frames == 8) {
        CHECK(record.warnings.empty());
        CHECK(shown.out.find("warning") == std::string::npos);
        continue;
      }
      const std::string warning = std::to_string(num_frames) +
                                  (num_frames == 1 ? " frame" : " frames") +
                                  " in the whole film; 8 were wanted, so frames repeat";
      CHECK(record.warnings == std::vector<std::string>{warning});
      CHECK(shown.out.find("warning     " + warning + "\n") != std::string::npos);
    }
  }

  TEST_CASE("a bad path has one line and the others are inspected") {
    const Folder folder;
    const Finished finished =
        folder.inspect({"a/x.mp4", "gone.mp4", "broken.mp4", "a", "b/a/x.mp4"});
    CHECK(finished.exit_code == 1);
    CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 3);
    for (const char* line : {"error: caption-cli: inspect: gone.mp4: no such file or folder\n",
                             "error: caption-cli: broken.mp4: ", "error: caption-cli: a: "}) {
      CAPTURE(line);
      CHECK(finished.err.find(line) != std::string::npos);
    }
    CHECK(finished.out.starts_with("a/x.mp4\n"));
    CHECK(finished.out.find("\nb/a/x.mp4\n") != std::string::npos);
    CHECK(folder.inspect({"gone.mp4", "a/x.mp4", "no.mp4"}).exit_code == 2);
    CHECK(folder.inspect({"broken.mp4", "a/x.mp4"}).exit_code == 1);
    CHECK(folder.inspect({"a", "a/x.mp4"}).exit_code == 3);
  }
}

}  // namespace
}  // namespace caption::test
