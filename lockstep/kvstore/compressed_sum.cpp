// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/compressed_sum.h"

#include <algorithm>

#include "lockstep/base/error.h"

// With few ranks, everybody gets every payload. With many, that is more than an all-reduce would
// move: then each rank gets everybody's payload of one part, adds them up, and gives the sums to
// all, as floats, or encoded again where only rounding is lost.
namespace lockstep::kvstore {
namespace {

constexpr std::size_t kTile = 8192;  // floats

}  // namespace

CompressedSum::CompressedSum(comm::Communicator& communicator, const Compression& compression,
                             const comm::CallOptions& options)
    : communicator_(communicator), options_(options), codec_(make_codec(compression)) {
  check(codec_ != nullptr, "a compressed sum without compression");
}

std::span<float> CompressedSum::residual(std::size_t floats) {
  if (!codec_->keeps_residual()) return {};
  if (residual_.size() < floats) residual_.resize(floats);
  return {residual_.data(), floats};
}

bool CompressedSum::is_gathered(std::size_t count) const {
  const std::size_t payload = codec_->payload_bytes(count);
  const std::size_t sums = codec_->is_rounding() ? payload : count * sizeof(float);
  return codec_->grain() == 0 || ranks() * payload <= payload + sums;
}

void CompressedSum::begin(std::size_t floats) {
  if (keeps_residual()) next_.resize(residual(floats).size());
}

void CompressedSum::run(std::size_t offset, std::span<float> values) {
  std::span<float> kept;
  if (keeps_residual()) {
    kept = std::span(next_).subspan(offset, values.size());
    std::copy_n(residual_.data() + offset, kept.size(), kept.data());
  }
  sent_.resize(codec_->payload_bytes(values.size()));
  codec_->encode(values, kept, sent_);
  is_gathered(values.size()) ? run_gathered(values) : run_scattered(values);
}

// What has been received, of each rank so many bytes. All ranks' payloads of a tile are added while
// its sums are in the cache.
void CompressedSum::add_all(std::size_t bytes, std::span<float> sums) const {
  const std::size_t tile =
      codec_->grain() == 0 ? sums.size() : kTile / codec_->grain() * codec_->grain();
  const std::span<const std::byte> all = received_;
  for (std::size_t begin = 0; begin < sums.size(); begin += tile) {
    const std::span<float> part = sums.subspan(begin, std::min(tile, sums.size() - begin));
    const std::size_t offset = begin == 0 ? 0 : codec_->payload_bytes(begin);
    std::fill(part.begin(), part.end(), 0.0F);
    for (std::size_t rank = 0; rank < ranks(); ++rank)
      codec_->decode_add(all.subspan(rank * bytes + offset, codec_->payload_bytes(part.size())),
                         part);
  }
}

void CompressedSum::run_gathered(std::span<float> values) {
  received_.resize(sent_.size() * ranks());
  communicator_.all_gather(sent_, received_, options_);
  add_all(sent_.size(), values);
}

void CompressedSum::run_scattered(std::span<float> values) {
  const std::size_t grains = (values.size() + codec_->grain() - 1) / codec_->grain();
  const std::size_t part = (grains + ranks() - 1) / ranks() * codec_->grain();
  const std::size_t bytes = codec_->payload_bytes(part);
  sent_.resize(bytes * ranks());  // the last parts may be short, or empty
  received_.resize(sent_.size());
  communicator_.all_to_all(sent_, received_, options_);
  const std::size_t begin = part * static_cast<std::size_t>(communicator_.rank());
  std::vector<float> own(part), all(part * ranks());
  add_all(bytes,
          std::span(own).first(begin < values.size() ? std::min(part, values.size() - begin) : 0));
  if (codec_->is_rounding()) {
    sent_.resize(bytes);
    codec_->encode(own, {}, sent_);
    communicator_.all_gather(sent_, received_, options_);
    codec_->decode_add(received_, all);
  } else {
    communicator_.all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)),
                             options_);
  }
  std::copy_n(all.begin(), values.size(), values.begin());
}

}  // namespace lockstep::kvstore
