// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/exchange.h"

#include "lockstep/comm/errors.h"

namespace lockstep::kvstore {
namespace {

constexpr char kGood = '+', kBad = '-';

// What went wrong first is what counts, even when nobody is left to hear it.
void tell_failure(Exchange& exchange, const std::string& what) {
  try {
    exchange.from_first(kBad + what);
  } catch (const std::exception&) {
  }
}

std::string do_and_tell(Exchange& exchange, const std::function<std::string()>& work) {
  std::string result;
  try {
    result = work();
  } catch (const std::exception& error) {
    tell_failure(exchange, error.what());
    throw;
  }
  exchange.from_first(kGood + result);
  return result;
}

}  // namespace

std::string first_does(Exchange* exchange, const std::function<std::string()>& work) {
  if (exchange == nullptr) return work();
  if (exchange->rank() == 0) return do_and_tell(*exchange, work);
  const std::string told = exchange->from_first("");
  if (told.starts_with(kGood)) return told.substr(1);
  throw comm::Aborted("worker 0 gave up: " + told.substr(1), 0, "", "train");
}

}  // namespace lockstep::kvstore
