// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/responder.h"
#include "bench/train_bench.h"

namespace lockstep::bench {

inline constexpr std::int64_t kFewestSteps = 6;  // two of them do not count

// `lockstep train` of so many steps on generated data, as a user runs it: its JSON line. `words`
// are its other options. Checkpoints and evaluations come once, after the last step. Throws IoError
// when it fails, which begins with `bench`.
Json train_once(const std::string& bench, const TrainCase& what, std::int64_t steps,
                const std::vector<std::string>& words);

// As many steps as take so long with these options.
std::int64_t steps_for(double seconds, const std::string& bench, const TrainCase& what,
                       const std::vector<std::string>& words);

}  // namespace lockstep::bench
