// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/structure.h"

namespace lockstep::nn {

void Structure::clear() {
  parameters.clear();
  stays.clear();
  states.clear();
}

void Structure::add(const Block& block) {
  states.push_back(block.state());
  for (const NamedParameter& named : block.own_parameters()) {
    parameters.push_back(named.parameter.identity());
    stays.push_back(named.parameter.is_frozen() ||
                    named.parameter.grad_mode() == autograd::GradMode::off);
  }
  for (const Block::Child& child : block.children()) add(*child.block);
}

}  // namespace lockstep::nn
