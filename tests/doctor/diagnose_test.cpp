#include "doctor/diagnose.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace caption::doctor {
namespace {

// Facts of a machine on which everything works.
Facts good_facts() {
  Facts facts;
  facts.machine.cpu_model = "A CPU";
  facts.machine.num_cpus = 8;
  facts.machine.memory_bytes = 32'000'000'000;
  facts.machine.cpu_features = {"avx2", "fma", "f16c", "avx512f", "avx512bw"};
  facts.num_online_cpus = 8;
  facts.available_memory_bytes = 30'000'000'000;
  facts.fastest_tier = CpuTier::kAvx2;
  facts.tier = CpuTier::kAvx2;
  PresetFacts automatic;
  automatic.name = "auto";
  automatic.is_default = true;
  automatic.note = "preset cpu chosen";
  automatic.model = "/models/demo";
  automatic.needed_bytes = 12'000'000;
  automatic.usable_bytes = 16'000'000'000;
  PresetFacts card;
  card.name = "l4";
  card.obstacles = {"this build lacks CUDA kernels"};
  facts.presets = {automatic, card};
  facts.dictionary = {.base_path = "/dict/ko", .is_there = true, .version = "0.7", .problem = {}};
  facts.libav_version = "libavcodec 59.37";
  facts.codecs = {{.name = "H.264", .is_widespread = true, .has_decoder = true},
                  {.name = "FFV1", .is_widespread = false, .has_decoder = true}};
  facts.open_file_limit = 1024;
  facts.cache = {.path = "/cache", .is_usable = true, .free_bytes = 1'000'000'000};
  facts.working_folder = {.path = "/here", .is_usable = true, .free_bytes = 50'000'000'000};
  return facts;
}

Finding find(const Facts& facts, const std::string& name) {
  const std::vector<Finding> findings = diagnose(facts);
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [&](const Finding& finding) { return finding.name == name; });
  REQUIRE_MESSAGE(found != findings.end(), name);
  return *found;
}

TEST_SUITE("doctor/diagnose") {
  TEST_CASE("where everything is there nothing is missing, and only hardware is noted") {
    const std::vector<Finding> findings = diagnose(good_facts());
    CHECK(count_missing(findings) == 0);
    for (const Finding& finding : findings) {
      CAPTURE(finding.name);
      const bool may_be_noted = finding.name == "GPU" || finding.name == "preset l4";
      CHECK((finding.state == State::kNote) == may_be_noted);
      CHECK_FALSE(finding.text.empty());
      CHECK(finding.remedy.empty());
    }
  }

  TEST_CASE("each lack is one finding of its own") {
    struct Case {
      const char* finding;
      State state;
      const char* text;  // expected part of the finding's text
      const char* remedy;
      std::function<void(Facts&)> change;
    };
    const std::vector<Case> kCases = {
        {"CPU tier", State::kMissing, "no tier is named", "unset CAPTION_CPU_TIER",
         [](Facts& facts) {
           facts.tier = std::nullopt;
           facts.tier_problem = "no tier is named \"x\"";
         }},
        {"CPU tier", State::kNote, "also runs avx2, which is faster", "unset CAPTION_CPU_TIER",
         [](Facts& facts) { facts.tier = CpuTier::kReference; }},
        {"memory", State::kNote, "500 MB of it available", "lower --threads",
         [](Facts& facts) { facts.available_memory_bytes = 500'000'000; }},
        {"presets", State::kMissing, "the default preset is neither", "--reinstall caption-cli",
         [](Facts& facts) { facts.presets.clear(); }},
        {"preset auto", State::kMissing, "does not run here: no model", "install caption-cli again",
         [](Facts& facts) { facts.presets[0].obstacles = {"no model"}; }},
        {"preset auto", State::kMissing, "take 20.0 GB of the 16.0 GB that", "caption-cli plan",
         [](Facts& facts) { facts.presets[0].needed_bytes = 20'000'000'000; }},
        {"dictionary", State::kMissing, "no /dict/ko.aff and .dic", "apt-get install hunspell-ko",
         [](Facts& facts) { facts.dictionary.is_there = false; }},
        {"dictionary", State::kMissing, "is not a Korean", "apt-get install hunspell-ko",
         [](Facts& facts) { facts.dictionary.problem = "ko.dic: is not a Korean dictionary"; }},
        {"decoders", State::kMissing, "no decoder for H.264", "libavcodec-extra",
         [](Facts& facts) { facts.codecs[0].has_decoder = false; }},
        {"decoders", State::kNote, "H.264; no decoder for FFV1", "libavcodec-extra",
         [](Facts& facts) { facts.codecs[1].has_decoder = false; }},
        {"open files", State::kMissing, "at most 16", "ulimit -n 1024",
         [](Facts& facts) { facts.open_file_limit = 16; }},
        {"open files", State::kNote, "clips may fail below 56", "ulimit -n 1024",
         [](Facts& facts) { facts.open_file_limit = 55; }},
        {"cache", State::kNote, "/cache cannot be written", "XDG_CACHE_HOME",
         [](Facts& facts) { facts.cache.is_usable = false; }},
        {"cache", State::kNote, "neither XDG_CACHE_HOME nor HOME", "XDG_CACHE_HOME",
         [](Facts& facts) { facts.cache = {}; }},
        {"disk", State::kNote, "3.00 MB free in /here", "another disk",
         [](Facts& facts) { facts.working_folder.free_bytes = 3'000'000; }},
        {"disk", State::kNote, "/here cannot be written", "another folder",
         [](Facts& facts) { facts.working_folder.is_usable = false; }},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.finding);
      CAPTURE(c.text);
      Facts facts = good_facts();
      c.change(facts);
      const Finding finding = find(facts, c.finding);
      CHECK(finding.state == c.state);
      CHECK(finding.text.find(c.text) != std::string::npos);
      CHECK(finding.remedy.find(c.remedy) != std::string::npos);
      CHECK(count_missing(diagnose(facts)) == (c.state == State::kMissing ? 1 : 0));
    }
  }

  TEST_CASE("the tier says what the next one would need") {
    Facts facts = good_facts();
    CHECK(find(facts, "CPU tier").text ==
          "avx2: the fastest that this CPU runs; avx512 would need avx512dq, avx512vl");
    facts.tier = facts.fastest_tier = CpuTier::kAvx512Bf16;
    facts.machine.cpu_features = {"amx-tile", "amx-bf16", "amx-int8"};
    CHECK(find(facts, "CPU tier").text.find("amx is not granted by the system") !=
          std::string::npos);
    facts.tier = facts.fastest_tier = CpuTier::kAmx;
    CHECK(find(facts, "CPU tier").text == "amx: the fastest there is");
  }

  TEST_CASE("the dictionary is named without who made it") {
    Facts facts = good_facts();
    facts.dictionary.version = "dict-ko 0.7 (requires Hunspell 1.3) https://example.org";
    CHECK(find(facts, "dictionary").text == "/dict/ko, dict-ko 0.7");
    facts.dictionary.version.clear();
    CHECK(find(facts, "dictionary").text == "/dict/ko");
  }

  TEST_CASE("a part of the machine's cores is named as such") {
    Facts facts = good_facts();
    CHECK(find(facts, "processor").text == "A CPU, 8 cores");
    facts.num_online_cpus = 64;
    facts.machine.num_cpus = 1;
    CHECK(find(facts, "processor").text ==
          "A CPU, 1 core of 64 for this process (its affinity or control group)");
  }

  TEST_CASE("a card without CUDA kernels or driver is a note, one that kernels use is not") {
    Facts facts = good_facts();
    CHECK(find(facts, "GPU").text ==
          "no NVIDIA card; this version has no CUDA kernels and runs on the CPU");
    facts.nvidia = {.num_cards = 2, .driver_version = {}};
    CHECK(find(facts, "GPU").text ==
          "2 NVIDIA cards, no driver loaded; this version has no CUDA kernels and runs on the CPU");
    facts.nvidia = {.num_cards = 1, .driver_version = "550.54.15"};
    CHECK(find(facts, "GPU").text.starts_with("1 NVIDIA card, driver 550.54.15; "));
    facts.has_cuda_kernels = true;
    facts.machine.cuda_status = "no CUDA: K80 has compute capability 3.7; 7.5 or later is needed";
    CHECK(find(facts, "GPU").state == State::kNote);
    CHECK(find(facts, "GPU").text.find("compute capability 3.7") != std::string::npos);
    CHECK(find(facts, "GPU").remedy.empty());
    facts.nvidia.driver_version.clear();
    facts.machine.cuda_status = "no CUDA: there is no NVIDIA driver";
    CHECK(find(facts, "GPU").remedy.find("nvidia-driver") != std::string::npos);
    facts.machine.cuda_devices = {{.name = "L4", .memory_bytes = 24'000'000'000}};
    CHECK(find(facts, "GPU").state == State::kOk);
    CHECK(find(facts, "GPU").text == "L4, 24.0 GB");
  }

  TEST_CASE("a working folder that was removed is said to be gone") {
    Facts facts = good_facts();
    facts.working_folder = {};
    CHECK(find(facts, "disk").state == State::kNote);
    CHECK(find(facts, "disk").text == "the working folder does not exist any more");
    CHECK(find(facts, "disk").remedy == "cd to another folder");
  }

  TEST_CASE("without a limit of open files nothing is asked for") {
    Facts facts = good_facts();
    facts.open_file_limit = std::numeric_limits<std::int64_t>::max();
    CHECK(find(facts, "open files").text == "no limit");
  }
}

}  // namespace
}  // namespace caption::doctor
