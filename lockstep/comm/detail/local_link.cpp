// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/local_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::comm::detail {
namespace {

// A frame: its header, how long its body is, and where the body lies; after it the body, if it is
// in no memory. Or a word, which has only this form: something was taken.
constexpr std::uint32_t kNoBlock = 0xffffffff, kWord = 0xfffffffe;
constexpr std::size_t kHead = kHeaderBytes + 8 + 4 + 8;
constexpr std::size_t kReadAtOnce = 64 << 10;
constexpr std::size_t kShortBody = 1 << 10, kMostHeld = 16 << 10;  // bytes that go with others

std::string head_of(const FrameHeader& header, std::size_t bytes, const LentPlace& place) {
  std::string head = to_bytes(header);
  put_number(head, bytes, 8);
  put_number(head, place.block, 4);
  put_number(head, place.offset, 8);
  return head;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_only_full(int error) { return error == EAGAIN || error == EINTR || error == ENOBUFS; }

}  // namespace

// A part that lies in the other process's memory. It goes back when nobody holds it any more.
class LocalLink::Borrowed {
 public:
  Borrowed(std::shared_ptr<MessageMemory> own, std::shared_ptr<const PeerMemory> peer,
           std::uint32_t block)
      : own_(std::move(own)), peer_(std::move(peer)), block_(block) {}
  ~Borrowed() { own_->give_back(block_, frames_); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  // Another frame of it has come.
  void add_frame() { ++frames_; }

 private:
  std::shared_ptr<MessageMemory> own_;
  std::shared_ptr<const PeerMemory> peer_;
  std::uint32_t block_;
  std::uint64_t frames_ = 1;
};

LocalLink::LocalLink(Socket socket, std::shared_ptr<MessageMemory> own,
                     std::shared_ptr<const PeerMemory> peer)
    : socket_(std::move(socket)),
      own_(std::move(own)),
      peer_(std::move(peer)),
      received_(kReadAtOnce) {}

bool LocalLink::send(const Frame& frame) {
  if (!is_held_ && !send_rest()) return false;
  const std::span<const std::byte> bytes = frame.body.bytes;
  const bool is_lent = !bytes.empty() && own_->contains(bytes);
  if (is_lent && !has_way_for(bytes.size())) {
    send_rest();  // what was to go with it
    return false;
  }
  const LentPlace place = is_lent ? own_->lend(bytes) : LentPlace{kNoBlock, 0};
  if (is_lent) lent_bytes_ += bytes.size();
  add_rest(head_of(frame.header, bytes.size(), place), is_lent ? Payload::Segment{} : frame.body);
  is_held_ =
      frame.goes_with_next && rest_of_body_.bytes.empty() && rest_of_head_.size() < kMostHeld;
  if (!is_held_) send_rest();
  return true;
}

// A peer that counts wrong holds up itself.
std::uint64_t LocalLink::untaken() const {
  const std::uint64_t taken = peer_->head().taken.load(std::memory_order_seq_cst);
  return taken > lent_bytes_ ? 0 : lent_bytes_ - taken;
}

// Either this side sees that something was taken, or the other that this one waits.
bool LocalLink::has_way_for(std::size_t bytes) {
  const auto fits = [&] {
    const std::uint64_t now = untaken();
    return now == 0 || now + bytes <= kMostUntaken;
  };
  if (!waits_ && fits()) return true;
  own_->head().waits.store(true, std::memory_order_seq_cst);
  waits_ = !fits();
  if (!waits_) own_->head().waits.store(false, std::memory_order_seq_cst);
  return !waits_;
}

void LocalLink::add_rest(std::string_view head, Payload::Segment body) {
  rest_of_head_ += head;
  if (body.bytes.size() <= kShortBody)
    rest_of_head_ += text_of(body.bytes);
  else
    rest_of_body_ = std::move(body);
}

// Whoever is not there any more is noticed on the control link.
bool LocalLink::send_rest() {
  is_held_ = false;
  while (!rest_of_head_.empty() || !rest_of_body_.bytes.empty()) {
    iovec parts[] = {
        {rest_of_head_.data(), rest_of_head_.size()},
        {const_cast<std::byte*>(rest_of_body_.bytes.data()), rest_of_body_.bytes.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = ::sendmsg(socket_.fd(), &message, MSG_NOSIGNAL);
    if (sent < 0 && is_only_full(errno)) {
      has_rest_.store(true, std::memory_order_relaxed);
      return false;
    }
    if (sent < 0) break;
    const std::size_t of_head = std::min(static_cast<std::size_t>(sent), rest_of_head_.size());
    rest_of_head_.erase(0, of_head);
    rest_of_body_.bytes = rest_of_body_.bytes.subspan(static_cast<std::size_t>(sent) - of_head);
  }
  rest_of_head_.clear();
  rest_of_body_ = {};
  has_rest_.store(false, std::memory_order_relaxed);
  if (!std::exchange(owes_word_, false)) return true;
  add_rest(head_of({}, 0, {kWord, 0}), {});
  return send_rest();
}

// After less than there was room for, nothing more has come.
std::size_t LocalLink::read(std::span<std::byte> to) {
  ssize_t got = -1;
  while ((got = ::recv(socket_.fd(), to.data(), to.size(), 0)) < 0 && errno == EINTR) {
  }
  if (got == 0 || (got < 0 && errno != EAGAIN)) is_closed_ = true;
  if (got < static_cast<ssize_t>(to.size())) is_readable_ = false;
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

std::optional<Frame> LocalLink::receive() {
  while (true) {
    if (coming_) {
      if (auto frame = take_body()) return frame;
    } else if (end_ - begin_ >= kHead) {
      if (auto frame = take_frame()) return frame;
      continue;  // its body is on the way, or there was none
    } else if (is_readable_ && !is_closed_) {
      std::memmove(received_.data(), received_.data() + begin_, end_ - begin_);
      end_ -= std::exchange(begin_, 0);
      end_ += read(std::span(received_).subspan(end_));
      if (end_ >= kHead) continue;
    }
    if (!is_readable_ || is_closed_) return std::nullopt;
  }
}

// Nothing when the body comes after it.
std::optional<Frame> LocalLink::take_frame() {
  std::string_view head = text_of(std::span(received_).subspan(begin_, kHead));
  begin_ += kHead;
  const FrameHeader header = to_header(head.substr(0, kHeaderBytes));
  head.remove_prefix(kHeaderBytes);
  const std::uint64_t bytes = take_number(head, 8);
  const LentPlace place{static_cast<std::uint32_t>(take_number(head, 4)), take_number(head, 8)};
  if (place.block == kWord) return std::nullopt;
  if (place.block != kNoBlock) return borrow(header, place, bytes);
  if (bytes > Payload::kLongestSegment) throw Corrupt("a frame of {} bytes", bytes);
  coming_ = header;
  body_ = std::make_shared<std::vector<std::byte>>(bytes);
  body_has_ = std::min<std::size_t>(bytes, end_ - begin_);
  if (body_has_ > 0) std::memcpy(body_->data(), received_.data() + begin_, body_has_);
  begin_ += body_has_;
  return take_body();
}

Frame LocalLink::borrow(const FrameHeader& header, const LentPlace& place, std::uint64_t bytes) {
  const std::span<const std::byte> body = peer_->at(place, bytes);
  std::weak_ptr<Borrowed>& last = borrowed_[place.block];
  std::shared_ptr<Borrowed> owner = header.begins_part ? nullptr : last.lock();
  if (owner)
    owner->add_frame();
  else
    last = owner = std::make_shared<Borrowed>(own_, peer_, place.block);
  Frame frame{header, {body, std::move(owner)}};
  own_->head().taken.fetch_add(bytes, std::memory_order_seq_cst);
  if (peer_->head().waits.load(std::memory_order_seq_cst)) {
    owes_word_ = true;
    send_rest();
  }
  return frame;
}

std::optional<Frame> LocalLink::take_body() {
  if (body_has_ < body_->size() && is_readable_ && !is_closed_)
    body_has_ += read(std::span(*body_).subspan(body_has_));
  if (body_has_ < body_->size()) return std::nullopt;
  const std::span<const std::byte> bytes(*body_);
  Frame frame{*std::exchange(coming_, std::nullopt), {bytes, std::move(body_)}};
  body_has_ = 0;
  return frame;
}

}  // namespace lockstep::comm::detail
