// SPDX-License-Identifier: Apache-2.0
// OpenSSL's functions, as its headers declare them: the library, whose tables take a while to
// relocate, is loaded when something is hashed or a secret is made.
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "lockstep/base/lazy_library.h"

#ifndef LOCKSTEP_LIBRARY
#define LOCKSTEP_LIBRARY "libcrypto.so.3"
#endif

namespace {

constinit lockstep::LazyLibrary library("OpenSSL", LOCKSTEP_LIBRARY);

template <class Function>
using Call = lockstep::LazyCall<Function>;

}  // namespace

extern "C" {

int CRYPTO_memcmp(const void* a, const void* b, size_t size) {
  static constinit Call<decltype(CRYPTO_memcmp)> call(library, "CRYPTO_memcmp");
  return call(a, b, size);
}

unsigned long ERR_get_error() {
  static constinit Call<decltype(ERR_get_error)> call(library, "ERR_get_error");
  return call();
}

const char* ERR_reason_error_string(unsigned long error) {
  static constinit Call<decltype(ERR_reason_error_string)> call(library, "ERR_reason_error_string");
  return call(error);
}

EVP_MD_CTX* EVP_MD_CTX_new() {
  static constinit Call<decltype(EVP_MD_CTX_new)> call(library, "EVP_MD_CTX_new");
  return call();
}

void EVP_MD_CTX_free(EVP_MD_CTX* context) {
  static constinit Call<decltype(EVP_MD_CTX_free)> call(library, "EVP_MD_CTX_free");
  call(context);
}

const EVP_MD* EVP_sha256() {
  static constinit Call<decltype(EVP_sha256)> call(library, "EVP_sha256");
  return call();
}

int EVP_DigestInit_ex(EVP_MD_CTX* context, const EVP_MD* kind, ENGINE* engine) {
  static constinit Call<decltype(EVP_DigestInit_ex)> call(library, "EVP_DigestInit_ex");
  return call(context, kind, engine);
}

int EVP_DigestUpdate(EVP_MD_CTX* context, const void* bytes, size_t size) {
  static constinit Call<decltype(EVP_DigestUpdate)> call(library, "EVP_DigestUpdate");
  return call(context, bytes, size);
}

int EVP_DigestFinal_ex(EVP_MD_CTX* context, unsigned char* digest, unsigned int* size) {
  static constinit Call<decltype(EVP_DigestFinal_ex)> call(library, "EVP_DigestFinal_ex");
  return call(context, digest, size);
}

unsigned char* HMAC(const EVP_MD* kind, const void* key, int key_size, const unsigned char* bytes,
                    size_t size, unsigned char* digest, unsigned int* digest_size) {
  static constinit Call<decltype(HMAC)> call(library, "HMAC");
  return call(kind, key, key_size, bytes, size, digest, digest_size);
}

int RAND_priv_bytes(unsigned char* bytes, int count) {
  static constinit Call<decltype(RAND_priv_bytes)> call(library, "RAND_priv_bytes");
  return call(bytes, count);
}

}  // extern "C"
