// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/call_watch.h"

#include "lockstep/nn/detail/call_observer.h"

namespace lockstep::nn {

// Whoever watched before goes on watching.
class CallWatch::Observer final : public detail::CallObserver {
 public:
  explicit Observer(std::function<void(const Block&)> on_begin) : on_begin_(std::move(on_begin)) {}
  void begin(const Block& block) override {
    if (outer() != nullptr) outer()->begin(block);
    on_begin_(block);
  }
  void end(const Block& block, const std::vector<Tensor>& outputs) override {
    if (outer() != nullptr) outer()->end(block, outputs);
  }

 private:
  std::function<void(const Block&)> on_begin_;
};

CallWatch::CallWatch(std::function<void(const Block&)> on_begin)
    : observer_(std::make_unique<Observer>(std::move(on_begin))) {}
CallWatch::~CallWatch() = default;

}  // namespace lockstep::nn
