// SPDX-License-Identifier: Apache-2.0
// OpenMPI's side of `lockstep bench comm`: mpirun -np RANKS mpi_all_reduce_peer [--quick]
#include <mpi.h>

#include <cstring>

#include "bench/peers/all_reduce_peer.h"

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  const bool quick = count > 1 && std::strcmp(arguments[1], "--quick") == 0;
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto all_reduce = [](float* data, std::size_t elements) {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(elements), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  };
  const bool right = peers::measure(rank, ranks, quick, all_reduce);
  MPI_Finalize();
  return right ? 0 : 1;
}
