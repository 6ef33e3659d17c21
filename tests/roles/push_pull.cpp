// SPDX-License-Identifier: Apache-2.0
// A user's program with a store that servers keep, as MXNet's test of it does: worker r pushes
// r + 1, so that after i rounds the value is 1 + i (n + 1) n / 2. Its first word is the store.
#include <fmt/core.h>

#include "lockstep/kvstore/kvstore.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/join_job.h"

using namespace lockstep;

namespace {

constexpr int kRounds = 3;

void push_and_pull(const char* type) {
  const train::OwnJob own = train::join_job();
  const auto store = kvstore::create(type, own.parts());
  store->init("weight", Tensor::full({2, 3}, 1.0F));
  store->set_optimizer(optim::sgd({.learning_rate = 1.0}), -1.0);
  store->barrier();
  for (int round = 0; round < kRounds; ++round)
    store->push("weight", {Tensor::full({2, 3}, static_cast<float>(store->rank() + 1))});
  store->barrier();
  fmt::print("{} worker {} of {}: {}\n", store->type(), store->rank(), store->num_workers(),
             store->pull("weight").to_vector<float>()[5]);
  store->barrier();
}

}  // namespace

int main(int /*count*/, char** words) try {
  push_and_pull(words[1]);
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "push_pull: {}\n", error.what());
  return 1;
}
