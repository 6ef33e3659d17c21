// SPDX-License-Identifier: Apache-2.0
// Sequences without alignment: CTC over a recurrent net, with a length for each sequence.
//
//   ctc [STEPS] [THREADS]        lockstep launch --workers 2 -- ctc
#include <fmt/core.h>

#include <cstdlib>

#include "lockstep/lockstep.h"

using namespace lockstep;

constexpr std::int64_t kSymbols = 4, kLetters = 4, kFrames = 16, kWords = 512;

// Words of letters; each is heard for two or three frames in noise. Frames beyond a word's end are
// noise alone.
data::DatasetPtr words(std::uint64_t seed) {
  const RandomScope draws(random_key(seed));
  const Tensor sound = normal({kWords, kFrames, kSymbols}) * 0.3;
  const Tensor word = randint(0, kSymbols, {kWords, kLetters});
  const Tensor held = randint(2, 4, {kWords, kLetters}),
               length = Tensor::zeros({kWords}, DType::int64);
  for (std::int64_t n = 0; n < kWords; ++n) {
    std::int64_t& frame = length.data<std::int64_t>()[n];
    for (std::int64_t i = n * kLetters; i < (n + 1) * kLetters; ++i) {
      for (std::int64_t k = 0; k < held.data<std::int64_t>()[i]; ++k, ++frame)
        sound.data<float>()[(n * kFrames + frame) * kSymbols + word.data<std::int64_t>()[i]] +=
            1.0F;
      ++frame;  // a pause, so that two of the same letter are told apart
    }
  }
  return std::make_shared<data::ArrayDataset>(data::Fields{sound, word, length});
}

int main(int argc, char** argv) {
  const train::OwnJob own = train::join_job();
  const nn::BlockPtr net = nn::sequential(nn::gru(24, {.layout = "NTC", .bidirectional = true}),
                                          nn::dense(kSymbols + 1, {.flatten = false}));
  const auto loss = [](const train::Tensors& outputs, const train::Tensors& labels) {
    return nn::CTCLoss().with_lengths(outputs[0], labels[0], labels[1]);
  };
  train::TrainerOptions options{.global_batch = 32, .threads = argc > 2 ? std::atoi(argv[2]) : 1};
  options.fields = {train::input("sound"), train::label("word"), train::label("length")};
  options.mode = own.mode.get();
  train::Trainer trainer(net, loss, optim::adam({.learning_rate = 0.01}), options);
  const train::FitResult result = trainer.fit(
      words(1), {.steps = argc > 1 ? std::atoll(argv[1]) : 200, .validation = words(2)});
  if (!own.is_first()) return 0;  // one speaks for all
  fmt::print("loss on words it has not heard: {:.4f}\n", result.validation.loss);
  fmt::print("params_sha256 {}\n", result.params_sha256);
}
