// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/detail/derived_memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <unordered_set>

namespace lockstep::detail {
namespace {

// Smaller constants are not worth the search.
constexpr std::size_t kSmallestShared = 1024;

// What a step reads, as a number that nothing else has. Blocks keep the constants that they are
// made of, so that their addresses stay theirs.
std::uint64_t state_source(std::size_t state) { return 4 * state; }
std::uint64_t block_source(const DerivedBlock& block) { return 4 * block.number + 1; }
std::uint64_t constant_source(const Tensor& constant) {
  return reinterpret_cast<std::uint64_t>(constant.address()) * 4 + 2;
}

bool is_alike(const Operand& a, const Operand& b) {
  return a.byte_offset == b.byte_offset && a.shape == b.shape && a.strides == b.strides &&
         a.dtype == b.dtype && a.layout == b.layout;
}

std::string_view kernel_of(const Step& step) {
  return step.prepared ? std::string_view(step.prepared->name) : step.direct->name;
}

bool does_the_same(const Step& a, const Step& b) {
  return a.label == b.label && kernel_of(a) == kernel_of(b) && a.attrs == b.attrs &&
         std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(), is_alike) &&
         std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(),
                    is_alike);
}

std::size_t hash_of(const Step& step, const std::vector<std::uint64_t>& sources,
                    std::size_t output) {
  std::size_t hash = std::hash<std::string_view>{}(step.label) + output;
  for (const std::uint64_t source : sources) hash = hash * 1000003 + source;
  return hash;
}

std::string_view text_of(const std::byte* data, std::size_t bytes) {
  return {reinterpret_cast<const char*>(data), bytes};
}

const Buffer& buffer_of(const Program& program, const Operand& operand) {
  return program.buffers[static_cast<std::size_t>(operand.buffer)];
}

template <class Map>
void erase_expired(Map& map) {
  std::erase_if(map, [](const auto& entry) { return entry.second.expired(); });
}

}  // namespace

void SharedPool::forget_unused() {
  erase_expired(constants_);
  erase_expired(blocks_);
}

void SharedPool::share_constants(Program& program) {
  const std::lock_guard lock(mutex_);
  forget_unused();
  for (Tensor& constant : program.constants) {
    const std::size_t bytes = constant.info().bytes();
    if (bytes < kSmallestShared || !constant.device().is_host()) continue;
    if (constant.storage()->bytes() != bytes) constant = constant.copy();
    const std::string_view contents = text_of(constant.raw(), bytes);
    const std::size_t hash = std::hash<std::string_view>{}(contents);
    const auto [begin, end] = constants_.equal_range(hash);
    const auto known = std::find_if(begin, end, [&](const auto& entry) {
      const std::shared_ptr<Storage> storage = entry.second.lock();
      return storage && storage->device() == constant.device() && storage->bytes() == bytes &&
             text_of(storage->data(), bytes) == contents;
    });
    if (known == end)
      constants_.emplace(hash, constant.storage());
    else
      constant = Tensor::view_of(known->second.lock(), constant.shape(),
                                 contiguous_strides(constant.shape()), 0, constant.dtype());
  }
}

std::shared_ptr<DerivedBlock> SharedPool::block_for(const Program& program, const Step& step,
                                                    std::vector<std::uint64_t> sources,
                                                    std::size_t output) {
  const std::size_t hash = hash_of(step, sources, output);
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = blocks_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    std::shared_ptr<DerivedBlock> known = it->second.lock();
    if (known && known->output == output && known->sources == sources &&
        does_the_same(known->step, step))
      return known;
  }
  const auto block = std::make_shared<DerivedBlock>();
  const std::size_t bytes = buffer_of(program, step.outputs[output]).bytes;
  block->storage =
      Tensor::zeros({static_cast<std::int64_t>(bytes)}, DType::uint8, program.device).storage();
  block->number = ++made_;
  block->step = step;
  block->sources = std::move(sources);
  block->output = output;
  for (const Operand& input : step.inputs)
    if (buffer_of(program, input).kind == BufferKind::constant)
      block->constants.push_back(program.constants[buffer_of(program, input).index]);
  blocks_.emplace(hash, block);
  return block;
}

DerivedMemory::DerivedMemory(Program& program, SharedPool& pool) {
  for (const std::vector<Step>& part : program.prologue)
    for (const Step& step : part) {
      std::vector<std::uint64_t> sources;
      for (const Operand& input : step.inputs) {
        const Buffer& buffer = buffer_of(program, input);
        switch (buffer.kind) {
          case BufferKind::state: sources.push_back(state_source(buffer.index)); break;
          case BufferKind::derived: sources.push_back(block_source(*blocks_[buffer.index])); break;
          default: sources.push_back(constant_source(program.constants[buffer.index]));
        }
      }
      for (std::size_t i = 0; i < step.outputs.size(); ++i) {
        const std::size_t number = buffer_of(program, step.outputs[i]).index;
        if (blocks_.size() <= number) blocks_.resize(number + 1);
        blocks_[number] = pool.block_for(program, step, sources, i);
      }
    }
  join_parts(program);
}

DerivedMemory::Blocks DerivedMemory::made_by(const Program& program, const Step& step) const {
  Blocks blocks;
  for (const Operand& output : step.outputs)
    blocks.push_back(blocks_[buffer_of(program, output).index].get());
  return blocks;
}

// In the order in which they are locked.
DerivedMemory::Blocks DerivedMemory::made_by(const Program& program,
                                             const std::vector<Step>& part) const {
  Blocks all;
  for (const Step& step : part)
    for (DerivedBlock* block : made_by(program, step)) all.push_back(block);
  std::sort(all.begin(), all.end(),
            [](const DerivedBlock* a, const DerivedBlock* b) { return a->number < b->number; });
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// Parts go to the first one that makes a block of theirs.
void DerivedMemory::join_parts(Program& program) const {
  std::vector<std::vector<Step>> parts;
  std::unordered_map<const DerivedBlock*, std::size_t> part_of;
  for (std::vector<Step>& part : program.prologue) {
    std::size_t target = parts.size();
    parts.emplace_back();
    for (const DerivedBlock* block : made_by(program, part)) {
      const auto known = part_of.find(block);
      if (known == part_of.end() || known->second == target) continue;
      const auto [first, other] = std::minmax(known->second, target);
      std::move(parts[other].begin(), parts[other].end(), std::back_inserter(parts[first]));
      parts[other].clear();
      for (auto& [made, number] : part_of)
        if (number == other) number = first;
      target = first;
    }
    for (Step& step : part) {
      const Blocks made = made_by(program, step);
      const bool is_there = std::all_of(made.begin(), made.end(), [&](const DerivedBlock* block) {
        return part_of.contains(block);
      });
      if (is_there) continue;
      for (const DerivedBlock* block : made) part_of[block] = target;
      parts[target].push_back(std::move(step));
    }
  }
  std::erase_if(parts, [](const std::vector<Step>& part) { return part.empty(); });
  program.prologue = std::move(parts);
}

void DerivedMemory::make(const Program& program, std::size_t part, std::uint64_t version,
                         const std::function<void(const Step&)>& run) {
  const std::vector<Step>& steps = program.prologue.at(part);
  std::vector<std::unique_lock<std::mutex>> locks;
  for (DerivedBlock* block : made_by(program, steps)) locks.emplace_back(block->making);
  for (const Step& step : steps) {
    const Blocks made = made_by(program, step);
    const auto is_fresh = [&](const DerivedBlock* block) { return block->version == version; };
    if (std::all_of(made.begin(), made.end(), is_fresh)) continue;
    run(step);
    for (DerivedBlock* block : made) block->version = version;
  }
}

std::size_t DerivedMemory::bytes() const {
  std::unordered_set<const DerivedBlock*> seen;
  std::size_t bytes = 0;
  for (const auto& block : blocks_)
    if (seen.insert(block.get()).second) bytes += block->storage->bytes();
  return bytes;
}

}  // namespace lockstep::detail
