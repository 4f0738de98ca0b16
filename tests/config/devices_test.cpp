// Tests of the choice of devices.
#include "config/devices.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "config/load_preset.h"
#include "config/resolve.h"

namespace caption::config {
namespace {

CudaDevice gpu(int ordinal, const char* name, int major, int minor) {
  return {.name = name, .ordinal = ordinal, .compute_major = major, .compute_minor = minor};
}

// A machine whose GPU 1 cannot run the kernels.
Machine machine_of_three() {
  Machine machine;
  machine.cuda_devices = {gpu(0, "L4", 8, 9), gpu(2, "A10", 8, 6), gpu(3, "H100", 9, 0)};
  return machine;
}

Preset preset_of(const std::string& devices) {
  Preset preset;
  preset.name = "l4";
  preset.device.type = DeviceType::kCuda;
  preset.device.devices = devices;
  return preset;
}

std::vector<int> ordinals(const std::string& devices, const Machine& machine) {
  std::vector<int> numbers;
  for (const Context& context : run_contexts(preset_of(devices), machine, CpuTier::kReference)) {
    CHECK(context.device.is_cuda());
    numbers.push_back(context.device.ordinal());
  }
  return numbers;
}

TEST_SUITE("config/devices") {
  TEST_CASE("GPUs are those that are named, in their order, all, or the first") {
    Machine machine = machine_of_three();
    CHECK(ordinals("first", machine) == std::vector<int>{0});
    CHECK(ordinals("0,2", machine) == std::vector<int>{0, 2});
    CHECK(ordinals("2,0", machine) == std::vector<int>{2, 0});
    CHECK(ordinals("3", machine) == std::vector<int>{3});
    machine.cuda_devices.pop_back();
    CHECK(ordinals("all", machine) == std::vector<int>{0, 2});
    CHECK(num_devices(preset_of("all"), machine) == 2);
    CHECK(num_devices(preset_of("0,1,2,3"), {}) == 4);
    CHECK(num_devices(preset_of("all"), {}) == 1);
    CHECK(num_devices(preset_of("first"), machine) == 1);
    machine.cuda_devices.erase(machine.cuda_devices.begin());
    CHECK(ordinals("first", machine) == std::vector<int>{2});  // as the driver counts
    const Preset on_cpu;
    CHECK(run_contexts(on_cpu, machine, CpuTier::kReference).size() == 1);
    CHECK(run_context(on_cpu, machine, CpuTier::kReference).device == Device::kCpu);
  }

  TEST_CASE("what cannot be is refused in one sentence") {
    struct Case {
      const char* devices;
      ErrorCode code;
      const char* message;
    };
    constexpr Case kCases[] = {
        {"0,0", ErrorCode::kUsage, "--devices 0,0: GPU 0 is named twice; name each once"},
        {"0,", ErrorCode::kUsage,
         "--devices 0,: give the numbers of GPUs with commas between them (0,1), all, or first"},
        {"", ErrorCode::kUsage,
         "--devices : give the numbers of GPUs with commas between them (0,1), all, or first"},
        {"-1", ErrorCode::kUsage,
         "--devices -1: give the numbers of GPUs with commas between them (0,1), all, or first"},
        {"cuda:0", ErrorCode::kUsage,
         "--devices cuda:0: give the numbers of GPUs with commas between them (0,1), all, or "
         "first"},
        {"0,1", ErrorCode::kUnavailable,
         "--devices 0,1: GPU 1 is not here, or cannot run the kernels; here: GPU 0 (L4), GPU 2 "
         "(A10), GPU 3 (H100)"},
        {"all", ErrorCode::kUsage,
         "--devices all: GPU 0 (L4) computes as \"cuda ampere\" and GPU 3 (H100) as \"cuda "
         "hopper\", so a caption would depend on which made it; name GPUs of one kind"},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.devices);
      try {
        chosen_gpus(preset_of(c.devices), machine_of_three());
        FAIL_CHECK("was accepted");
      } catch (const Error& error) {
        CHECK(error.code() == c.code);
        CHECK(std::string(error.what()) == c.message);
      }
    }
    Preset on_cpu = preset_of("all");
    on_cpu.device.type = DeviceType::kCpu;
    CHECK_THROWS_WITH_AS(require_consistent(on_cpu),
                         "--devices all: the model runs on the CPU; add --device cuda, or leave "
                         "--devices out",
                         Error);
  }

  TEST_CASE(
      "GPUs for a model on the CPU: whether one is here, and whether an option names the CPU") {
    Preset on_cpu = preset_of("0,1");
    on_cpu.device.type = DeviceType::kCpu;
    const auto refusal = [&](const Machine& machine) {
      try {
        require_device_list(on_cpu, machine);
      } catch (const Error& error) {
        return std::string(error.code() == ErrorCode::kUsage ? "usage: " : "unavailable: ") +
               error.what();
      }
      return std::string("none");
    };
    Machine without_gpu;
    without_gpu.cuda_status = "no CUDA: no driver";
    const std::string on_gpus = refusal(machine_of_three());
    const std::string elsewhere = refusal(without_gpu);
    if (has_cuda_kernels()) {
      CHECK(on_gpus ==
            "usage: --devices 0,1: the model runs on the CPU; add --device cuda, or leave "
            "--devices out");
      CHECK(elsewhere ==
            "unavailable: --devices 0,1: no CUDA: no driver; without --devices the model runs on "
            "the CPU");
    } else {
      CHECK(elsewhere ==
            "unavailable: --devices 0,1 needs CUDA kernels, which this build does not have; "
            "without --devices the model runs on the CPU");
      CHECK(on_gpus == elsewhere);
    }
    on_cpu.device.given_by = "--device cpu";
    CHECK(refusal(without_gpu) ==
          "usage: --devices 0,1: --device cpu runs the model on the CPU; leave one of the two "
          "options out");
    on_cpu.device.devices = "first";
    CHECK(refusal(without_gpu) == "none");
  }
}

}  // namespace
}  // namespace caption::config
