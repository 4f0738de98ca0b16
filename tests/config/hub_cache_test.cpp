// Names of models in the local Hugging Face cache.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/download_advice.h"
#include "config/hub_cache.h"
#include "tests/support/other_user.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using config::find_in_hub_cache;

fs::path make_cache(const char* name) {
  const fs::path cache = fs::path(CAPTION_TEST_TMP) / "hf" / name;
  fs::remove_all(cache);
  const fs::path repository = cache / "models--org--small-model";
  fs::create_directories(repository / "snapshots/aaa");
  fs::create_directories(repository / "snapshots/bbb");
  fs::create_directories(repository / "refs");
  return cache;
}

std::string refusal(std::string_view name, const std::vector<fs::path>& caches = {}) {
  try {
    find_in_hub_cache(name, caches);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadModel);
    return error.what();
  }
  FAIL_CHECK("resolved");
  return "";
}

TEST_SUITE("config/hub_cache") {
  TEST_CASE("a folder is itself") {
    CHECK(find_in_hub_cache(CAPTION_TEST_TMP, {}) == fs::path(CAPTION_TEST_TMP));
  }

  TEST_CASE("a name is the snapshot that refs/main names, else the only one") {
    const fs::path cache = make_cache("hub");
    const fs::path snapshots = cache / "models--org--small-model/snapshots";
    const fs::path ref = cache / "models--org--small-model/refs/main";
    const std::string neither = snapshots.string() + " holds aaa, bbb; name one of these folders";
    const auto refuses = [&](const std::string& why) {
      const std::string message = refusal("org/small-model", {cache});
      return message.find(why) != std::string::npos && message.find(neither) != std::string::npos;
    };
    CHECK(refuses("refs/main names no snapshot"));
    std::ofstream(ref) << "bbb\n";
    CHECK(find_in_hub_cache("org/small-model", {cache}) == snapshots / "bbb");
    std::ofstream(ref) << "ccc";
    CHECK(refuses("refs/main names the snapshot ccc, which is missing"));
    // A hostile reference must not lead out of the cache.
    std::ofstream(ref) << "../../..";
    CHECK(refuses("refs/main names no snapshot"));
    fs::remove(snapshots / "aaa");
    for (const char* const stale : {"ccc", "../../..", ""}) {
      CAPTURE(stale);
      std::ofstream(ref) << stale;
      CHECK(find_in_hub_cache("org/small-model", {cache}) == snapshots / "bbb");
    }
    fs::remove(ref);
    CHECK(find_in_hub_cache("org/small-model", {cache}) == snapshots / "bbb");
    fs::remove(snapshots / "bbb");
    CHECK(refusal("org/small-model", {cache}).find("neither a folder here") != std::string::npos);
  }

  TEST_CASE("the caches are searched in their order") {
    const fs::path first = make_cache("first");
    const fs::path second = make_cache("second");
    for (const fs::path& cache : {first, second}) {
      std::ofstream(cache / "models--org--small-model/refs/main") << "aaa";
    }
    const auto repository = [](const fs::path& cache) {
      return cache / "models--org--small-model";
    };
    CHECK(find_in_hub_cache("org/small-model", {first, second}) ==
          repository(first) / "snapshots/aaa");
    fs::remove_all(repository(first));
    CHECK(find_in_hub_cache("org/small-model", {first, second}) ==
          repository(second) / "snapshots/aaa");
  }

  TEST_CASE("a name that is nowhere says where it looked and how to get it") {
    const std::string message =
        refusal("org/absent", {"/nonexistent/hub", "/nonexistent/home/hub"});
    CHECK(message.find("/nonexistent/hub") != std::string::npos);
    CHECK(message.find("/nonexistent/home/hub") != std::string::npos);
    CHECK(message.find("hf download org/absent") != std::string::npos);
  }

  TEST_CASE("what cannot be examined is not said to be absent") {
    const fs::path cache = make_cache("refused");
    const fs::path repository = cache / "models--org--small-model";
    fs::remove(repository / "snapshots/bbb");
    const fs::path loop = cache / "loop";
    fs::create_symlink("loop", loop);
    const std::string leads_back = "Too many levels of symbolic links";
    CHECK(refusal(loop.string()).find("loop: cannot be opened: " + leads_back) !=
          std::string::npos);
    fs::remove_all(repository / "snapshots");
    fs::create_symlink("snapshots", repository / "snapshots");
    CHECK(refusal("org/small-model", {cache, "/nonexistent/hub"})
              .find("(" + cache.string() + ": cannot be listed: " + leads_back) !=
          std::string::npos);
    const fs::path second = make_cache("readable");
    fs::remove(second / "models--org--small-model/snapshots/bbb");
    CHECK(find_in_hub_cache("org/small-model", {cache, second}) ==
          second / "models--org--small-model/snapshots/aaa");
  }

  TEST_CASE("a refs/main that cannot be read is an error of the model") {
    const fs::path cache = make_cache("ref");
    const fs::path ref = cache / "models--org--small-model/refs/main";
    std::ofstream(ref) << "bbb";
    fs::permissions(ref, fs::perms::none);
    const test::OtherUser other;
    std::error_code error;
    if (!fs::exists(ref, error)) {
      MESSAGE("other users may not enter the folder of the tests; not tested");
      return;
    }
    CHECK(refusal("org/small-model", {cache}).find("Permission denied") != std::string::npos);
  }

  TEST_CASE("nothing that this build cannot run is offered for download") {
    struct Case {
      const char* name;
      const char* advice;
    };
    constexpr Case kCases[] = {
        {"llava-hf/LLaVA-NeXT-Video-7B-hf",
         "; get it with `hf download llava-hf/LLaVA-NeXT-Video-7B-hf`"},
        {"openai/clip-vit-large-patch14-336", "; for a composed model, get it with `hf download"},
        {"Qwen/Qwen3-VL-8B-Instruct", "; get it with `hf download Qwen/Qwen3-VL-8B-Instruct`"},
        {"OpenGVLab/InternVL3_5-14B-HF",
         "; get it with `hf download OpenGVLab/InternVL3_5-14B-HF`"},
        {"Qwen/Qwen3-8B", "; for a composed model, get it with `hf download Qwen/Qwen3-8B`"},
        {"org/absent",
         "; if it is of a family that this build runs (see the README), get it with `hf download"},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.name);
      CHECK(refusal(c.name).find(c.advice) != std::string::npos);
    }
    // The demonstration model comes with the program alone.
    const std::string demo = config::advise_download("samples/demo-model").text;
    CHECK(demo.starts_with("it is the demonstration model, which is on no hub; "));
    CHECK(demo.find("hf download") == std::string::npos);
  }

  TEST_CASE("a known model is answered with what it needs") {
    const std::string message = refusal("Qwen/Qwen2.5-VL-7B-Instruct");
    CHECK(message.find("; about 16.6 GB to download; its weights take 16.6 GB in bf16, ") !=
          std::string::npos);
    CHECK(refusal("llava-hf/LLaVA-NeXT-Video-7B-hf").find("preset t4 is made for it") !=
          std::string::npos);
    // A short name stands for the name on the hub.
    CHECK(refusal("qwen2.5-vl-7b") == message);
    CHECK(
        refusal("Qwen/Qwen3-VL-4").find("; the nearest known name is Qwen/Qwen3-VL-4B-Instruct") !=
        std::string::npos);
    CHECK(refusal("Qwen3-VL-4B-Instruct").find("Qwen/Qwen3-VL-4B-Instruct") != std::string::npos);
    CHECK(refusal("elsewhere/of-another-kind-altogether-70b").find("nearest") == std::string::npos);
  }

  TEST_CASE("weights of a kind that this build does not read are not to be downloaded") {
    try {
      find_in_hub_cache("Qwen/Qwen2.5-VL-7B-Instruct-NVFP4", {});
      FAIL_CHECK("resolved");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kUnavailable);
      const std::string message = error.what();
      CHECK(message.find("do not download it") != std::string::npos);
      CHECK(message.find("Qwen/Qwen2.5-VL-7B-Instruct runs") != std::string::npos);
    }
  }

  TEST_CASE("a mixture of experts is recognised by its name and not to be downloaded") {
    const char* const kNames[] = {"Qwen/Qwen3-VL-30B-A3B-Instruct",
                                  "Qwen/Qwen3-VL-235B-A22B-Thinking-FP8",
                                  "OpenGVLab/InternVL3_5-30B-A3B-HF",
                                  "OpenGVLab/InternVL3_5-GPT-OSS-20B-A4B-Preview",
                                  "Qwen/Qwen1.5-MoE-A2.7B",
                                  "mistralai/Mixtral-8x7B-Instruct-v0.1",
                                  "openai/gpt-oss-20b"};
    for (const char* const name : kNames) {
      CAPTURE(name);
      try {
        find_in_hub_cache(name, {});
        FAIL_CHECK("resolved");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kUnavailable);
        const std::string message = error.what();
        CHECK(message.find("is a mixture of experts") != std::string::npos);
        const bool is_near = std::string_view(name).ends_with("VL-30B-A3B-Instruct");
        CHECK((!is_near ||
               message.find("the nearest known names are Qwen/Qwen3-VL-") != std::string::npos));
      }
    }
    for (const char* const name :
         {"org/A-model-7B", "org/ab-1B", "llava-hf/llava-x7b", "Qwen/Qwen3-8B"}) {
      CAPTURE(name);
      CHECK(refusal(name).find("experts") == std::string::npos);
    }
  }

  TEST_CASE("what is neither a folder nor a name is refused") {
    CHECK(refusal("/no/such/folder").find("no such folder") != std::string::npos);
    CHECK(refusal("").find("no such folder") != std::string::npos);
    CHECK(refusal("dem0").ends_with(
        "; give a model's folder, a GGUF file or its name on the hub, or demo for the "
        "demonstration model"));
    CHECK(refusal("full/nope.gguf").find("full/nope.gguf: no such file; name a GGUF file") !=
          std::string::npos);
    CHECK(refusal("org/../etc").find("no such folder") != std::string::npos);
    const fs::path file = fs::path(CAPTION_TEST_TMP) / "a_file";
    std::ofstream(file) << "x";
    CHECK(refusal(file.string()).find("is a file; a model is a folder") != std::string::npos);
    const fs::path fifo = fs::path(CAPTION_TEST_TMP) / "a_fifo.gguf";
    fs::remove(fifo);
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    CHECK(refusal(fifo.string()).find("is a FIFO, not a regular file; a model is a folder") !=
          std::string::npos);
    CHECK(refusal("/dev/null").find("is a device, not a regular file") != std::string::npos);
  }
}

}  // namespace
}  // namespace caption
