// Tests what an output does about files of other programs under its names, and about changes that
// other programs make.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "records/record_file.h"
#include "sample_record.h"
#include "tests/support/stderr_of.h"

namespace caption::records {
namespace {

namespace fs = std::filesystem;

const Manifest kManifest{{{"seed", "20"}, {"prompt", "설명"}}};
const Manifest kOther{{{"seed", "21"}, {"prompt", "설명"}}};

void write_records(const fs::path& path, const std::vector<Record>& records,
                   Existing existing = Existing::kResume, const Manifest& manifest = kManifest) {
  RecordFile file(path, Format::kJsonl, manifest, existing);
  for (const Record& record : records) file.append(record);
  file.finish();
}

// Returns the code and the sentence with which an output is refused; empty where it is opened.
std::string refusal(const fs::path& path, Existing existing = Existing::kResume) {
  try {
    const RecordFile file(path, Format::kJsonl, kManifest, existing);
    return "";
  } catch (const Error& error) {
    return std::string(error_code_name(error.code())) + " " + error.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_SUITE("records/foreign_files") {
  TEST_CASE("a file of another kind under the manifest's name is not replaced") {
    const Folder folder;
    const fs::path output = folder / "c.jsonl";
    const fs::path beside = folder / "c.jsonl.manifest.json";
    for (const char* text : {"{\"mine\": \"1\"}", "[1, 2]", "notes"}) {
      CAPTURE(text);
      write_file(beside, text);
      for (const Existing existing : {Existing::kResume, Existing::kOverwrite}) {
        CHECK(refusal(output, existing)
                  .ends_with("c.jsonl.manifest.json: is no manifest of an output, and one of this "
                             "name is written beside c.jsonl; move it away, or give another -o"));
      }
      CHECK(read_file(beside) == text);
      CHECK_FALSE(fs::exists(output));
    }
    // That of an output which was removed, and one that was never written, are.
    for (const std::string& text : {to_json(kManifest), std::string()}) {
      write_file(beside, text);
      CHECK(refusal(output) == "");
      fs::remove(output);
    }
  }

  TEST_CASE("--overwrite replaces no file that has the manifest's name and is none") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const fs::path beside = folder / "c.jsonl.new";
    write_records(path, {sample_record("a.mp4")});
    const std::string records = read_file(path);
    const std::string manifest = read_file(manifest_path(path));
    const auto overwriting = [&] { return refusal(path, Existing::kOverwrite); };
    for (const fs::path& output : {path, beside}) {
      const std::string name = manifest_path(output);
      for (const char* const content : {"{", "[]", "{}", "{\"a\": 1}", "{\"mine\": \"1\"}"}) {
        CAPTURE(std::string(content));
        write_file(name, content);
        CHECK(contains(overwriting(), name + ": is no manifest of an output"));
        CHECK(read_file(name) == content);
        CHECK(read_file(path) == records);
        CHECK_FALSE(fs::exists(beside));
      }
      fs::remove(name);
      fs::create_directory(name);
      CHECK(contains(overwriting(), "move it away, or give another -o"));
      fs::remove(name);
      write_file(manifest_path(path), manifest);
    }
    write_file(manifest_path(path), "");
    CHECK(refusal(path) != "");
    write_records(path, {sample_record("b.mp4")}, Existing::kOverwrite);
    CHECK(contains(read_file(path), "b.mp4"));
    CHECK(refusal(path) == "");
  }

  TEST_CASE("a folder under the manifest's name is named, and no empty output is left") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    fs::create_directory(manifest_path(path));
    CHECK(contains(refusal(path), "move it away, or give another -o"));
    CHECK_FALSE(fs::exists(path));
    write_file(path, to_json_line(sample_record("a.mp4")) + "\n");
    CHECK(contains(refusal(path), "move it away, or give another -o"));
  }

  TEST_CASE("a foreign file under the name of FILE.new's manifest does not stop a resume") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_records(path, {sample_record("a.mp4")});
    write_file(folder / "c.jsonl.new.manifest.json", "notes");
    CHECK(refusal(path) == "");
    CHECK(read_file(folder / "c.jsonl.new.manifest.json") == "notes");
  }

  TEST_CASE("a manifest that another program changes during a run is written again") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    for (const std::string& text : {to_json(kOther), std::string("notes"), std::string()}) {
      CAPTURE(text);
      RecordFile file(path, Format::kJsonl, kManifest, Existing::kResume);
      file.append(sample_record("a.mp4"));
      CHECK(test::stderr_of([&] { file.sync(); }).empty());
      write_file(manifest_path(path), text);
      const std::string log = test::stderr_of([&] { file.finish(); });
      CHECK(contains(log, "by another program during the run, and is written anew"));
      CHECK(settings_key(*read_manifest(manifest_path(path))) == settings_key(kManifest));
    }
    CHECK(refusal(path) == "");
  }

  TEST_CASE("a foreign manifest that appears during an --overwrite is not replaced") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_records(path, {sample_record("a.mp4")});
    const std::string before = read_file(path);
    RecordFile file(path, Format::kJsonl, kManifest, Existing::kOverwrite);
    file.append(sample_record("b.mp4"));
    write_file(manifest_path(path), "notes");
    CHECK_THROWS_WITH_AS(file.finish(), doctest::Contains("is no manifest of an output"), Error);
    CHECK(read_file(manifest_path(path)) == "notes");
    CHECK(read_file(path) == before);
    CHECK(contains(read_file(folder / "c.jsonl.new"), "b.mp4"));
  }

  TEST_CASE("an output that is deleted during an --overwrite is made of its records") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_records(path, {sample_record("a.mp4")});
    {
      RecordFile file(path, Format::kJsonl, kManifest, Existing::kOverwrite);
      file.append(sample_record("b.mp4"));
      fs::remove(path);
      CHECK_THROWS_WITH_AS(file.finish(), doctest::Contains("the records of this run are in "),
                           Error);
    }
    RecordFile file(path, Format::kJsonl, kManifest, Existing::kOverwrite);
    CHECK(file.num_found() == 1);
    const Record again = sample_record("b.mp4");
    file.find({.file = {.path = again.video}, .id = ""}, again.video, "");
    CHECK(file.finish() == RecordFile::Ending::kInPlace);
    CHECK(contains(read_file(path), "b.mp4"));
    CHECK_FALSE(fs::exists(folder / "c.jsonl.new"));
  }

  TEST_CASE("--overwrite does not replace captions whose clips have failed") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_records(path, {sample_record("a.mp4"), sample_record("b.mp4"), failed_record("c.mp4")});
    const std::string before = read_file(path);
    const auto overwrite = [&](const Record& other) {
      RecordFile file(path, Format::kJsonl, kManifest, Existing::kOverwrite);
      Record broken = other;
      broken.error->code = "bad_video";
      broken.id = "00";
      file.append(sample_record("a.mp4"));
      file.append(broken);
      return file.finish();
    };
    CHECK(overwrite(failed_record("b.mp4")) == RecordFile::Ending::kOldHasCaptions);
    CHECK(read_file(path) == before);
    fs::remove(folder / "c.jsonl.new");
    CHECK(overwrite(failed_record("c.mp4")) == RecordFile::Ending::kInPlace);
  }

  TEST_CASE("--overwrite knows the failed clips that have a caption by their content") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    const auto of_content = [](Record record, const char* id) {
      record.id = id;
      record.file = ClipFile{.path = "/films/" + record.video};
      if (record.error) record.error->code = "bad_video";
      return record;
    };
    const auto overwrite = [&](const std::vector<Record>& records) {
      for (const char* const suffix : {"", ".new"}) {
        fs::remove(path.string() + suffix);
        fs::remove(path.string() + suffix + ".manifest.json");
      }
      write_records(path, {of_content(sample_record("a.mp4"), "11"), sample_record("b.mp4")});
      RecordFile file(path, Format::kJsonl, kManifest, Existing::kOverwrite);
      for (const Record& record : records) file.append(record);
      return file.finish();
    };
    const Record other = sample_record("b.mp4");
    // The film has moved, and a broken one lies in its place.
    CHECK(overwrite({of_content(failed_record("a.mp4"), "00"),
                     of_content(sample_record("c.mp4"), "11"), other}) ==
          RecordFile::Ending::kInPlace);
    // The film has moved and fails; its old place is empty, or has another film.
    const Record moved = of_content(failed_record("c.mp4"), "11");
    CHECK(overwrite({moved, other}) == RecordFile::Ending::kOldHasCaptions);
    CHECK(overwrite({moved, of_content(sample_record("a.mp4"), "22"), other}) ==
          RecordFile::Ending::kOldHasCaptions);
  }

  TEST_CASE("--overwrite counts the captions of clips that it does not name") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_records(path, {sample_record("a.mp4"), sample_record("b.mp4"), failed_record("c.mp4")});
    RecordFile file(path, Format::kJsonl, kManifest, Existing::kOverwrite);
    file.append(sample_record("a.mp4"));
    CHECK(file.finish() == RecordFile::Ending::kInPlace);
    CHECK(file.num_dropped() == 1);
  }

  TEST_CASE("damaged lines of an output do not give its captions to --overwrite") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_records(path, {sample_record("a.mp4"), sample_record("b.mp4")});
    const std::string before = "{\"video\":\"x.mp4\",\"bro\n" + read_file(path);
    write_file(path, before);
    fs::create_directory(folder / "c.jsonl.damaged");  // no place for such lines
    Record broken = failed_record("b.mp4");
    broken.id = "00";
    broken.error->code = "bad_video";
    const std::string log = test::stderr_of([&] {
      RecordFile file(path, Format::kJsonl, kManifest, Existing::kOverwrite);
      file.append(sample_record("a.mp4"));
      file.append(broken);
      CHECK(file.finish() == RecordFile::Ending::kOldHasCaptions);
    });
    CHECK(log == "");  // nothing is to be said of lines that are not moved
    CHECK(read_file(path) == before);
  }

  TEST_CASE("a link to an output that is not there yet has the manifest beside its target") {
    const Folder folder;
    fs::create_directory(folder / "disk");
    fs::create_symlink("disk/c.jsonl", folder / "c.jsonl");
    write_records(folder / "c.jsonl", {sample_record("a.mp4")});
    CHECK(fs::is_symlink(folder / "c.jsonl"));
    CHECK(fs::exists(folder / "disk/c.jsonl.manifest.json"));
    CHECK_FALSE(fs::exists(folder / "c.jsonl.manifest.json"));
    CHECK(refusal(folder / "c.jsonl") == "");
    // Links that lead to each other, and to a folder that is missing.
    fs::create_symlink(folder / "y.jsonl", folder / "x.jsonl");
    fs::create_symlink(folder / "x.jsonl", folder / "y.jsonl");
    CHECK(contains(refusal(folder / "x.jsonl"), "x.jsonl: cannot open for writing"));
    fs::create_symlink("missing/z.jsonl", folder / "z.jsonl");
    CHECK(contains(refusal(folder / "z.jsonl"), "missing/z.jsonl: cannot open for writing"));
  }

  TEST_CASE("records of settings that the manifest does not name are counted in a warning") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_records(folder / "other.jsonl", {sample_record("b.mp4")}, Existing::kResume, kOther);
    write_records(path, {sample_record("a.mp4")});
    write_file(path, read_file(path) + read_file(folder / "other.jsonl"));
    const std::string log = test::stderr_of([&] { CHECK(refusal(path) == ""); });
    CHECK(contains(log,
                   "c.jsonl: 1 record was made with settings that c.jsonl.manifest.json does not "
                   "name; it does not count"));
  }

  TEST_CASE("a byte order mark stays before the first record, and a csv is named as one") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_records(path, {sample_record("a.mp4"), sample_record("b.mp4")});
    write_file(path, "\xEF\xBB\xBF" + read_file(path));
    const std::string before = read_file(path);
    write_records(path, {sample_record("c.mp4")});
    CHECK(read_file(path).starts_with(before));
    write_file(path, format_file_header(Format::kCsv));
    CHECK(contains(refusal(path), "c.jsonl: holds captions as csv"));
  }

  TEST_CASE("a foreign FILE.replaced is to be moved away") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_records(path, {sample_record("a.mp4")});
    write_file(folder / "c.jsonl.replaced", "notes\n");
    const std::string text = refusal(path);
    CHECK(contains(text, "c.jsonl.replaced:1: not a caption record"));
    CHECK(text.ends_with("mend or remove the line, or move the file away"));
  }

  TEST_CASE("a folder under the name of FILE.replaced is named before the first clip") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    fs::create_directory(folder / "c.jsonl.replaced");
    CHECK(contains(refusal(path), "c.jsonl.replaced: is no file of its own; move it away"));
  }

  TEST_CASE("a run beside an interrupted --overwrite says that it does not read its records") {
    const Folder folder;
    const fs::path path = folder / "c.jsonl";
    write_records(path, {sample_record("a.mp4")});
    RecordFile(path, Format::kJsonl, kManifest, Existing::kOverwrite)
        .append(sample_record("a.mp4"));
    const auto resume = [&] { CHECK(refusal(path) == ""); };
    CHECK(contains(test::stderr_of(resume), "c.jsonl.new: an --overwrite was interrupted"));
    fs::remove(folder / "c.jsonl.new");
    CHECK(test::stderr_of(resume) == "");
  }
}

}  // namespace
}  // namespace caption::records
