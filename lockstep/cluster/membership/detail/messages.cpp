// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/messages.h"

#include <optional>

#include "lockstep/cluster/detail/fields.h"

namespace lockstep::cluster::detail {
namespace {

template <class T>
bool take_if(char kind, std::string_view fields, std::optional<Message>& message) {
  if (kind != T::kKind) return false;
  message = from_bytes<T>(fields);
  return true;
}

template <class... Ts>
std::optional<Message> decode_any(char kind, std::string_view fields,
                                  const std::variant<Ts...>* /*the types*/) {
  std::optional<Message> message;
  (take_if<Ts>(kind, fields, message) || ...);
  return message;
}

}  // namespace

std::string encode(const Message& message) {
  return std::visit([](const auto& one) { return one.kKind + to_bytes(one); }, message);
}

Message decode(std::string_view bytes) {
  if (bytes.empty()) throw Corrupt("message: it is empty");
  const Message* types = nullptr;
  auto message = decode_any(bytes[0], bytes.substr(1), types);
  if (!message) throw Corrupt("message: its kind is '{}', which is not known", bytes[0]);
  return std::move(*message);
}

}  // namespace lockstep::cluster::detail
