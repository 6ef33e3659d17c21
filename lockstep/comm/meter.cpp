// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/meter.h"

namespace lockstep::comm {

std::optional<Meter::Waiting> Meter::waiting() const {
  const std::lock_guard lock(mutex_);
  if (!goes_on_) return {};
  return Waiting{operation_, rank_, std::chrono::duration<double>(Clock::now() - begin_).count()};
}

Meter::Wait::Wait(Meter* meter, std::string_view operation, int rank) : meter_(meter), rank_(rank) {
  if (meter_ == nullptr) return;
  begin_ = Clock::now();
  const std::lock_guard lock(meter_->mutex_);
  number_ = ++meter_->last_;
  meter_->operation_ = operation;
  meter_->rank_ = rank;
  meter_->begin_ = begin_;
  meter_->goes_on_ = true;
}

void Meter::Wait::set_rank(int rank) {
  if (meter_ == nullptr || rank == rank_) return;
  rank_ = rank;
  const std::lock_guard lock(meter_->mutex_);
  if (number_ == meter_->last_) meter_->rank_ = rank;
}

Meter::Wait::~Wait() {
  if (meter_ == nullptr) return;
  const std::chrono::nanoseconds took = Clock::now() - begin_;
  meter_->waited_.fetch_add(took.count(), std::memory_order_relaxed);
  const std::lock_guard lock(meter_->mutex_);
  if (number_ == meter_->last_) meter_->goes_on_ = false;
}

}  // namespace lockstep::comm
