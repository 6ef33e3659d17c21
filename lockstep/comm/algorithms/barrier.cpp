// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/algorithms/movement.h"

// The dissemination barrier of Hensgen, Finkel and Manber (1988): in step k each rank tells the one
// 2^k places on and hears from the one 2^k places before; after log2(n) steps everybody has heard,
// directly or not, from everybody.
namespace lockstep::comm {

void barrier(const Call& call) {
  const int size = call.size();
  std::byte mine{1}, theirs{0};
  Exchange exchange;
  for (int step = 1; step < size; step *= 2) {
    exchange.send((call.rank() + step) % size, {&mine, 1});
    exchange.receive((call.rank() - step + size) % size, {&theirs, 1});
    exchange.run(call);
  }
}

}  // namespace lockstep::comm
