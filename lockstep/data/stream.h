// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "lockstep/data/dataset.h"
#include "lockstep/data/sampler.h"

namespace lockstep::data {

// Samples one after the other, of a number that nobody knows before: a log, a pipe, a generator.
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  // Nothing at the end.
  virtual std::optional<Fields> next() = 0;
  // Passes over so many, or to the end; says how many. What can jump overrides this.
  virtual std::int64_t skip(std::int64_t count);
};

// From its first sample on; called again for each pass. All passes, and those of all workers, have
// the same samples.
using OpenStream = std::function<std::unique_ptr<SampleStream>()>;

// A stream as a data set, so that loader and trainer can have it: sample i is the stream's i-th,
// counted on through its end into the next pass. A function of i alone, so that a batch has the
// same samples on any number of workers, each of which reads the stream and keeps its own. `epoch`
// says how many samples count as one. Samples are asked for about in order: up to `window` that
// were read and not asked for wait in memory; one before them makes the stream begin again.
class StreamDataset final : public Dataset {
 public:
  StreamDataset(OpenStream open, std::int64_t epoch, std::size_t window = 4096);
  std::int64_t size() const override { return epoch_; }
  // Throws InvalidArgument when the stream has no sample at all.
  Fields sample(std::int64_t index) const override;
  // How often the stream was opened.
  std::int64_t passes() const;

 private:
  void open() const;
  void seek(std::int64_t index) const;
  Fields read() const;

  OpenStream open_;
  std::int64_t epoch_;
  std::size_t window_;
  // Reading is in order, whoever asks.
  mutable std::mutex mutex_;
  mutable std::unique_ptr<SampleStream> stream_;
  mutable std::int64_t next_ = 0;    // the index that the stream gives next
  mutable std::int64_t begin_ = 0;   // the index of this pass's first sample
  mutable std::int64_t length_ = 0;  // of the stream; 0: not known yet
  mutable std::int64_t passes_ = 0;
  mutable std::unordered_map<std::int64_t, Fields> waiting_;
  mutable std::int64_t oldest_ = 0;  // nothing before it waits
};

// Epoch n of a stream: the next `epoch` samples.
SamplerPtr stream_sampler(std::int64_t epoch);

}  // namespace lockstep::data
