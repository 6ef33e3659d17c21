// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>
#include <zmq.hpp>

namespace lockstep::comm::detail {

inline constexpr std::size_t kCurveKey = 40;  // as text (Z85)

// A CURVE key pair as text. Throws Unsupported.
struct CurveKeys {
  char open[kCurveKey + 1] = "", secret[kCurveKey + 1] = "";
  CurveKeys();
};

// A ZeroMQ server takes whoever comes, or has any key of CURVE, unless somebody answers ZAP's
// questions (rfc.zeromq.org/spec/27). This one admits those that are expected, each once, while
// answer() is called; one in each context.
class ZmqAuthenticator {
 public:
  explicit ZmqAuthenticator(zmq::context_t& context);
  // Of CURVE: whose public key it is, as text.
  void admit_key(const std::string& key);
  // Of PLAIN: who has this user name.
  void admit_user(const std::string& name) { admitted_.insert(name); }
  // No longer.
  void forget_key(const std::string& key);
  void forget_user(const std::string& name) { admitted_.erase(name); }
  // The questions that wait. `before_refusing` may admit who asks: what admits it may have come by
  // another way, and not been read yet.
  void answer(const std::function<void()>& before_refusing = {});
  zmq::socket_t& socket() { return socket_; }

 private:
  void reply(const std::vector<std::string>& question, bool is_known);

  zmq::socket_t socket_;
  std::set<std::string> admitted_;
};

}  // namespace lockstep::comm::detail
