// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace lockstep {

// A shared library that is loaded when its first function is called: a program that uses none of it
// starts without it. It stays loaded.
class LazyLibrary {
 public:
  // What its functions are looked up in, for example "libzmq.so.5"; `what` begins messages.
  constexpr LazyLibrary(const char* what, const char* name) : what_(what), name_(name) {}
  // Throws Unsupported when the library cannot be loaded or has no such symbol.
  void* find(const char* symbol);

 private:
  const char* what_;
  const char* name_;
  std::atomic<void*> handle_ = nullptr;
};

// One function of such a library, called as if it had been linked.
template <class Function>
class LazyCall;

template <class Result, class... Arguments>
class LazyCall<Result(Arguments...)> {
 public:
  constexpr LazyCall(LazyLibrary& library, const char* symbol)
      : library_(library), symbol_(symbol) {}

  Result operator()(Arguments... arguments) {
    auto* function = function_.load(std::memory_order_acquire);
    if (function == nullptr) {
      function = reinterpret_cast<Result (*)(Arguments...)>(library_.find(symbol_));
      function_.store(function, std::memory_order_release);
    }
    return function(arguments...);
  }

 private:
  LazyLibrary& library_;
  const char* symbol_;
  std::atomic<Result (*)(Arguments...)> function_ = nullptr;
};

}  // namespace lockstep
