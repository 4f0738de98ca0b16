// Tests the conversion of the paths that the user named to the list of clips.
#include "pipeline/find_videos.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "pipeline/threads.h"

namespace caption::pipeline {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

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
  // Returns the found paths relative to the root of the tree.
  std::vector<std::string> names(const FoundVideos& found) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < found.inputs.size(); ++i) {
      names.push_back(fs::path(found.inputs.path(i)).lexically_relative(root_).string());
    }
    return names;
  }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

TEST_SUITE("pipeline/find_videos") {
  TEST_CASE("a run that is interrupted does not walk its folders to their end") {
    const Tree tree;
    tree.add("a.mp4");
    std::atomic<bool> cancelled{false};
    const std::string root = tree.root().string();
    CHECK(find_videos({root}, {}, {}, &cancelled).inputs.size() == 1);
    cancelled = true;
    try {
      find_videos({root}, {}, {}, &cancelled);
      FAIL("the folder was walked");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kCancelled);
    }
  }

  TEST_CASE("a filter sees paths below the folder that is walked") {
    const Tree tree;
    for (const char* name : {"a.mp4", "b.mkv", "old/c.mp4", "new/d.mp4", "new/old/e.mp4"}) {
      tree.add(name);
    }
    const std::string root = tree.root().string();
    const FoundVideos found = find_videos({root}, {}, PathFilter({"*.mp4"}, {"old"}));
    CHECK(tree.names(found) == Names{"a.mp4", "new/d.mp4"});
    CHECK(found.filtered.count == 3);  // b.mkv and two folders, which are not walked
    CHECK(describe_filtered(found) ==
          "3 files or folders were left out by --include and --exclude: " + root + "/b.mkv, " +
              root + "/new/old, " + root + "/old");
    // The named folder is walked although its name matches the filter.
    CHECK(tree.names(find_videos({tree.at("old/")}, {}, PathFilter({}, {"old"}))) ==
          Names{"old/c.mp4"});
    CHECK(tree.names(find_videos({root + "/"}, {}, PathFilter({"new/*"}, {"new/old/"}))) ==
          Names{"new/d.mp4"});
    CHECK(describe_filtered(find_videos({root})).empty());
  }

  TEST_CASE("files that are named are filtered as well") {
    const Tree tree;
    for (const char* name : {"a.mp4", "b.mkv"}) tree.add(name);
    const FoundVideos found =
        find_videos({tree.at("a.mp4"), tree.at("b.mkv")}, {}, PathFilter({}, {"*.mkv"}));
    CHECK(tree.names(found) == Names{"a.mp4"});
    CHECK(describe_filtered(found) ==
          "1 file or folder was left out by --exclude: " + tree.at("b.mkv"));
  }

  TEST_CASE("folders are walked whole and in order; hidden files are left out") {
    const Tree tree;
    for (const char* name : {"b.mp4", "a/z.mkv", "a/notes.txt", "B.mp4", ".hidden.mp4", ".git/x"}) {
      tree.add(name);
    }
    const FoundVideos found = find_videos({tree.root().string()});
    CHECK(tree.names(found) == Names{"B.mp4", "a/notes.txt", "a/z.mkv", "b.mp4"});
    for (std::size_t i = 0; i < found.inputs.size(); ++i) {
      CHECK(found.inputs.origin(i) == Origin::kFolderWalk);
    }
    CHECK(describe_skipped(found).empty());
    CHECK(found.num_hidden == 2);
    CHECK(describe_hidden(found) == "2 hidden files or folders were left out");
    CHECK(describe_hidden(find_videos({tree.at("a")})).empty());
  }

  TEST_CASE("linked folders are walked under every name, and cycles are cut and said") {
    const Tree tree;
    tree.add("real/v.mp4");
    tree.add("other/w.mp4");
    fs::create_directory_symlink(tree.root() / "real", tree.root() / "link");
    fs::create_directory_symlink(tree.root() / "other", tree.root() / "real/inner");
    fs::create_directory_symlink(tree.root(), tree.root() / "real/loop");
    const FoundVideos found = find_videos({tree.root().string()});
    CHECK(tree.names(found) ==
          Names{"link/inner/w.mp4", "link/v.mp4", "other/w.mp4", "real/inner/w.mp4", "real/v.mp4"});
    CHECK(found.num_duplicates == 0);
    CHECK(found.skipped_for(SkipReason::kCycle).count == 2);
    CHECK(describe_skipped(found) ==
          Names{"2 linked folders hold their own links and are not entered again: " +
                tree.at("link/loop") + ", " + tree.at("real/loop")});
  }

  TEST_CASE("folders that link to each other come to an end") {
    const Tree tree;
    constexpr int kNumFolders = 12;  // 12! paths
    for (int i = 0; i < kNumFolders; ++i) tree.add(std::to_string(i) + "/v.mp4");
    for (int i = 0; i < kNumFolders; ++i) {
      for (int j = 0; j < kNumFolders; ++j) {
        fs::create_directory_symlink(tree.root() / std::to_string(j),
                                     tree.root() / std::to_string(i) / ("to" + std::to_string(j)));
      }
    }
    const FoundVideos found = find_videos({tree.root().string()});
    CHECK(found.inputs.size() >= kNumFolders);
    CHECK(found.inputs.size() <= kNumFolders * kMaxWalksOfFolder);
    CHECK(found.skipped_for(SkipReason::kManyNames).count > 0);
  }

  TEST_CASE("what is neither file nor folder is counted and named") {
    const Tree tree;
    tree.add("v.mp4");
    for (const char* name : {"f1", "f2", "f3", "f4"}) {
      REQUIRE(::mkfifo(tree.at(name).c_str(), 0600) == 0);
    }
    fs::create_symlink("f1", tree.root() / "to_fifo");
    fs::create_symlink("nowhere", tree.root() / "gone.mp4");
    fs::create_symlink("self", tree.root() / "self");
    const FoundVideos found = find_videos({tree.root().string()});
    CHECK(tree.names(found) == Names{"v.mp4"});
    CHECK(describe_skipped(found) ==
          Names{"2 links lead nowhere: " + tree.at("gone.mp4") + ", " + tree.at("self"),
                "5 entries are FIFOs, sockets or devices: " + tree.at("f1") + ", " + tree.at("f2") +
                    ", " + tree.at("f3") + " and 2 more"});
  }

  TEST_CASE("a folder that cannot be read is no clip, and has a warning of its own") {
    const Tree tree;
    tree.add("w.mp4");
    // The path is longer than the system permits, so not even root can read it.
    const std::string name(250, 'd');
    int folder = ::open(tree.root().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int depth = 0; depth * 251 < PATH_MAX; ++depth) {
      REQUIRE(::mkdirat(folder, name.c_str(), 0700) == 0);
      const int inner = ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      ::close(folder);
      folder = inner;
    }
    ::close(folder);
    const FoundVideos found = find_videos({tree.root().string()});
    CHECK(tree.names(found) == Names{"w.mp4"});
    CHECK(found.inputs.num_unread_folders() == 1);
    CHECK(found.skipped_for(SkipReason::kUnreadable).count == 1);
    const Names said = describe_skipped(found);
    REQUIRE(said.size() == 1);
    CHECK(said[0].starts_with(tree.at(name)));
    CHECK(said[0].ends_with(name +
                            ": the folder cannot be read (File name too long); what is in it is "
                            "left out"));
  }

  TEST_CASE("a clip named twice is one clip, under the name it had first") {
    const Tree tree;
    tree.add("a.mp4");
    const std::string other = tree.root().string() + "/./a.mp4";
    const FoundVideos found = find_videos({other, tree.at("a.mp4"), tree.root().string()});
    REQUIRE(found.inputs.size() == 1);
    CHECK(found.inputs.path(0) == other);
    CHECK(found.inputs.origin(0) == Origin::kNamed);
    CHECK(found.num_duplicates == 2);
    CHECK(find_videos({tree.root().string(), tree.root().string() + "/./../" +
                                                 tree.root().filename().string() + "/a.mp4"})
              .inputs.size() == 1);
    CHECK(describe_skipped(found) ==
          Names{"2 paths name clips that are already in the list; each clip is captioned once"});
  }

  TEST_CASE("the way over a link and back is another way") {
    const Tree tree;
    tree.add("x/v.mp4");
    tree.add("elsewhere/v.mp4");
    tree.add("elsewhere/inside/w.mp4");
    fs::create_directory_symlink(tree.root() / "elsewhere/inside", tree.root() / "x/link");
    const FoundVideos found = find_videos({tree.at("x/v.mp4"), tree.at("x/link/../v.mp4")});
    CHECK(found.inputs.size() == 2);
  }

  TEST_CASE("arguments that do not exist are named together, before a list is read") {
    const Tree tree;
    tree.add("v.mp4");
    fs::create_symlink("nowhere", tree.root() / "gone.mp4");
    CHECK_THROWS_WITH_AS(find_videos({tree.at("v.mp4"), tree.at("no1"), "-", tree.at("no2"),
                                      tree.at("gone.mp4"), tree.at("no3"), ""},
                                     {.descriptor = -1}),
                         (tree.at("no1") + ", " + tree.at("no2") + ", " + tree.at("gone.mp4") +
                          " and 2 more: no such file or folder; nothing was done")
                             .c_str(),
                         Error);
  }

  TEST_CASE("a name claims to be a video by its suffix, in any case") {
    CHECK(claims_to_be_video("a/b.MP4"));
    CHECK(claims_to_be_video("b.webm"));
    CHECK_FALSE(claims_to_be_video("b.mp4.txt"));
    CHECK_FALSE(claims_to_be_video("mp4"));
    CHECK_FALSE(claims_to_be_video("a.mp4/b"));
    CHECK_FALSE(claims_to_be_video("a/.mp4"));
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
