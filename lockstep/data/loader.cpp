// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/loader.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "lockstep/data/detail/batch.h"
#include "lockstep/data/detail/draw.h"

namespace lockstep::data {

namespace {

// One shard's batch of a step, or why there is none.
struct ShardBatch {
  Fields fields;
  std::exception_ptr error;
  std::vector<std::string> messages;
};

// A step in the making: shards are begun in order and end in any.
struct StepBatches {
  std::int64_t step = 0;
  std::int64_t first_shard = 0;
  std::vector<ShardBatch> shards;
  std::size_t begun = 0;
  std::size_t ended = 0;
  bool done() const { return ended == shards.size(); }
};

// A shard to make. It holds its step's place, which a restart may have taken out of the queue.
struct Task {
  std::shared_ptr<StepBatches> batches;
  std::size_t place = 0;
  std::vector<std::int64_t> indices;
  std::uint64_t run = 0;
};

void check_options(const LoaderOptions& options, std::int64_t shards) {
  if (options.threads < 0 || options.threads > 1024)
    throw InvalidArgument("loader: threads is {}, expected 0 to 1024", options.threads);
  if (options.prefetch < 1)
    throw InvalidArgument("loader: prefetch is {}, expected 1 or more", options.prefetch);
  const std::int64_t first = options.first_shard, count = options.shards;
  if (first < 0 || count < 1 || first > shards - count)
    throw InvalidArgument("loader: asked for {} shards from {} on, there are {}", count, first,
                          shards);
}

void name_thread(int number) {
  pthread_setname_np(pthread_self(), fmt::format("loader-{}", number).c_str());
}

}  // namespace

// Workers take shards of the steps from `next_` on, at most `prefetch` steps ahead. All that they
// share is under one mutex; the batches themselves are made outside it. Asking for another step
// begins a new run: what belongs to an older one is given up at its next sample and dropped.
struct Loader::Impl {
  Impl(DatasetPtr dataset, ShardSampler sampler, LoaderOptions options)
      : dataset_(std::move(dataset)), sampler_(std::move(sampler)), options_(std::move(options)) {
    if (options_.shards == -1) options_.shards = sampler_.shards() - options_.first_shard;
    check_options(options_, sampler_.shards());
    if (dataset_ == nullptr) throw InvalidArgument("loader: there is no data set");
  }

  // Apart from the constructor: if a thread cannot be had, the destructor ends the others.
  void start() {
    for (int i = 0; i < options_.threads; ++i) workers_.emplace_back([this, i] { work(i); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      ++run_;
    }
    wake_workers_.notify_all();
  }

  std::vector<Fields> step(std::int64_t step) {
    check(!options_.told, "a loader that is told has no next step");
    if (step < 0) throw InvalidArgument("loader: step is {}, expected 0 or more", step);
    std::unique_lock lock(mutex_);
    if (step != next_) restart(step);
    if (queue_.empty()) extend();
    return take_first(lock);
  }

  void expect(std::int64_t step, std::int64_t first_shard) {
    check(options_.told, "a loader that is not told makes one step after the other");
    if (step < 0) throw InvalidArgument("loader: step is {}, expected 0 or more", step);
    if (first_shard < 0 || first_shard > sampler_.shards() - options_.shards)
      throw InvalidArgument("loader: asked for {} shards from {} on, there are {}", options_.shards,
                            first_shard, sampler_.shards());
    {
      const std::lock_guard lock(mutex_);
      add(step, first_shard);
    }
    wake_workers_.notify_all();
  }

  std::vector<Fields> take() {
    std::unique_lock lock(mutex_);
    check(options_.told && !queue_.empty(), "a loader was not told what to make");
    return take_first(lock);
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    restart(next_);
  }

  std::int64_t steps_per_epoch() const { return sampler_.steps_per_epoch(); }

 private:
  void restart(std::int64_t step) {
    queue_.clear();
    next_ = step;
    ++run_;
    wake_workers_.notify_all();
  }

  void extend() { add(next_ + static_cast<std::int64_t>(queue_.size()), options_.first_shard); }

  void add(std::int64_t step, std::int64_t first_shard) {
    queue_.push_back(std::make_shared<StepBatches>());
    queue_.back()->step = step;
    queue_.back()->first_shard = first_shard;
    queue_.back()->shards.resize(static_cast<std::size_t>(options_.shards));
  }

  std::vector<Fields> take_first(std::unique_lock<std::mutex>& lock) {
    const std::shared_ptr<StepBatches> batches = queue_.front();
    help(*batches, lock);
    wake_caller_.wait(lock, [&] { return batches->done(); });
    queue_.pop_front();
    ++next_;
    lock.unlock();
    wake_workers_.notify_all();
    return taken(*batches);
  }

  // The caller makes what nobody has begun yet instead of waiting for it.
  void help(StepBatches& batches, std::unique_lock<std::mutex>& lock) {
    while (batches.begun < batches.shards.size()) make(begin(0), lock);
  }

  // The first step in the queue with a shard that nobody has begun, or the queue's size.
  std::size_t unbegun() const {
    std::size_t at = 0;
    while (at < queue_.size() && queue_[at]->begun == queue_[at]->shards.size()) ++at;
    return at;
  }

  bool has_work() const {
    const bool makes_ahead =
        !options_.told && static_cast<std::int64_t>(queue_.size()) < options_.prefetch;
    return unbegun() < queue_.size() || makes_ahead;
  }

  Task begin(std::size_t at) {
    Task task{queue_[at], queue_[at]->begun++, {}, run_};
    try {
      task.indices = sampler_.samples(task.batches->step, shard_of(task));
    } catch (...) {
      task.batches->shards[task.place].error = std::current_exception();
    }
    return task;
  }

  static std::int64_t shard_of(const Task& task) {
    return task.batches->first_shard + static_cast<std::int64_t>(task.place);
  }

  // Called with the lock and returns with it.
  void make(const Task& task, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    ShardBatch& batch = task.batches->shards[task.place];
    if (batch.error == nullptr) fill(task, batch);
    lock.lock();
    if (++task.batches->ended == task.batches->shards.size()) wake_caller_.notify_all();
  }

  void fill(const Task& task, ShardBatch& batch) const {
    const RandomKey key{options_.seed ^ detail::kTransformStream,
                        static_cast<std::uint32_t>(task.batches->step),
                        static_cast<std::uint32_t>(shard_of(task)), 0};
    const auto given_up = [this, &task] { return run_ != task.run; };
    try {
      const detail::BatchMaker maker{*dataset_, options_.transform, options_.skip_bad, given_up};
      batch.fields = maker.make(task.indices, key, batch.messages);
    } catch (...) {
      batch.error = std::current_exception();
    }
  }

  void work(int number) {
    name_thread(number);
    std::unique_lock lock(mutex_);
    while (true) {
      wake_workers_.wait(lock, [&] { return stop_ || has_work(); });
      if (stop_) return;
      const std::size_t at = unbegun();
      if (at == queue_.size()) extend();
      make(begin(at), lock);
    }
  }

  // The error of the lowest shard, so that which one is seen does not depend on timing.
  std::vector<Fields> taken(StepBatches& batches) const {
    std::vector<Fields> result;
    for (ShardBatch& shard : batches.shards) {
      if (shard.error != nullptr) std::rethrow_exception(shard.error);
      for (const std::string& message : shard.messages)
        if (options_.on_bad) options_.on_bad(message);
      result.push_back(std::move(shard.fields));
    }
    return result;
  }

  DatasetPtr dataset_;
  ShardSampler sampler_;
  LoaderOptions options_;
  std::mutex mutex_;
  std::condition_variable wake_workers_;
  std::condition_variable wake_caller_;
  std::deque<std::shared_ptr<StepBatches>> queue_;  // the steps from next_ on
  std::int64_t next_ = 0;
  std::atomic<std::uint64_t> run_ = 0;
  bool stop_ = false;
  std::vector<std::jthread> workers_;  // last: they end before what they use
};

Loader::Loader(DatasetPtr dataset, ShardSampler sampler, LoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(sampler), std::move(options))) {
  impl_->start();
}

Loader::~Loader() = default;

std::vector<Fields> Loader::step(std::int64_t step) { return impl_->step(step); }

void Loader::expect(std::int64_t step, std::int64_t first_shard) {
  impl_->expect(step, first_shard);
}
std::vector<Fields> Loader::take() { return impl_->take(); }
void Loader::forget() { impl_->forget(); }

std::int64_t Loader::steps_per_epoch() const { return impl_->steps_per_epoch(); }

}  // namespace lockstep::data
