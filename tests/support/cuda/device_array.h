// tests/support/cuda/device_array.h: an array in the emulated GPU's memory, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tensor/tensor.h"
#include "tests/support/cuda/emulator.h"

namespace caption::testing {

template <class T>
class DeviceArray {
 public:
  // Nobody has written the elements.
  explicit DeviceArray(std::size_t count)
      : begin_(cuda_emulator::allocate(count * sizeof(T))), count_(count) {}
  explicit DeviceArray(const std::vector<T>& elements) : DeviceArray(elements.size()) {
    cuda_emulator::copy_to_device(begin_, elements.data(), count_ * sizeof(T));
  }
  ~DeviceArray() { cuda_emulator::free(begin_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* begin() const { return reinterpret_cast<T*>(begin_); }
  // Throws Error(kInternal) when nobody has written an element.
  std::vector<T> elements() const {
    std::vector<T> all(count_);
    cuda_emulator::copy_from_device(all.data(), begin_, count_ * sizeof(T));
    return all;
  }

 private:
  std::byte* begin_;
  std::size_t count_;
};

}  // namespace caption::testing
