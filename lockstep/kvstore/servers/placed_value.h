// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/kvstore/servers/placement.h"
#include "lockstep/kvstore/servers/request_batch.h"
#include "lockstep/tensor/tensor.h"

// What a worker knows of the values of a store whose rows lie on servers.
namespace lockstep::kvstore {

// A key's rows on one server, and how far this worker has come with them.
struct Place {
  KeyRange range;
  std::uint64_t clock = 0, version = 0;
  std::vector<PendingAnswer> pushes = {};  // of one push, its parts
};

// Rows that a worker has asked for, after so many pushes of its own.
struct AskedRows {
  std::vector<std::int64_t> ids = {};
  std::uint64_t clock = 0;
  std::vector<std::pair<Place*, ServerReply>> replies = {};
};

struct PlacedValue {
  TensorInfo info;  // as given to init
  std::size_t rows = 1, width = 1;
  std::vector<Place> places = {};
  std::vector<float> residual = {};  // of a compressed one
  std::optional<AskedRows> prefetched = {};

  std::size_t floats() const { return rows * width; }
  // Where the floats of a place begin, and how many they are.
  std::pair<std::size_t, std::size_t> floats_at(const Place& its) const {
    return {its.range.row * width, its.range.rows * width};
  }
  // Rows of these numbers have been asked for, and nothing was pushed since.
  bool has_prefetched(const std::vector<std::int64_t>& ids) const {
    return prefetched && prefetched->ids == ids && prefetched->clock == places[0].clock;
  }
  // What is small goes with others in one message.
  bool is_small() const { return places.size() == 1 && RequestBatches::takes(floats()); }
  // Of the type that was given to init.
  Tensor as_given(const Tensor& data) const;
};

// Of a row of the whole value; none where it is on another server.
std::optional<std::uint64_t> local_row(const Place& its, std::int64_t id);

// Floats of a place that come in one answer.
struct Pulling {
  Place* place;
  std::size_t begin, count;  // of the value's floats
  PendingAnswer answer;
};

// A push under way whose answers bring what it has made of the value.
struct PushPulling {
  PlacedValue* value;
  Tensor data;
  std::vector<Pulling> parts = {};
  std::size_t taken = 0;          // of the parts
  std::set<Place*> refused = {};  // by servers
  std::exception_ptr error = {};  // the first

  // Parts that were lost with their server go again. The answer to one may wait for all of them.
  void send_lost_again();
};

// How so many floats are cut: offsets and counts.
using Parts = std::vector<std::pair<std::size_t, std::size_t>>;
Parts parts_of(std::size_t count);

// The tensors themselves, where their floats lie in a row here; or copies that do.
std::vector<Tensor> all_dense(const std::vector<Tensor>& given);
// Of those, in the canonical tree's order.
Tensor sum_of(const std::vector<Tensor>& tensors);

}  // namespace lockstep::kvstore
