// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// 32 bytes that only a holder of the key can make (RFC 2104 with SHA-256).
std::string hmac_sha256(std::string_view key, std::string_view message);

// Takes as long for bytes that differ at once as for equal ones.
bool same_secret(std::string_view a, std::string_view b);

// Of a generator that the system seeds: nobody can guess them, and no two processes have the same.
std::string random_bytes(std::size_t count);

// A new secret for a job: 64 hexadecimal digits.
std::string make_secret();

}  // namespace lockstep
