// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <latch>
#include <sstream>

#include "lockstep/tensor/tensor.h"
#include "tests/message.h"
#include "tests/tensor/test_device.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::TestDevice;
using Floats = std::vector<float>;

const Floats kSix{1, 2, 3, 4, 5, 6};

TEST(Backend, ContentsGoToTheDeviceAndBack) {
  const auto device = TestDevice::make();
  const Tensor x = Tensor::from(kSix, {2, 3}).to(device->device());
  EXPECT_EQ(x.device(), device->device());
  EXPECT_EQ(x.to(cpu()).to_vector<float>(), kSix);
  const Tensor column = x.window({2}, {3}, 1);
  EXPECT_EQ(column.to(cpu()).to_vector<float>(), (Floats{2, 5}));
  EXPECT_EQ(column.copy().to(cpu(1)).to_vector<float>(), (Floats{2, 5}));
}

TEST(Backend, TheHostIsToldToCopyWhatItCannotRead) {
  const auto device = TestDevice::make({.index = 2});
  const Tensor x = Tensor::scalar(1.0, DType::float32, device->device());
  const std::string told =
      "tensor: float32[] is on test(2), whose memory the host cannot read: copy it with to(cpu())";
  EXPECT_EQ(message_of([&] { x.data<float>(); }), told);
  EXPECT_EQ(message_of([&] { x.item(); }), told);
  EXPECT_EQ(message_of([&] { x.to_vector<float>(); }), told);
}

TEST(BackendDeathTest, TheDevicesAddressesAreNotTheHosts) {
  const auto device = TestDevice::make();
  const Tensor x = Tensor::zeros({4}, DType::float32, device->device());
  EXPECT_DEATH(*reinterpret_cast<volatile float*>(x.address()) = 1.0F, "");
}

TEST(Backend, NothingRunsBeforeSomebodyWaits) {
  const auto device = TestDevice::make();
  bool ran = false;
  const Event first = device->submit([&](const MemoryMap&) { ran = true; });
  const Event second = device->submit([](const MemoryMap&) {});
  EXPECT_EQ(device->waiting(), 2U);
  first.wait();
  EXPECT_TRUE(ran);
  EXPECT_EQ(device->waiting(), 1U);
  second.wait();
  EXPECT_TRUE(second.is_done());
}

TEST(Backend, WhatIsReadBeforeItIsThereIsNotANumber) {
  const auto device = TestDevice::make();
  const Tensor x = Tensor::from(kSix, {6}, device->device());
  Floats host(6);
  const Event there = device->copy_out(x.address(), std::as_writable_bytes(std::span(host)));
  for (float value : host) EXPECT_TRUE(std::isnan(value));
  there.wait();
  EXPECT_EQ(host, kSix);
}

TEST(Backend, TensorsAreMadeOnTheDevice) {
  const auto device = TestDevice::make();
  const Device there = device->device();
  const Tensor zeros = Tensor::zeros({2}, DType::int32, there);
  const Tensor full = Tensor::full({2}, 3.0, DType::float64, there);
  const Tensor flags = Tensor::from(std::vector<bool>{true, false}, {2}, there);
  EXPECT_EQ(zeros.to(cpu()).to_vector<int>(), (std::vector<int>{0, 0}));
  EXPECT_EQ(full.to(cpu()).to_vector<double>(), (std::vector<double>{3, 3}));
  EXPECT_EQ(flags.to(cpu()).to_vector<int>(), (std::vector<int>{1, 0}));
}

TEST(Backend, AssignmentsCrossDevicesAndBroadcast) {
  const auto device = TestDevice::make(), other = TestDevice::make({.index = 1});
  const Tensor here = Tensor::zeros({2, 3});
  const Tensor there = Tensor::zeros({2, 3}, DType::float64, device->device());
  there.assign(Tensor::from(Floats{1, 2, 3}, {3}));
  here.assign(there);
  EXPECT_EQ(here.to_vector<float>(), (Floats{1, 2, 3, 1, 2, 3}));
  there.assign(Tensor::from(kSix, {2, 3}, other->device()));
  EXPECT_EQ(there.to(other->device()).to(cpu()).to_vector<float>(), kSix);
}

// The source may be changed as soon as to() has returned.
TEST(Backend, ACopyIsWhatTheSourceWas) {
  const auto device = TestDevice::make();
  const Tensor x = Tensor::from(kSix, {6});
  const Tensor there = x.to(device->device());
  x.assign(Tensor::scalar(0.0));
  EXPECT_EQ(there.to(cpu()).to_vector<float>(), kSix);
}

TEST(Backend, FailuresAreToldOnceByTheNextWait) {
  const auto device = TestDevice::make();
  device->submit([](const MemoryMap&) { throw InvalidArgument("late: refused"); });
  const Event after = device->submit([](const MemoryMap&) {});
  EXPECT_EQ(message_of([&] { after.wait(); }), "late: refused");
  after.wait();
  device->synchronize();
}

TEST(Backend, AWaitEndsByItsDeadlineAndNamesTheDevice) {
  const auto device = TestDevice::make({.index = 4});
  std::latch gate(1);
  const Event stuck = device->submit([&](const MemoryMap&) { gate.wait(); });
  EXPECT_EQ(message_of<IoError>([&] { stuck.wait(std::chrono::milliseconds(1)); }),
            "test(4): work 1 of the queue is not done after 1 ms");
  gate.count_down();
  stuck.wait();
}

TEST(Backend, EventsOfADeviceThatIsGoneSaySo) {
  auto device = TestDevice::make();
  const Event never = device->submit([](const MemoryMap&) {});
  device.reset();
  EXPECT_EQ(message_of<IoError>([&] { never.wait(); }), "test(0): the device is gone");
}

TEST(Backend, MemoryIsPooledAndCountedForEachDevice) {
  const auto device = TestDevice::make();
  const std::int64_t of_host = memory_stats().live_bytes;
  const std::byte* address = nullptr;
  {
    const Tensor x = Tensor::empty({1000}, DType::float32, device->device());
    address = x.address();
    EXPECT_EQ(memory_stats(device->device()).live_bytes, 4096);
    EXPECT_EQ(memory_stats().live_bytes, of_host);
  }
  EXPECT_EQ(memory_stats(device->device()).pooled_bytes, 4096);
  EXPECT_EQ(Tensor::empty({1000}, DType::float32, device->device()).address(), address);
  release_unused_memory(device->device());
  EXPECT_EQ(memory_stats(device->device()).pooled_bytes, 0);
}

TEST(Backend, TensorsKeepTheirDevice) {
  auto device = TestDevice::make();
  const std::weak_ptr<TestDevice> watch = device;
  {
    const Tensor x = Tensor::from(kSix, {6}, device->device());
    device.reset();
    EXPECT_EQ(x.to(cpu()).to_vector<float>(), kSix);
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Backend, ATensorOfADeviceIsPrinted) {
  const auto device = TestDevice::make();
  std::ostringstream text;
  text << Tensor::from(Floats{1, 2}, {2}, device->device());
  EXPECT_EQ(text.str(), "[1. 2.]\nfloat32[2] test(0)");
}

}  // namespace
}  // namespace lockstep
