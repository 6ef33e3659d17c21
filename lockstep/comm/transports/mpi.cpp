// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/transports/mpi.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/comm/detail/mpi_symbols.h"
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

// What the group of all ranks and its subgroups share: MPI itself.
struct MpiWorld {
  MpiWorld() {
    int provided = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "cannot start");
    any_thread = provided == MPI_THREAD_MULTIPLE;
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &group), "cannot make a group");
    MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN);
    MPI_Comm_rank(group, &rank);
    MPI_Comm_size(group, &size);
    int* limit = nullptr;
    int found = 0;
    MPI_Comm_get_attr(group, MPI_TAG_UB, &limit, &found);
    if (found != 0) highest_tag = *limit;
  }
  ~MpiWorld() {
    // Finalize waits for every rank, so a broken group must not come to it; mpirun sees that this
    // process ends without it, and ends the others.
    if (broken) return;
    MPI_Comm_free(&group);
    MPI_Finalize();
  }
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  // Around calls of MPI: groups take turns where it does not take several threads at once.
  std::unique_lock<std::mutex> turn() {
    return any_thread ? std::unique_lock<std::mutex>() : std::unique_lock(turns);
  }

  MPI_Comm group = MPI_COMM_NULL;
  int rank = 0, size = 0, highest_tag = 32'767;
  bool any_thread = false;  // else abort() is told by the one that exchanges
  std::mutex turns;
  std::atomic<int> channels{0};  // that this rank has numbered
  std::atomic<bool> broken{false};
};

// A group's channel is a pair of tags of its own.
class MpiTransport final : public Transport {
 public:
  MpiTransport(std::shared_ptr<MpiWorld> world, std::vector<int> ranks,
               std::vector<std::string> hosts, int channel)
      : world_(std::move(world)),
        ranks_(std::move(ranks)),
        hosts_(std::move(hosts)),
        peers_(ranks_.size()),
        bytes_tag_(kBytes + 2 * channel),
        abort_tag_(kAbort + 2 * channel),
        is_whole_(channel == 0) {
    rank_ = place_of(world_->rank);
  }
  ~MpiTransport() override {
    if (aborted_) world_->broken = true;
  }

  std::string_view name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  const std::string& host(int rank) const override {
    return hosts_[static_cast<std::size_t>(rank)];
  }

  void exchange(std::span<Transfer> transfers, Deadline deadline,
                std::string_view operation) override;
  void abort(const std::string& reason) override;
  bool native_all_reduce(std::span<std::byte> data, Element element, Reduction reduction,
                         Deadline deadline, std::string_view operation) override;
  std::unique_ptr<Transport> subgroup(const std::vector<int>& ranks, Deadline deadline) override;

 private:
  // Between this group's numbers and MPI's.
  int place_of(int rank) const {
    return static_cast<int>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
  }
  int name_of(int peer) const { return ranks_[static_cast<std::size_t>(peer)]; }
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

  std::shared_ptr<MpiWorld> world_;
  std::vector<int> ranks_;
  std::vector<std::string> hosts_;
  std::vector<Peer> peers_;
  int bytes_tag_, abort_tag_;
  bool is_whole_;
  int rank_ = 0;
  std::atomic<bool> aborted_{false};
  std::mutex aborting_;
  std::string reason_;  // guarded by aborting_, as the next two
  int aborted_by_ = -1;
  bool told_ = false;
};

std::vector<std::string> gather_hosts(const MpiWorld& world) {
  char own[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  MPI_Get_processor_name(own, &length);
  const auto size = static_cast<std::size_t>(world.size);
  std::vector<char> all(size * sizeof own);
  check_mpi(MPI_Allgather(own, sizeof own, MPI_CHAR, all.data(), sizeof own, MPI_CHAR, world.group),
            "cannot gather the hosts' names");
  std::vector<std::string> hosts;
  for (std::size_t i = 0; i < size; ++i) hosts.emplace_back(&all[i * sizeof own]);
  return hosts;
}

// The first of the ranks numbers the channel: with its own number in it no two are the same.
std::unique_ptr<Transport> MpiTransport::subgroup(const std::vector<int>& ranks,
                                                  Deadline deadline) {
  std::int64_t channel = 0;
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&channel, 1));
  std::vector<Transfer> transfers;
  if (ranks.front() == rank_) {
    channel = std::int64_t{++world_->channels} * world_->size + world_->rank;
    for (std::size_t i = 1; i < ranks.size(); ++i)
      transfers.push_back({Transfer::Kind::send, ranks[i], bytes});
  } else {
    transfers.push_back({Transfer::Kind::receive, ranks.front(), bytes});
  }
  exchange(transfers, deadline, "split");
  if (kAbort + 2 * channel > world_->highest_tag)
    throw Unsupported("split: this MPI has no tags left for another group");
  std::vector<int> names;
  std::vector<std::string> hosts;
  for (const int rank : ranks) {
    names.push_back(name_of(rank));
    hosts.push_back(host(rank));
  }
  return std::make_unique<MpiTransport>(world_, names, hosts, static_cast<int>(channel));
}

void MpiTransport::abort(const std::string& reason) {
  const std::lock_guard lock(aborting_);
  if (aborted_) return;
  reason_ = reason.substr(0, kLongestReason);
  aborted_by_ = rank_;
  aborted_ = true;
  if (world_->any_thread) tell();
}

void MpiTransport::tell() {
  if (std::exchange(told_, true) || aborted_by_ != rank_) return;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(reason_.data(), static_cast<int>(reason_.size()), MPI_CHAR, name_of(peer), abort_tag_,
              world_->group, &request);
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
}

void MpiTransport::check(std::string_view operation) {
  int waiting = 0;
  MPI_Status status;
  const auto turn = world_->turn();
  MPI_Iprobe(MPI_ANY_SOURCE, abort_tag_, world_->group, &waiting, &status);
  const std::lock_guard lock(aborting_);
  if (waiting != 0 && !aborted_) {
    char text[kLongestReason + 1] = "";
    MPI_Recv(text, sizeof text - 1, MPI_CHAR, status.MPI_SOURCE, abort_tag_, world_->group,
             MPI_STATUS_IGNORE);
    reason_ = text;
    aborted_by_ = place_of(status.MPI_SOURCE);
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
                      name_of(one.peer), bytes_tag_, world_->group, &flow.request),
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
  check_mpi(MPI_Improbe(name_of(one.peer), bytes_tag_, world_->group, &waiting, &message, &status),
            "cannot look");
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
  const auto turn = world_->turn();
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
  const auto turn = world_->turn();
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
    world_->broken = true;
    drop(flows);
    throw;
  }
}

bool MpiTransport::native_all_reduce(std::span<std::byte> data, Element element,
                                     Reduction reduction, Deadline deadline,
                                     std::string_view operation) {
  if (!is_whole_) return false;
  const MPI_Datatype type = type_of(element);
  const std::size_t count = data.size() / element_size(element);
  if (type == MPI_DATATYPE_NULL || count > INT_MAX) return false;
  check(operation);
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const auto turn = world_->turn();
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, data.data(), static_cast<int>(count), type,
                             op_of(reduction), world_->group, &request),
              "cannot reduce");
  }
  wait(request, deadline, operation);
  return true;
}

void MpiTransport::wait(MPI_Request request, Deadline deadline, std::string_view operation) {
  int done = 0;
  for (const Deadline begin = Clock::now();; std::this_thread::yield()) {
    {
      const auto turn = world_->turn();
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "cannot test");
    }
    if (done != 0) return;
    if (Clock::now() - begin > kSpin) check(operation);
    if (Clock::now() < deadline) continue;
    world_->broken = true;
    throw Timeout(fmt::format("{}: not all ranks came by the deadline", operation), -1, "",
                  std::string(operation));
  }
}

}  // namespace

bool has_mpi() { return true; }

std::unique_ptr<Transport> connect_mpi() {
  auto world = std::make_shared<MpiWorld>();
  std::vector<int> ranks;
  for (int rank = 0; rank < world->size; ++rank) ranks.push_back(rank);
  std::vector<std::string> hosts = gather_hosts(*world);
  return std::make_unique<MpiTransport>(std::move(world), std::move(ranks), std::move(hosts), 0);
}

}  // namespace lockstep::comm
