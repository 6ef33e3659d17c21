// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <openssl/err.h>

#include "lockstep/base/error.h"

namespace lockstep::detail {

// OpenSSL refuses what we ask for only where memory is short or its configuration forbids it.
inline void check_openssl(bool ok, const char* what) {
  if (ok) return;
  const char* reason = ::ERR_reason_error_string(::ERR_get_error());
  throw IoError("{}: OpenSSL refuses: {}", what, reason == nullptr ? "no reason given" : reason);
}

}  // namespace lockstep::detail
