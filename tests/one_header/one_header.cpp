// SPDX-License-Identifier: Apache-2.0
// A program of a user's that includes one header: images of its own, a net, a worker's part of a
// job. It prints the sum of its parameters, the same alone and on two workers.
#include <lockstep/lockstep.h>

#include <filesystem>
#include <fstream>

using namespace lockstep;

static void write_images(const std::string& folder) {
  for (const char* name : {"dark", "light"}) {
    std::filesystem::create_directories(folder + "/" + name);
    for (int i = 0; i < 8; ++i) {
      const double grey = (name[0] == 'd' ? 20.0 : 200.0) + i;
      const Tensor image = full({8, 8, 3}, grey, DType::uint8);
      std::ofstream(fmt::format("{}/{}/{}.png", folder, name, i), std::ios::binary)
          << data::encode_png(image);
    }
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::unique_ptr<cluster::Job> job;
  std::unique_ptr<kvstore::Mode> mode = kvstore::local_mode();
  if (const std::optional<cluster::Place> place = cluster::find_place()) {
    job = std::make_unique<cluster::Job>(*place);
    mode = kvstore::allreduce_mode(job->communicator(), job->membership());
  }
  train::agree_on_instruction_set(mode->group());
  const std::string folder = fmt::format("{}/{}", argv[1], mode->group().rank());
  write_images(folder);

  const nn::BlockPtr net = nn::sequential(nn::conv2d(4, 3), nn::batch_norm(), nn::dense(2));
  train::Trainer trainer(net, nn::SoftmaxCrossEntropyLoss(), optim::adam(),
                         {.global_batch = 16, .shards = 2, .mode = mode.get()});
  const train::FitResult result = trainer.fit(
      std::make_shared<data::ImageFolder>(folder),
      {.epochs = 2, .transform = data::to_tensor(), .schedule = optim::cosine(0.01, 2)});
  if (mode->group().is_first()) fmt::print("{}\n", result.params_sha256);
}
