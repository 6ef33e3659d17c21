// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "lockstep/comm/detail/message_frame.h"
#include "lockstep/comm/detail/message_memory.h"

namespace lockstep::comm::detail {

// A connection between two processes of one host: frames through a UNIX socket, long bodies through
// the memory that each shows to the other. One thread at a time uses it.
class LocalLink {
 public:
  LocalLink(Socket socket, std::shared_ptr<MessageMemory> own,
            std::shared_ptr<const PeerMemory> peer);

  // False when there is no room now: in the socket, or on the way for a body that is lent. A link
  // that is closed takes everything. A short frame that goes with the next waits for it, so that
  // the other end is woken once for both.
  bool send(const Frame& frame);
  // What could not be sent with the frame that was taken last. True when nothing is left of it.
  bool send_rest();
  // From any thread.
  bool has_rest() const { return has_rest_.load(std::memory_order_relaxed); }

  // The next frame; nothing when none has come. Throws Corrupt.
  std::optional<Frame> receive();
  // There is something to receive: the socket is readable.
  void set_readable() { is_readable_ = true; }
  // The other end has closed it, and all that it sent has been received.
  bool is_closed() const { return is_closed_; }

  const std::shared_ptr<MessageMemory>& memory() const { return own_; }
  int fd() const { return socket_.fd(); }

 private:
  std::optional<Frame> take_frame();
  std::optional<Frame> take_body();
  std::size_t read(std::span<std::byte> to);
  void add_rest(std::string_view head, Payload::Segment body);
  bool has_way_for(std::size_t bytes);
  std::uint64_t untaken() const;
  class Borrowed;
  Frame borrow(const FrameHeader& header, const LentPlace& place, std::uint64_t bytes);

  Socket socket_;
  std::shared_ptr<MessageMemory> own_;
  std::shared_ptr<const PeerMemory> peer_;
  bool is_readable_ = false, is_closed_ = false, waits_ = false;
  bool owes_word_ = false;        // to the peer, which waits: that something was taken
  std::uint64_t lent_bytes_ = 0;  // of all frames
  std::map<std::uint32_t, std::weak_ptr<Borrowed>> borrowed_;  // by block
  std::vector<std::byte> received_;
  std::size_t begin_ = 0, end_ = 0;  // of what has been received and not taken
  // The frame whose body has begun to come.
  std::optional<FrameHeader> coming_;
  std::shared_ptr<std::vector<std::byte>> body_;
  std::size_t body_has_ = 0;
  // What is left of the frame that was sent last.
  std::string rest_of_head_;
  Payload::Segment rest_of_body_;
  bool is_held_ = false;  // until the next frame comes
  std::atomic<bool> has_rest_ = false;
};

}  // namespace lockstep::comm::detail
