// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/tile_run.h"

#include "lockstep/ops/cpu/loops.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t kTile = 1024;
// Rows shorter than this are gathered into tiles: a call for each would cost more than the copy.
constexpr std::int64_t kShortRow = 64;

// Copies `count` elements, converted, from a row of an operand.
void gather(const TensorView& view, std::int64_t offset, std::int64_t step, std::int64_t count,
            float* target) {
  if (view.dtype == DType::float32) {
    const float* source = view.as<float>() + offset;
    if (step == 1)
      std::copy_n(source, count, target);
    else
      for (std::int64_t i = 0; i < count; ++i) target[i] = source[i * step];
    return;
  }
  const std::int64_t size = static_cast<std::int64_t>(item_size(view.dtype));
  copy_strided({count}, {view.data + offset * size, {step}, view.dtype},
               {reinterpret_cast<std::byte*>(target), {1}, DType::float32});
}

void scatter(float* source, std::int64_t count, const TensorView& view, std::int64_t offset) {
  const std::int64_t size = static_cast<std::int64_t>(item_size(view.dtype));
  copy_strided({count}, {reinterpret_cast<std::byte*>(source), {1}, DType::float32},
               {view.data + offset * size, {1}, view.dtype});
}

bool is_plain(const TensorView& view, const TensorView& out) {
  return view.dtype == DType::float32 && view.shape == out.shape &&
         is_contiguous(view.shape, view.strides);
}

// One call's operands, with a tile's worth of room for each.
template <std::size_t inputs>
class TileRun {
 public:
  TileRun(const TileSet& tiles, const KernelCall& call, const double* params)
      : tiles_(tiles), in_(call.inputs), out_(call.outputs[0]), params_(params) {}

  void run() {
    std::array<const TensorView*, inputs + 1> operands{&out_};
    for (std::size_t i = 0; i < inputs; ++i) operands[i + 1] = &in_[i];
    const auto walk = make_walk<inputs + 1>(operands);
    if (walk.shape.rank() > 1 && walk.shape.back() < kShortRow) return run_short_rows(walk);
    for_each_row(walk, [&](const auto& offset, const auto& step, std::int64_t count) {
      run_row(offset, step, count);
    });
  }

 private:
  using Offsets = std::array<std::int64_t, inputs + 1>;

  // The output is dense, so short rows that follow each other fill one tile.
  void run_short_rows(const Walk<inputs + 1>& walk) {
    const std::int64_t row = walk.shape.back();
    capacity_ = std::min(kTile / row * row, walk.shape.numel());
    for (std::size_t i = 0; i < inputs; ++i) prepare(walk, i);
    for_each_row(walk, [&](const auto& offset, const auto& step, std::int64_t count) {
      if (filled_ == capacity_) flush();
      for (std::size_t i = 0; i < inputs; ++i)
        if (source_[i] == Source::gathered)
          gather(in_[i], offset[i + 1], step[i + 1], count, room_[i] + filled_);
      filled_ += count;
    });
    flush();
  }

  // An operand that lies as the output does is read where it is; one row for all is laid out once.
  void prepare(const Walk<inputs + 1>& walk, std::size_t input) {
    const Strides& strides = walk.strides[input + 1];
    const std::int64_t row = walk.shape.back();
    if (in_[input].dtype == DType::float32 && strides == walk.strides[0]) {
      source_[input] = Source::dense;
    } else if (std::all_of(strides.begin(), strides.end() - 1,
                           [](std::int64_t s) { return s == 0; })) {
      source_[input] = Source::repeated;
      for (std::int64_t at = 0; at < capacity_; at += row)
        gather(in_[input], 0, strides.back(), row, room_[input] + at);
    }
  }

  void flush() {
    std::array<const float*, inputs> pointers;
    for (std::size_t i = 0; i < inputs; ++i)
      pointers[i] = source_[i] == Source::dense ? in_[i].template as<float>() + done_ : room_[i];
    emit(pointers, 0, done_, filled_);
    done_ += filled_;
    filled_ = 0;
  }

  void run_row(const Offsets& offset, const Offsets& step, std::int64_t count) {
    bool direct = out_.dtype == DType::float32;
    for (std::size_t i = 0; i < inputs; ++i) direct = direct && is_direct(i, step[i + 1]);
    const std::int64_t chunk = direct ? count : std::min(count, kTile);
    for (std::int64_t done = 0; done < count; done += chunk)
      run_chunk(offset, step, done, std::min(chunk, count - done));
  }

  void run_chunk(const Offsets& offset, const Offsets& step, std::int64_t done,
                 std::int64_t count) {
    std::array<const float*, inputs> pointers;
    unsigned single = 0;
    for (std::size_t i = 0; i < inputs; ++i) {
      const std::int64_t at = offset[i + 1] + done * step[i + 1];
      if (is_direct(i, step[i + 1])) {
        pointers[i] = in_[i].template as<float>() + at;
        if (step[i + 1] == 0) single |= 1u << i;
      } else {
        gather(in_[i], at, step[i + 1], count, room_[i]);
        pointers[i] = room_[i];
      }
    }
    emit(pointers, single, offset[0] + done, count);
  }

  bool is_direct(std::size_t input, std::int64_t step) const {
    return in_[input].dtype == DType::float32 && (step == 1 || (step == 0 && inputs == 2));
  }

  void emit(const std::array<const float*, inputs>& pointers, unsigned single, std::int64_t at,
            std::int64_t count) {
    const bool direct = out_.dtype == DType::float32;
    float* target = direct ? out_.as<float>() + at : room_[inputs];
    tiles_.run[single](pointers.data(), params_, target, static_cast<std::size_t>(count));
    if (!direct) scatter(target, count, out_, at);
  }

  enum class Source { gathered, repeated, dense };

  const TileSet& tiles_;
  std::span<const TensorView> in_;
  const TensorView& out_;
  const double* params_;
  std::array<Source, inputs> source_{};
  std::int64_t capacity_ = 0;
  std::int64_t filled_ = 0;
  std::int64_t done_ = 0;
  alignas(64) float room_[inputs + 1][kTile];
};

}  // namespace

TileSet::TileSet(std::string_view op) {
  for (unsigned single = 0; single < 4; ++single) run[single] = tile_function(op, single);
  check(run[0] != nullptr, "no such tile function");
}

void run_tiles(const TileSet& tiles, const KernelCall& call, const double* params) {
  const TensorView& out = call.outputs[0];
  const std::int64_t count = out.numel();
  if (count == 0) return;
  const bool binary = call.inputs.size() == 2;
  if (out.dtype == DType::float32 && is_plain(call.inputs[0], out) &&
      (!binary || is_plain(call.inputs[1], out))) {
    const float* pointers[] = {call.inputs[0].as<float>(),
                               binary ? call.inputs[1].as<float>() : nullptr};
    tiles.run[0](pointers, params, out.as<float>(), static_cast<std::size_t>(count));
  } else if (binary) {
    TileRun<2>(tiles, call, params).run();
  } else {
    TileRun<1>(tiles, call, params).run();
  }
}

}  // namespace lockstep::kernels
