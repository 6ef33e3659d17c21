// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/stream.h"

#include <algorithm>

#include "lockstep/data/detail/order.h"

namespace lockstep::data {
namespace {

void check_epoch(const char* who, std::int64_t epoch) {
  if (epoch < 1)
    throw InvalidArgument("{}: an epoch of {} samples, expected 1 or more", who, epoch);
}

class StreamSampler final : public Sampler {
 public:
  explicit StreamSampler(std::int64_t epoch) : epoch_(epoch) {}
  std::int64_t size() const override { return epoch_; }
  std::vector<std::int64_t> epoch(std::int64_t number) const override {
    return detail::counting(number * epoch_, (number + 1) * epoch_);
  }

 private:
  std::int64_t epoch_;
};

}  // namespace

std::int64_t SampleStream::skip(std::int64_t count) {
  for (std::int64_t passed = 0; passed < count; ++passed) {
    try {
      if (!next()) return passed;
    } catch (const Corrupt&) {
      // whoever asks for it hears of it
    }
  }
  return count;
}

StreamDataset::StreamDataset(OpenStream open, std::int64_t epoch, std::size_t window)
    : open_(std::move(open)), epoch_(epoch), window_(window) {
  if (!open_) throw InvalidArgument("stream: there is nothing that opens it");
  check_epoch("stream", epoch);
  if (window < 1) throw InvalidArgument("stream: a window of 0 samples, expected 1 or more");
}

std::int64_t StreamDataset::passes() const {
  const std::lock_guard lock(mutex_);
  return passes_;
}

void StreamDataset::open() const {
  stream_ = open_();
  if (stream_ == nullptr) throw InvalidArgument("stream: it cannot be opened");
  ++passes_;
}

Fields StreamDataset::sample(std::int64_t index) const {
  if (index < 0) throw InvalidArgument("stream: sample {}, expected 0 or more", index);
  const std::lock_guard lock(mutex_);
  if (const auto found = waiting_.find(index); found != waiting_.end()) {
    Fields fields = std::move(found->second);
    waiting_.erase(found);
    return fields;
  }
  // Threads ask about in order: somebody may want one of those just before.
  const auto window = static_cast<std::int64_t>(window_);
  if (stream_ == nullptr || index < next_ || index - next_ > window)
    seek(std::max<std::int64_t>(0, index - window / 4));
  while (next_ < index) {
    const std::int64_t passed = next_;
    try {
      waiting_[passed] = read();
    } catch (const Corrupt&) {
      continue;  // whoever asks for it hears of it
    }
    if (waiting_.size() <= window_) continue;
    while (!waiting_.contains(oldest_)) ++oldest_;
    waiting_.erase(oldest_++);
  }
  return read();
}

// Far away, or behind: nothing that waits will be asked for.
void StreamDataset::seek(std::int64_t index) const {
  waiting_.clear();
  oldest_ = index;
  if (length_ > 0 || stream_ == nullptr || index < next_) {
    const std::int64_t pass = length_ > 0 ? index / length_ : 0;
    if (stream_ == nullptr || index < next_ || pass * length_ != begin_) {
      open();
      begin_ = next_ = pass * length_;
    }
  }
  while (next_ < index) {
    next_ += stream_->skip(index - next_);
    if (next_ == index) return;
    length_ = next_ - begin_;
    if (length_ == 0) throw InvalidArgument("stream: it has no sample");
    open();
    begin_ = next_ = index / length_ * length_;
  }
}

Fields StreamDataset::read() const {
  for (int pass = 0; pass < 2; ++pass) {
    ++next_;  // one that is Corrupt counts too
    if (std::optional<Fields> fields = stream_->next()) return std::move(*fields);
    length_ = --next_ - begin_;
    open();
    begin_ = next_;
  }
  stream_.reset();
  throw InvalidArgument("stream: it has no sample");
}

SamplerPtr stream_sampler(std::int64_t epoch) {
  check_epoch("stream_sampler", epoch);
  return std::make_shared<StreamSampler>(epoch);
}

}  // namespace lockstep::data
