// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/zmq_authenticator.h"

#include <cerrno>

#include "lockstep/base/error.h"
#include "lockstep/comm/detail/zmq_interrupts.h"

namespace lockstep::comm::detail {
namespace {

constexpr std::size_t kBinaryKey = 32;

// Empty when it is none.
std::string binary_key(const std::string& key) {
  std::string binary(kBinaryKey, '\0');
  auto* bytes = reinterpret_cast<std::uint8_t*>(binary.data());
  return ::zmq_z85_decode(bytes, key.c_str()) == nullptr ? std::string() : binary;
}

}  // namespace

CurveKeys::CurveKeys() {
  if (::zmq_curve_keypair(open, secret) != 0)
    throw Unsupported("zmq: this libzmq has no CURVE: {}", ::zmq_strerror(errno));
}

ZmqAuthenticator::ZmqAuthenticator(zmq::context_t& context)
    : socket_(context, zmq::socket_type::rep) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind("inproc://zeromq.zap.01");
}

void ZmqAuthenticator::admit_key(const std::string& key) {
  const std::string binary = binary_key(key);
  if (!binary.empty()) admitted_.insert(binary);
}

void ZmqAuthenticator::forget_key(const std::string& key) { admitted_.erase(binary_key(key)); }

void ZmqAuthenticator::answer(const std::function<void()>& before_refusing) {
  zmq::message_t part;
  const auto receive = [&] { return socket_.recv(part, zmq::recv_flags::dontwait); };
  while (uninterrupted(receive)) {
    std::vector<std::string> question{part.to_string()};
    while (socket_.get(zmq::sockopt::rcvmore) && uninterrupted(receive))
      question.push_back(part.to_string());
    const auto takes = [&] { return question.size() >= 7 && admitted_.erase(question[6]) > 0; };
    bool is_known = takes();
    if (!is_known && before_refusing) {
      before_refusing();
      is_known = takes();
    }
    reply(question, is_known);
  }
}

// Version, number, domain, address, identity, mechanism, then a key, or a name and a password.
void ZmqAuthenticator::reply(const std::vector<std::string>& question, bool is_known) {
  const std::string number = question.size() > 1 ? question[1] : "";
  const std::string parts[] = {"1.0", number, is_known ? "200" : "400", "", "", ""};
  for (std::size_t i = 0; i < 6; ++i)
    uninterrupted([&] {
      return socket_.send(zmq::buffer(parts[i]),
                          i < 5 ? zmq::send_flags::sndmore : zmq::send_flags::none);
    });
}

}  // namespace lockstep::comm::detail
