// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/detail/sha256_blocks.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

namespace lockstep::detail {

bool has_sha256_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool has_sse = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSE4_1) && (c & bit_SSSE3);
  return has_sse && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA);
}

// Intel's instructions keep the eight words as (f, e, b, a) and (h, g, d, c). Two of them make two
// rounds each from four message words; later words come from the sixteen before them (FIPS 180-4,
// 6.2.2), of which `w` holds the last four groups in turn.
__attribute__((target("sha,sse4.1,ssse3"))) void add_sha256_blocks_native(Sha256State& state,
                                                                          const std::byte* bytes,
                                                                          std::size_t count) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const auto* rounds = reinterpret_cast<const __m128i*>(kSha256Rounds.data());
  auto* memory = reinterpret_cast<__m128i*>(state.data());
  const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(memory), 0xb1);
  const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(memory + 1), 0x1b);
  __m128i feba = _mm_alignr_epi8(badc, hgfe, 8);
  __m128i hgdc = _mm_blend_epi16(hgfe, badc, 0xf0);
  for (; count > 0; --count, bytes += 64) {
    const __m128i feba_before = feba, hgdc_before = hgdc;
    __m128i w[4];
    for (int i = 0; i < 16; ++i) {
      __m128i& now = w[i % 4];
      const __m128i last = w[(i + 3) % 4];
      if (i < 4) {
        const auto* message = reinterpret_cast<const __m128i*>(bytes) + i;
        now = _mm_shuffle_epi8(_mm_loadu_si128(message), big_endian);
      } else {
        const __m128i shifted = _mm_alignr_epi8(last, w[(i + 2) % 4], 4);
        now = _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) % 4]), shifted);
        now = _mm_sha256msg2_epu32(now, last);
      }
      const __m128i words = _mm_add_epi32(now, _mm_loadu_si128(rounds + i));
      hgdc = _mm_sha256rnds2_epu32(hgdc, feba, words);
      feba = _mm_sha256rnds2_epu32(feba, hgdc, _mm_shuffle_epi32(words, 0x0e));
    }
    feba = _mm_add_epi32(feba, feba_before);
    hgdc = _mm_add_epi32(hgdc, hgdc_before);
  }
  const __m128i abef = _mm_shuffle_epi32(feba, 0x1b);
  const __m128i ghcd = _mm_shuffle_epi32(hgdc, 0xb1);
  _mm_storeu_si128(memory, _mm_blend_epi16(abef, ghcd, 0xf0));
  _mm_storeu_si128(memory + 1, _mm_alignr_epi8(ghcd, abef, 8));
}

}  // namespace lockstep::detail

#else

namespace lockstep::detail {

bool has_sha256_instructions() { return false; }

void add_sha256_blocks_native(Sha256State& state, const std::byte* bytes, std::size_t count) {
  add_sha256_blocks(state, bytes, count);
}

}  // namespace lockstep::detail

#endif
