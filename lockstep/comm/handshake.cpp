// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/handshake.h"

#include <cstring>

#include "lockstep/base/hmac.h"

namespace lockstep::comm {
namespace {

// Its last byte is the version of all that follows.
constexpr std::string_view kMagic = "lockstep\r\n\x1a\x02";
constexpr std::size_t kChallenge = 32, kProof = 32;
constexpr std::string_view kAccepted = "+", kRefused = "-";

std::string label_bytes(std::uint64_t label) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(label >> (8 * i));
  return bytes;
}

std::uint64_t label_of(std::string_view bytes) {
  std::uint64_t label = 0;
  for (std::size_t i = 0; i < 8; ++i)
    label |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return label;
}

void check_magic(std::string_view message) {
  if (message.starts_with(kMagic)) return;
  const std::size_t name = kMagic.size() - 1;
  if (message.substr(0, name) != kMagic.substr(0, name))
    throw Corrupt("it does not speak Lockstep's protocol");
  throw Refused(
      fmt::format("it speaks version {} of the handshake, this side version {}: all hosts need the "
                  "same lockstep",
                  static_cast<int>(message[name]), static_cast<int>(kMagic[name])));
}

}  // namespace

Handshake::Handshake(Role role, std::string secret, std::uint64_t label)
    : stage_(role == Role::listener ? Stage::answer : Stage::challenge),
      secret_(std::move(secret)),
      label_(label),
      own_(random_bytes(kChallenge)),
      listener_(role == Role::listener) {
  if (listener_) output_ = std::string(kMagic) + own_;
}

std::string Handshake::take_output() { return std::exchange(output_, {}); }

std::size_t Handshake::wanted() const {
  switch (stage_) {
    case Stage::challenge: return kMagic.size() + kChallenge;
    case Stage::answer: return kMagic.size() + kChallenge + 8 + kProof;
    case Stage::verdict: return 1 + kProof;
    case Stage::over: return 0;
  }
  return 0;
}

std::string Handshake::proof(std::string_view who) const {
  const std::string &first = listener_ ? own_ : theirs_, &second = listener_ ? theirs_ : own_;
  return hmac_sha256(secret_, std::string(who) + '\0' + first + second + label_bytes(label_));
}

std::string Handshake::session_key() const { return proof("session"); }

void Handshake::feed(std::string_view message) {
  check(message.size() == wanted(), "handshake: a message of another length");
  if (stage_ == Stage::challenge)
    feed_challenge(message);
  else if (stage_ == Stage::answer)
    feed_answer(message);
  else if (stage_ == Stage::verdict)
    feed_verdict(message);
}

void Handshake::feed_challenge(std::string_view message) {
  check_magic(message);
  theirs_ = message.substr(kMagic.size(), kChallenge);
  output_ = std::string(kMagic) + own_ + label_bytes(label_) + proof("connector");
  stage_ = Stage::verdict;
}

void Handshake::feed_answer(std::string_view message) {
  check_magic(message);
  theirs_ = message.substr(kMagic.size(), kChallenge);
  label_ = label_of(message.substr(kMagic.size() + kChallenge, 8));
  stage_ = Stage::over;
  if (same_secret(message.substr(message.size() - kProof), proof("connector"))) {
    output_ = std::string(kAccepted) + proof("listener");
    return;
  }
  output_ = std::string(kRefused) + std::string(kProof, '\0');
  throw Refused("it does not know the job's secret");
}

void Handshake::feed_verdict(std::string_view message) {
  stage_ = Stage::over;
  if (message.substr(0, 1) == kRefused)
    throw Refused("refused: the job's secret is not the one given here");
  if (!same_secret(message.substr(1), proof("listener")))
    throw Refused("it does not know the job's secret");
}

}  // namespace lockstep::comm
