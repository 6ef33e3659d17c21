// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "lockstep/base/detail/openssl.h"
#include "lockstep/base/hex.h"

namespace lockstep {
namespace {

// OpenSSL takes a null pointer for a forgotten argument.
const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.empty() ? "" : text.data());
}

}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view message) {
  std::string sum(32, '\0');
  auto* to = reinterpret_cast<unsigned char*>(sum.data());
  const auto key_size = static_cast<int>(key.size());
  detail::check_openssl(::HMAC(::EVP_sha256(), bytes_of(key), key_size, bytes_of(message),
                               message.size(), to, nullptr) != nullptr,
                        "hmac");
  return sum;
}

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  auto* to = reinterpret_cast<unsigned char*>(bytes.data());
  detail::check_openssl(::RAND_priv_bytes(to, static_cast<int>(count)) == 1, "random bytes");
  return bytes;
}

std::string make_secret() { return to_hex(random_bytes(32)); }

}  // namespace lockstep
