// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/message_frame.h"

#include "lockstep/base/error.h"

namespace lockstep::comm::detail {

void put_number(std::string& to, std::uint64_t number, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) to += static_cast<char>(number >> (8 * i));
}

std::uint64_t take_number(std::string_view& from, std::size_t bytes) {
  if (from.size() < bytes) throw Corrupt("a message ends too early");
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    number |= std::uint64_t{static_cast<unsigned char>(from[i])} << (8 * i);
  from.remove_prefix(bytes);
  return number;
}

std::string to_bytes(const FrameHeader& header) {
  std::string bytes;
  bytes.reserve(kHeaderBytes);
  put_number(bytes, static_cast<std::uint64_t>(header.kind), 1);
  put_number(bytes, header.begins_part ? 1 : 0, 1);
  put_number(bytes, header.topic, 4);
  put_number(bytes, header.message, 8);
  put_number(bytes, header.first_open, 8);
  put_number(bytes, header.generation, 8);
  put_number(bytes, header.parts, 4);
  put_number(bytes, header.left_in_part, 8);
  return bytes;
}

FrameHeader to_header(std::string_view bytes) {
  if (bytes.size() != kHeaderBytes) throw Corrupt("a message's header has {} bytes", bytes.size());
  FrameHeader header;
  const std::uint64_t kind = take_number(bytes, 1);
  if (kind < 1 || kind > static_cast<std::uint64_t>(FrameHeader::Kind::hello))
    throw Corrupt("a message of the unknown kind {}", kind);
  header.kind = static_cast<FrameHeader::Kind>(kind);
  header.begins_part = take_number(bytes, 1) != 0;
  header.topic = static_cast<std::uint32_t>(take_number(bytes, 4));
  header.message = take_number(bytes, 8);
  header.first_open = take_number(bytes, 8);
  header.generation = take_number(bytes, 8);
  header.parts = static_cast<std::uint32_t>(take_number(bytes, 4));
  header.left_in_part = take_number(bytes, 8);
  return header;
}

}  // namespace lockstep::comm::detail
