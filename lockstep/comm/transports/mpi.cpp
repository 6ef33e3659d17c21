// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/transports/mpi.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/comm/detail/peer_monitor.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kLongestMessage = 1 << 20;  // the longest message
constexpr int kBytes = 1, kAbort = 2;             // tags
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr std::size_t kLongestReason = 1000;

void check_mpi(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw IoError("mpi: {}: {}", what, text);
}

MPI_Datatype type_of(Element element) {
  switch (element) {
    case Element::float32: return MPI_FLOAT;
    case Element::float64: return MPI_DOUBLE;
    case Element::int32: return MPI_INT32_T;
    case Element::int64: return MPI_INT64_T;
    case Element::uint8: return MPI_UINT8_T;
    default: return MPI_DATATYPE_NULL;
  }
}

MPI_Op op_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: return MPI_SUM;
    case Reduction::minimum: return MPI_MIN;
    case Reduction::maximum: return MPI_MAX;
  }
  return MPI_OP_NULL;
}

// A transfer under way.
struct Flow {
  Transfer* transfer;
  MPI_Request request = MPI_REQUEST_NULL;
  std::size_t posted = 0;  // bytes of the request
};

struct Peer {
  std::vector<std::byte> stash = {};  // of a message longer than what was asked for
  std::size_t taken = 0;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    int provided = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "cannot start");
    any_thread_ = provided == MPI_THREAD_MULTIPLE;
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &group_), "cannot make a group");
    MPI_Comm_set_errhandler(group_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(group_, &rank_);
    int size = 0;
    MPI_Comm_size(group_, &size);
    peers_.resize(static_cast<std::size_t>(size));
    gather_hosts();
  }
  ~MpiTransport() override {
    // Finalize waits for every rank, so a broken group must not come to it; mpirun sees that this
    // process ends without it, and ends the others.
    if (aborted_ || broken_) return;
    MPI_Comm_free(&group_);
    MPI_Finalize();
  }

  std::string_view name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  const std::string& host(int rank) const override {
    return hosts_[static_cast<std::size_t>(rank)];
  }

  void exchange(std::span<Transfer> transfers, Deadline deadline,
                std::string_view operation) override;
  void abort(const std::string& reason) override;
  bool native_all_reduce(std::span<std::byte> data, Element element, Reduction reduction,
                         Deadline deadline, std::string_view operation) override;

 private:
  void gather_hosts();
  // Throws when anybody aborted.
  void check(std::string_view operation);
  void tell();
  void wait(MPI_Request request, Deadline deadline, std::string_view operation);
  void move_on(std::vector<Flow>& flows);
  void move_send(Flow& flow);
  void move_receive(Flow& flow);
  void take_stash(Transfer& transfer);
  void drop(std::vector<Flow>& flows);
  [[noreturn]] void time_out(const Transfer& late, std::string_view operation, Deadline begin);

  MPI_Comm group_ = MPI_COMM_NULL;
  int rank_ = 0;
  std::vector<Peer> peers_;
  std::vector<std::string> hosts_;
  bool any_thread_ = false;  // else only the one that exchanges may call MPI
  bool broken_ = false;
  std::atomic<bool> aborted_{false};
  std::mutex aborting_;
  std::string reason_;  // guarded by aborting_, as the next two
  int aborted_by_ = -1;
  bool told_ = false;
};

void MpiTransport::gather_hosts() {
  char own[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  MPI_Get_processor_name(own, &length);
  std::vector<char> all(peers_.size() * sizeof own);
  check_mpi(MPI_Allgather(own, sizeof own, MPI_CHAR, all.data(), sizeof own, MPI_CHAR, group_),
            "cannot gather the hosts' names");
  for (std::size_t i = 0; i < peers_.size(); ++i) hosts_.emplace_back(&all[i * sizeof own]);
}

void MpiTransport::abort(const std::string& reason) {
  const std::lock_guard lock(aborting_);
  if (aborted_) return;
  reason_ = reason.substr(0, kLongestReason);
  aborted_by_ = rank_;
  aborted_ = true;
  if (any_thread_) tell();
}

void MpiTransport::tell() {
  if (std::exchange(told_, true) || aborted_by_ != rank_) return;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(reason_.data(), static_cast<int>(reason_.size()), MPI_CHAR, peer, kAbort, group_,
              &request);
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
}

void MpiTransport::check(std::string_view operation) {
  int waiting = 0;
  MPI_Status status;
  MPI_Iprobe(MPI_ANY_SOURCE, kAbort, group_, &waiting, &status);
  const std::lock_guard lock(aborting_);
  if (waiting != 0 && !aborted_) {
    char text[kLongestReason + 1] = "";
    MPI_Recv(text, sizeof text - 1, MPI_CHAR, status.MPI_SOURCE, kAbort, group_, MPI_STATUS_IGNORE);
    reason_ = text;
    aborted_by_ = status.MPI_SOURCE;
    aborted_ = true;
  }
  if (!aborted_) return;
  tell();
  throw Aborted(fmt::format("{}: aborted by rank {}: {}", operation, aborted_by_, reason_),
                aborted_by_, host(aborted_by_), std::string(operation));
}

void MpiTransport::move_send(Flow& flow) {
  Transfer& one = *flow.transfer;
  flow.posted = std::min(kLongestMessage, one.bytes.size() - one.done);
  check_mpi(MPI_Isend(one.bytes.data() + one.done, static_cast<int>(flow.posted), MPI_BYTE,
                      one.peer, kBytes, group_, &flow.request),
            "cannot send");
}

void MpiTransport::take_stash(Transfer& one) {
  Peer& from = peers_[static_cast<std::size_t>(one.peer)];
  const std::size_t count = std::min(from.stash.size() - from.taken, one.bytes.size() - one.done);
  if (count == 0) return;
  std::memcpy(one.bytes.data() + one.done, from.stash.data() + from.taken, count);
  from.taken += count;
  one.done += count;
}

// A message is looked at before it is received: its length is the sender's choice.
void MpiTransport::move_receive(Flow& flow) {
  Transfer& one = *flow.transfer;
  take_stash(one);
  if (one.done == one.bytes.size()) return;
  int waiting = 0, length = 0;
  MPI_Message message;
  MPI_Status status;
  check_mpi(MPI_Improbe(one.peer, kBytes, group_, &waiting, &message, &status), "cannot look");
  if (waiting == 0) return;
  MPI_Get_count(&status, MPI_BYTE, &length);
  const auto bytes = static_cast<std::size_t>(length);
  if (bytes <= one.bytes.size() - one.done) {
    flow.posted = bytes;
    check_mpi(MPI_Imrecv(one.bytes.data() + one.done, length, MPI_BYTE, &message, &flow.request),
              "cannot receive");
    return;
  }
  Peer& from = peers_[static_cast<std::size_t>(one.peer)];
  from.stash.resize(bytes);
  from.taken = 0;
  check_mpi(MPI_Mrecv(from.stash.data(), length, MPI_BYTE, &message, MPI_STATUS_IGNORE),
            "cannot receive");
  take_stash(one);
}

// Of several transfers one way with one peer, only the first may move.
void MpiTransport::move_on(std::vector<Flow>& flows) {
  for (std::size_t i = 0; i < flows.size(); ++i) {
    Flow& flow = flows[i];
    const auto same = [&](const Flow& other) {
      return other.transfer->peer == flow.transfer->peer &&
             other.transfer->kind == flow.transfer->kind;
    };
    const auto begin = flows.begin();
    if (std::any_of(begin, begin + static_cast<std::ptrdiff_t>(i), same)) continue;
    int done = 1;
    if (flow.request != MPI_REQUEST_NULL) {
      check_mpi(MPI_Test(&flow.request, &done, MPI_STATUS_IGNORE), "cannot test");
      if (done != 0) flow.transfer->done += flow.posted;
    }
    if (done == 0 || flow.transfer->done == flow.transfer->bytes.size()) continue;
    flow.transfer->kind == Transfer::Kind::send ? move_send(flow) : move_receive(flow);
  }
  std::erase_if(flows, [](const Flow& flow) {
    return flow.request == MPI_REQUEST_NULL && flow.transfer->done == flow.transfer->bytes.size();
  });
}

// What cannot be cancelled (a send that has begun) keeps its memory until the process ends, which
// is soon: see the destructor.
void MpiTransport::drop(std::vector<Flow>& flows) {
  for (Flow& flow : flows)
    if (flow.request != MPI_REQUEST_NULL) {
      MPI_Cancel(&flow.request);
      MPI_Request_free(&flow.request);
    }
}

void MpiTransport::time_out(const Transfer& late, std::string_view operation, Deadline begin) {
  const std::chrono::duration<double> waited = Clock::now() - begin;
  const bool sending = late.kind == Transfer::Kind::send;
  throw Timeout(fmt::format("{}: rank {} on {} {} {} of {} bytes within {:.1f} s", operation,
                            late.peer, host(late.peer), sending ? "took" : "sent", late.done,
                            late.bytes.size(), waited.count()),
                late.peer, host(late.peer), std::string(operation));
}

void MpiTransport::exchange(std::span<Transfer> transfers, Deadline deadline,
                            std::string_view operation) {
  detail::check_transfers(transfers, rank(), size(), operation);
  check(operation);
  std::vector<Flow> flows;
  for (Transfer& one : transfers)
    if (one.done < one.bytes.size()) flows.push_back({&one});
  const Deadline begin = Clock::now();
  try {
    while (move_on(flows), !flows.empty()) {
      const Deadline now = Clock::now();
      if (now >= deadline) time_out(*flows.back().transfer, operation, begin);
      if (now - begin > kSpin) {
        check(operation);
        std::this_thread::yield();  // MPI has nothing to sleep on
      }
    }
  } catch (...) {
    broken_ = true;
    drop(flows);
    throw;
  }
}

bool MpiTransport::native_all_reduce(std::span<std::byte> data, Element element,
                                     Reduction reduction, Deadline deadline,
                                     std::string_view operation) {
  const MPI_Datatype type = type_of(element);
  const std::size_t count = data.size() / element_size(element);
  if (type == MPI_DATATYPE_NULL || count > INT_MAX) return false;
  check(operation);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(MPI_IN_PLACE, data.data(), static_cast<int>(count), type,
                           op_of(reduction), group_, &request),
            "cannot reduce");
  wait(request, deadline, operation);
  return true;
}

void MpiTransport::wait(MPI_Request request, Deadline deadline, std::string_view operation) {
  int done = 0;
  for (const Deadline begin = Clock::now();; std::this_thread::yield()) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "cannot test");
    if (done != 0) return;
    if (Clock::now() - begin > kSpin) check(operation);
    if (Clock::now() < deadline) continue;
    broken_ = true;
    throw Timeout(fmt::format("{}: not all ranks came by the deadline", operation), -1, "",
                  std::string(operation));
  }
}

}  // namespace

bool has_mpi() { return true; }

std::unique_ptr<Transport> connect_mpi() { return std::make_unique<MpiTransport>(); }

}  // namespace lockstep::comm
