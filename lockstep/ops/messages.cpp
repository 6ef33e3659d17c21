// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/messages.h"

namespace lockstep::detail {
namespace {

std::string renamed(std::string_view name, std::string_view message) {
  const std::size_t colon = message.find(": ");
  const std::size_t rest = colon == std::string_view::npos ? 0 : colon + 2;
  return fmt::format("{}: {}", name, message.substr(rest));
}

}  // namespace

void rethrow_named(std::string_view name) {
  try {
    throw;
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(renamed(name, error.what()));
  } catch (const Unsupported& error) {
    throw Unsupported(renamed(name, error.what()));
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(renamed(name, error.what()));
  }
}

}  // namespace lockstep::detail
