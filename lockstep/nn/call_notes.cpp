// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/call_notes.h"

namespace lockstep::nn {
namespace {

thread_local CallNotes* current = nullptr;

}  // namespace

CallNotes::CallNotes(const Block& block) : block_(block), outer_(current) { current = this; }

CallNotes::~CallNotes() { current = outer_; }

CallNotes* CallNotes::of(const Block& block) {
  return current != nullptr && &current->block_ == &block ? current : nullptr;
}

}  // namespace lockstep::nn
