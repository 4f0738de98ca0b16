// From what the user named to the list of clips.
#include "pipeline/find_videos.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "pipeline/threads.h"

namespace caption::pipeline {
namespace {

namespace fs = std::filesystem;

class Tree {
 public:
  Tree() {
    std::string name = fs::temp_directory_path() / "caption_tree_XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  ~Tree() { fs::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  void add(const std::string& name) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << name;
  }
  std::string at(const std::string& name) const { return (root_ / name).string(); }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

TEST_SUITE("pipeline/find_videos") {
  TEST_CASE(
      "folders are walked whole and in order; hidden, linked and special files are left out") {
    const Tree tree;
    for (const char* name : {"b.mp4", "a/z.mkv", "a/notes.txt", "B.mp4", ".hidden.mp4", ".git/x"}) {
      tree.add(name);
    }
    REQUIRE(::mkfifo(tree.at("fifo.mp4").c_str(), 0600) == 0);
    fs::create_directory_symlink(tree.root(), tree.root() / "a/loop");
    const FoundVideos found = find_videos({tree.root().string()});
    std::vector<std::string> names;
    for (const Input& input : found.inputs) {
      CHECK(input.origin == Origin::kFolderWalk);
      names.push_back(fs::path(input.path).lexically_relative(tree.root()).string());
    }
    CHECK(names == std::vector<std::string>{"B.mp4", "a/notes.txt", "a/z.mkv", "b.mp4"});
  }

  TEST_CASE("a clip named twice is one clip, under the name it had first") {
    const Tree tree;
    tree.add("a.mp4");
    const std::string other = tree.root().string() + "/./a.mp4";
    const FoundVideos found = find_videos({other, tree.at("a.mp4"), tree.root().string()});
    REQUIRE(found.inputs.size() == 1);
    CHECK(found.inputs[0].path == other);
    CHECK(found.inputs[0].origin == Origin::kNamed);
    CHECK(found.num_duplicates == 2);
  }

  TEST_CASE("what does not exist stays in the list, so that it gets a record") {
    const FoundVideos found = find_videos({"/no/such/file.mp4"});
    REQUIRE(found.inputs.size() == 1);
    CHECK(found.inputs[0].origin == Origin::kNamed);
  }

  TEST_CASE("a name claims to be a video by its suffix, in any case") {
    CHECK(claims_to_be_video("a/b.MP4"));
    CHECK(claims_to_be_video("b.webm"));
    CHECK_FALSE(claims_to_be_video("b.mp4.txt"));
    CHECK_FALSE(claims_to_be_video("mp4"));
  }

  TEST_CASE("every stage has a thread, and the engine keeps most of them") {
    for (int threads = 1; threads <= 256; ++threads) {
      const ThreadPlan plan = plan_threads(threads);
      CAPTURE(threads);
      CHECK(plan.decode >= 1);
      CHECK(plan.vision >= 1);
      CHECK(plan.engine >= plan.vision);
      CHECK(plan.vision + plan.engine <= threads + 1);
    }
  }
}

}  // namespace
}  // namespace caption::pipeline
