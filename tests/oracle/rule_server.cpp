// SPDX-License-Identifier: Apache-2.0
// Runs update rules for tests/oracle/test_rules.py. A request is lines of text:
//   NAME STEPS COUNT KEY=VALUE...
//   the weights, then the gradients of each step, COUNT numbers a line
// The answer is the weights after the last step, one line.
#include <fmt/core.h>

#include <iostream>
#include <sstream>

#include "tests/optim/rule_runner.h"

namespace {

using namespace lockstep::optim;

struct Request {
  std::string name;
  int steps = 0;
  std::size_t count = 0;
  std::map<std::string, double> parameters;
};

Request parse(const std::string& line) {
  Request request;
  std::istringstream words(line);
  words >> request.name >> request.steps >> request.count;
  for (std::string word; words >> word;) {
    const std::size_t sign = word.find('=');
    request.parameters[word.substr(0, sign)] = std::stod(word.substr(sign + 1));
  }
  return request;
}

std::vector<float> read_floats(std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) std::cin >> value;
  std::cin.ignore();
  return values;
}

void answer(const Request& request) {
  const OptimizerPtr rule = make_optimizer(request.name, request.parameters);
  testing::RuleState state(*rule, read_floats(request.count));
  for (int step = 1; step <= request.steps; ++step)
    run_step(*rule,
             {.step = step,
              .learning_rate = rule->options().learning_rate,
              .weight_decay = rule->options().weight_decay},
             state, read_floats(request.count));
  for (const float weight : state.weight) fmt::print("{} ", weight);
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) answer(parse(line));
}
