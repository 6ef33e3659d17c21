// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/kvstore/servers/served_table.h"

namespace lockstep::kvstore {

// Whatever is a flat buffer, in one order.
std::vector<std::span<float>> ServedTable::all_numbers() const {
  const std::size_t floats = layout().floats;
  std::vector<std::span<float>> all{state_->weights(), state_->next_weights()};
  for (std::size_t k = 0; floats > 0 && k < state_->slots(); ++k) {
    all.push_back(state_->slot(k));
    all.push_back({state_->driver().parameters()[0].to.slots[k], floats});
  }
  if (sums_) all.push_back({sums_->data(), floats});
  const RowTables& tables = state_->tables();
  for (std::size_t t = 0; t < tables.size(); ++t) {
    all.push_back(tables.weights(t));
    for (std::size_t k = 0; k < state_->slots(); ++k) all.push_back(tables.slot(k, t));
  }
  return all;
}

// A worker's sums of a chunk came in one request.
void ServedTable::add_waiting(std::vector<comm::MessageEvent>& events) const {
  for (const auto& [offset, chunk] : chunks_) {
    std::set<std::uint32_t> workers;
    for (const Chunk::Node& node : chunk.nodes()) {
      if (!workers.insert(node.worker).second) continue;
      comm::MessageEvent& event = events.emplace_back();
      event.topic = static_cast<std::uint32_t>(wire::Topic::give);
      event.payload = node.payload;
    }
  }
}

wire::TableImage ServedTable::save(comm::Payload& floats) const {
  wire::TableImage image{.made = made_,
                         .round = round_,
                         .is_open = is_open_,
                         .is_aligned = is_aligned_,
                         .is_measured = is_measured_,
                         .can_revert = can_revert_,
                         .is_undecided = is_undecided_,
                         .has_weights = has_weights_,
                         .number = number_,
                         .rate = rate_,
                         .squares = squares_};
  image.made.epoch = epoch_;
  if (steps_) image.steps.push_back(*steps_);
  if (scale_) image.scale.push_back(*scale_);
  for (const auto& [offset, chunk] : chunks_)
    if (chunk.is_summed)
      image.chunks.push_back({offset, chunk.count(), chunk.finite, chunk.is_updated});
  for (const optim::PieceNorms& norms : norms_)
    image.norms.push_back({norms.weight, norms.direction});
  for (const std::span<float> numbers : all_numbers()) add_copy(floats, numbers);
  if (layout().tables.empty()) return image;
  // What the last step has replaced is not told: it cannot be taken back there.
  image.can_revert = false;
  image.rows = {rows_.is_summed, rows_.finite, rows_.is_updated, {}};
  for (std::size_t t = 0; rows_.is_summed && t < layout().tables.size(); ++t) {
    const RowSums& sums = state_->tables().gradient(t);
    image.rows.ids.push_back({sums.ids});
    add_copy(floats, sums.rows);
  }
  return image;
}

ServedTable::ServedTable(const wire::TableImage& image, FloatParts& floats)
    : ServedTable(image.made) {
  if (image.squares.size() != squares_.size() || image.norms.size() != norms_.size())
    throw Corrupt("table '{}': the image of another one", name_);
  squares_ = image.squares;
  for (std::size_t i = 0; i < norms_.size(); ++i)
    norms_[i] = {image.norms[i].weight, image.norms[i].direction};
  round_ = image.round;
  is_open_ = image.is_open;
  is_aligned_ = image.is_aligned;
  is_measured_ = image.is_measured;
  can_revert_ = image.can_revert;
  is_undecided_ = image.is_undecided;
  has_weights_ = image.has_weights;
  number_ = image.number;
  rate_ = image.rate;
  if (!image.steps.empty()) steps_ = image.steps[0];
  if (!image.scale.empty()) scale_ = image.scale[0];
  for (const std::span<float> numbers : all_numbers()) floats.take(numbers);
  if (is_open_) state_->begin(number_, rate_, made_.shards);
  for (const wire::ChunkImage& one : image.chunks) {
    Chunk& chunk = chunks_.emplace(one.offset, Chunk(one.count)).first->second;
    chunk.pieces = pieces_of(one.offset, one.count).size();
    chunk.is_summed = true;
    chunk.finite = one.finite;
    chunk.is_updated = one.is_updated;
    updated_ += one.is_updated ? chunk.pieces : 0;
  }
  if (image.rows.is_summed) load_rows(image, floats);
}

// What the rule makes of the sums is made anew.
void ServedTable::load_rows(const wire::TableImage& image, FloatParts& floats) {
  if (image.rows.ids.size() != layout().tables.size())
    throw Corrupt("table '{}': the image of another one", name_);
  rows_.is_summed = true;
  rows_.finite = image.rows.finite;
  for (std::size_t t = 0; t < layout().tables.size(); ++t) {
    const RowTable& table = layout().tables[t];
    RowSums sums{.ids = image.rows.ids[t].numbers};
    for (const std::int64_t id : sums.ids)
      if (id < 0 || id >= static_cast<std::int64_t>(table.rows))
        throw Corrupt("table '{}': the image of another one", name_);
    sums.rows.resize(sums.ids.size() * table.width);
    floats.take(sums.rows);
    state_->tables().set_gradient(t, std::move(sums));
  }
  ThreadTeam team(1);
  if (rows_.finite && state_->driver().clips()) rows_squares_ = state_->squares_of_tables(team);
  if (image.rows.is_updated) update_rows(team);
}

}  // namespace lockstep::kvstore
