// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/sha256.h"

#include <openssl/evp.h>

#include "lockstep/base/detail/openssl.h"
#include "lockstep/base/hex.h"

namespace lockstep {

using detail::check_openssl;

void Sha256::Free::operator()(evp_md_ctx_st* context) const { ::EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(::EVP_MD_CTX_new()) {
  check_openssl(context_ && ::EVP_DigestInit_ex(context_.get(), ::EVP_sha256(), nullptr) == 1,
                "sha256");
}

void Sha256::update(std::span<const std::byte> bytes) {
  check_openssl(::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "sha256");
}

std::array<std::byte, 32> Sha256::digest() {
  std::array<std::byte, 32> digest;
  auto* to = reinterpret_cast<unsigned char*>(digest.data());
  check_openssl(::EVP_DigestFinal_ex(context_.get(), to, nullptr) == 1, "sha256");
  return digest;
}

std::string Sha256::hex() { return to_hex(digest()); }

std::string sha256_hex(std::string_view bytes) {
  Sha256 sum;
  sum.update(bytes);
  return sum.hex();
}

}  // namespace lockstep
