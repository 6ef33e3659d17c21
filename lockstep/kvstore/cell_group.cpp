// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/cell_group.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/comm/agreement.h"

namespace lockstep::kvstore {
namespace {

// Of a piece's gradient.
struct Square {
  std::uint64_t number, piece;  // of the parameter; in it
  double value;
};

// Of one slice of a parameter.
struct Norms {
  std::uint64_t number, whole;
  double weight, direction;
};

}  // namespace

CellGroup::CellGroup(MeshLinks& links)
    : links_(links),
      same_cell_(group_of(links.same_cell(), cluster::workers_of(links.same_cell()),
                          links.options().timeout)) {}

void CellGroup::set_layout(const FlatLayout& layout) {
  layout_ = &layout;
  const bool own = std::ranges::any_of(layout.parameters, [](const FlatParameter& parameter) {
    return parameter.whole.has_value();
  });
  is_sliced_ = std::ranges::count(texts_of_replica(own ? "sliced" : ""), "sliced") > 0;
}

std::vector<std::string> CellGroup::texts_of_replica(const std::string& own) {
  return comm::share_texts(links_.whole_replica(), own, links_.options());
}

template <class T>
std::vector<std::vector<T>> CellGroup::of_replica(std::span<const T> own) {
  std::vector<std::vector<T>> all;
  for (const std::string& bytes :
       texts_of_replica({reinterpret_cast<const char*>(own.data()), own.size_bytes()})) {
    all.emplace_back(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(all.back().data(), bytes.data(), bytes.size());
  }
  return all;
}

Vote CellGroup::gather(const Vote& own, std::int64_t parts, std::span<float> rows) {
  Vote vote = same_cell_->gather(own, parts, rows);
  comm::Communicator& replica = links_.whole_replica();
  const std::size_t message = sizeof(Vote) + rows.size_bytes();
  sent_.resize(message);
  received_.resize(message * static_cast<std::size_t>(replica.size()));
  std::memcpy(sent_.data(), &vote, sizeof vote);
  std::memcpy(sent_.data() + sizeof vote, rows.data(), rows.size_bytes());
  replica.all_gather(sent_, received_, links_.options());
  auto* const table = reinterpret_cast<std::byte*>(rows.data());
  for (std::size_t begin = 0; begin < received_.size(); begin += message) {
    Vote its;
    std::memcpy(&its, received_.data() + begin, sizeof its);
    vote = combine(vote, its);
    const std::byte* from = received_.data() + begin + sizeof its;
    for (std::size_t i = 0; i < rows.size_bytes(); ++i) table[i] |= from[i];
  }
  return vote;
}

std::vector<double> CellGroup::all_squares(std::span<const double> own) {
  std::vector<Square> mine;
  std::uint64_t in_parameter = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::size_t parameter = layout_->pieces[i].parameter;
    in_parameter = i > 0 && layout_->pieces[i - 1].parameter == parameter ? in_parameter + 1 : 0;
    mine.push_back({layout_->parameters[parameter].number, in_parameter, own[i]});
  }
  std::vector<std::vector<Square>> cells = of_replica(std::span<const Square>(mine));
  std::vector<double> all;
  if (!is_sliced_) {
    for (auto cell = cells.rbegin(); cell != cells.rend(); ++cell)
      for (const Square& one : *cell) all.push_back(one.value);
    return all;
  }
  std::map<std::uint64_t, std::map<std::uint64_t, double>, std::greater<>> in_order;
  for (const auto& cell : cells)
    for (const Square& one : cell) in_order[one.number][one.piece] = one.value;
  for (const auto& [number, pieces] : in_order)
    for (const auto& [piece, value] : pieces) all.push_back(value);
  return all;
}

std::vector<optim::PieceNorms> CellGroup::all_norms(std::span<const optim::PieceNorms> own) {
  std::vector<optim::PieceNorms> all(own.begin(), own.end());
  if (!is_sliced_) return all;
  std::vector<Norms> mine;
  for (std::size_t p = 0; p < own.size(); ++p)
    if (const auto whole = layout_->parameters[p].whole)
      mine.push_back({layout_->parameters[p].number, *whole, own[p].weight, own[p].direction});
  std::map<std::uint64_t, Norms, std::greater<>> in_order;
  for (const auto& cell : of_replica(std::span<const Norms>(mine)))
    for (const Norms& one : cell) in_order[one.number] = one;
  std::map<std::uint64_t, optim::PieceNorms> wholes;
  for (const auto& [number, one] : in_order) {
    wholes[one.whole].weight += one.weight;
    wholes[one.whole].direction += one.direction;
  }
  for (std::size_t p = 0; p < all.size(); ++p)
    if (const auto whole = layout_->parameters[p].whole) all[p] = wholes.at(*whole);
  return all;
}

}  // namespace lockstep::kvstore
