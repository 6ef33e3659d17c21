// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/hmac.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/sha256.h"

namespace lockstep {
namespace {

constexpr std::size_t kBlock = 64;

std::string sha256_bytes(std::string_view first, std::string_view second) {
  Sha256 sum;
  sum.update(first);
  sum.update(second);
  const auto digest = sum.digest();
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string padded(const std::string& key, char pad) {
  std::string block(kBlock, pad);
  for (std::size_t i = 0; i < key.size(); ++i) block[i] = static_cast<char>(block[i] ^ key[i]);
  return block;
}

}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view message) {
  const std::string short_key =
      key.size() > kBlock ? sha256_bytes(key, {}) : std::string(key.begin(), key.end());
  return sha256_bytes(padded(short_key, 0x5c), sha256_bytes(padded(short_key, 0x36), message));
}

bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got = ::getrandom(bytes.data() + done, count - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw IoError("random bytes: the system gives none: {}", std::strerror(errno));
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::string make_secret() {
  std::string text;
  for (char byte : random_bytes(32))
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace lockstep
