// SPDX-License-Identifier: Apache-2.0
// MPI's functions, as its header declares them: the library is loaded when one is called.
#include "lockstep/base/lazy_library.h"
#include "lockstep/comm/detail/mpi_symbols.h"

#ifndef LOCKSTEP_LIBRARY
#define LOCKSTEP_LIBRARY "libmpi.so.40"
#endif

namespace {

constinit lockstep::LazyLibrary library("mpi", LOCKSTEP_LIBRARY);

template <class Function>
using Call = lockstep::LazyCall<Function>;

}  // namespace

extern "C" {

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  static constinit Call<decltype(MPI_Init_thread)> call(library, "MPI_Init_thread");
  return call(argc, argv, required, provided);
}

int MPI_Finalize() {
  static constinit Call<decltype(MPI_Finalize)> call(library, "MPI_Finalize");
  return call();
}

int MPI_Error_string(int code, char* text, int* length) {
  static constinit Call<decltype(MPI_Error_string)> call(library, "MPI_Error_string");
  return call(code, text, length);
}

int MPI_Get_processor_name(char* name, int* length) {
  static constinit Call<decltype(MPI_Get_processor_name)> call(library, "MPI_Get_processor_name");
  return call(name, length);
}

int MPI_Comm_dup(MPI_Comm group, MPI_Comm* copy) {
  static constinit Call<decltype(MPI_Comm_dup)> call(library, "MPI_Comm_dup");
  return call(group, copy);
}

int MPI_Comm_free(MPI_Comm* group) {
  static constinit Call<decltype(MPI_Comm_free)> call(library, "MPI_Comm_free");
  return call(group);
}

int MPI_Comm_rank(MPI_Comm group, int* rank) {
  static constinit Call<decltype(MPI_Comm_rank)> call(library, "MPI_Comm_rank");
  return call(group, rank);
}

int MPI_Comm_size(MPI_Comm group, int* size) {
  static constinit Call<decltype(MPI_Comm_size)> call(library, "MPI_Comm_size");
  return call(group, size);
}

int MPI_Comm_get_attr(MPI_Comm group, int key, void* value, int* found) {
  static constinit Call<decltype(MPI_Comm_get_attr)> call(library, "MPI_Comm_get_attr");
  return call(group, key, value, found);
}

int MPI_Comm_set_errhandler(MPI_Comm group, MPI_Errhandler handler) {
  static constinit Call<decltype(MPI_Comm_set_errhandler)> call(library, "MPI_Comm_set_errhandler");
  return call(group, handler);
}

int MPI_Allgather(const void* own, int count, MPI_Datatype type, void* all, int each,
                  MPI_Datatype all_type, MPI_Comm group) {
  static constinit Call<decltype(MPI_Allgather)> call(library, "MPI_Allgather");
  return call(own, count, type, all, each, all_type, group);
}

int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm group, MPI_Request* request) {
  static constinit Call<decltype(MPI_Iallreduce)> call(library, "MPI_Iallreduce");
  return call(from, to, count, type, op, group, request);
}

int MPI_Isend(const void* bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm group,
              MPI_Request* request) {
  static constinit Call<decltype(MPI_Isend)> call(library, "MPI_Isend");
  return call(bytes, count, type, to, tag, group, request);
}

int MPI_Recv(void* bytes, int count, MPI_Datatype type, int from, int tag, MPI_Comm group,
             MPI_Status* status) {
  static constinit Call<decltype(MPI_Recv)> call(library, "MPI_Recv");
  return call(bytes, count, type, from, tag, group, status);
}

int MPI_Iprobe(int from, int tag, MPI_Comm group, int* found, MPI_Status* status) {
  static constinit Call<decltype(MPI_Iprobe)> call(library, "MPI_Iprobe");
  return call(from, tag, group, found, status);
}

int MPI_Improbe(int from, int tag, MPI_Comm group, int* found, MPI_Message* message,
                MPI_Status* status) {
  static constinit Call<decltype(MPI_Improbe)> call(library, "MPI_Improbe");
  return call(from, tag, group, found, message, status);
}

int MPI_Mrecv(void* bytes, int count, MPI_Datatype type, MPI_Message* message, MPI_Status* status) {
  static constinit Call<decltype(MPI_Mrecv)> call(library, "MPI_Mrecv");
  return call(bytes, count, type, message, status);
}

int MPI_Imrecv(void* bytes, int count, MPI_Datatype type, MPI_Message* message,
               MPI_Request* request) {
  static constinit Call<decltype(MPI_Imrecv)> call(library, "MPI_Imrecv");
  return call(bytes, count, type, message, request);
}

int MPI_Get_count(const MPI_Status* status, MPI_Datatype type, int* count) {
  static constinit Call<decltype(MPI_Get_count)> call(library, "MPI_Get_count");
  return call(status, type, count);
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  static constinit Call<decltype(MPI_Test)> call(library, "MPI_Test");
  return call(request, done, status);
}

int MPI_Cancel(MPI_Request* request) {
  static constinit Call<decltype(MPI_Cancel)> call(library, "MPI_Cancel");
  return call(request);
}

int MPI_Request_free(MPI_Request* request) {
  static constinit Call<decltype(MPI_Request_free)> call(library, "MPI_Request_free");
  return call(request);
}

}  // extern "C"

namespace lockstep::comm::detail {

void* mpi_symbol(const char* name) { return library.find(name); }

}  // namespace lockstep::comm::detail
