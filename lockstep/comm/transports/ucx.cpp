// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/transports/ucx.h"

#include <poll.h>
#include <sys/stat.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <vector>

#include "lockstep/comm/detail/mesh.h"
#include "lockstep/comm/detail/monitored_transport.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kLongestMessage = 4 << 20;
constexpr auto kLinger = std::chrono::seconds(2);

void check_status(ucs_status_t status, const char* what) {
  if (status != UCS_OK) throw IoError("ucx: {}: {}", what, ucs_status_string(status));
}

// What UCX has to say of a dead peer, our own errors say better.
ucs_log_func_rc_t drop_log(const char*, unsigned, const char*, ucs_log_level_t,
                           const ucs_log_component_config_t*, const char*, va_list) {
  return UCS_LOG_FUNC_RC_STOP;
}

// UCX takes signals when it is loaded: SIGHUP makes it trace instead of ending the program, even
// where nohup has it ignored, and a crash prints a report. They are given back to who had them.
void keep_to_itself() {
  static const bool done = [] {
    constexpr std::array kSignals = {SIGHUP, SIGILL, SIGBUS, SIGFPE, SIGSEGV};
    std::array<struct sigaction, kSignals.size()> before{};
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], nullptr, &before[i]);
    ucs_log_push_handler(drop_log);  // loads it
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ucs_debug_disable_signal(kSignals[i]);
      ::sigaction(kSignals[i], &before[i], nullptr);
    }
    return true;
  }();
  (void)done;
}

// The interface on which the group reaches this host, and whatever RDMA devices there are.
std::string devices_for(const std::string& address) {
  std::string devices;
  for (const Interface& one : find_interfaces(address)) devices = one.name;
  const std::filesystem::path rdma = "/sys/class/infiniband";
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator(rdma, error))
    devices += "," + device.path().filename().string() + ":1";
  return devices;
}

// UCX makes files in /dev/shm and unlinks them a moment later; where the process is ended between
// the two, they stay. In the job's own folder they go with the job. False: there is none.
bool has_folder(const std::string& scratch) {
  if (scratch.empty()) return false;
  struct stat facts {};
  const bool is_there = ::mkdir(scratch.c_str(), 0700) == 0 || errno == EEXIST;
  return is_there && ::lstat(scratch.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
         facts.st_uid == ::geteuid() && (facts.st_mode & 077) == 0;
}

class Context {
 public:
  Context(const std::string& devices, const std::string& scratch, const PortRange& ports) {
    keep_to_itself();
    // UCX takes this one from the environment alone.
    if (has_folder(scratch)) ::setenv("UCX_POSIX_DIR", scratch.c_str(), 0);
    ucp_config_t* config = nullptr;
    check_status(ucp_config_read(nullptr, nullptr, &config), "cannot read its configuration");
    if (!ports.is_any() && std::getenv("UCX_TCP_PORT_RANGE") == nullptr)
      check_status(ucp_config_modify(config, "TCP_PORT_RANGE", to_string(ports).c_str()),
                   "cannot be told its ports (UCX_TCP_PORT_RANGE)");
    if (std::getenv("UCX_NET_DEVICES") == nullptr)
      ucp_config_modify(config, "NET_DEVICES", devices.c_str());
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
    const ucs_status_t status = ucp_init(&params, config, &handle_);
    ucp_config_release(config);
    check_status(status, "cannot start");
  }
  ~Context() {
    if (handle_ != nullptr) ucp_cleanup(handle_);
  }
  void release() { handle_ = nullptr; }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ucp_context_h get() const { return handle_; }

 private:
  ucp_context_h handle_ = nullptr;
};

class UcpWorker {
 public:
  explicit UcpWorker(const Context& context) {
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    check_status(ucp_worker_create(context.get(), &params, &handle_), "cannot make a worker");
    check_status(ucp_worker_get_efd(handle_, &fd_), "has no event descriptor");
  }
  ~UcpWorker() {
    if (handle_ != nullptr) ucp_worker_destroy(handle_);
  }
  void release() { handle_ = nullptr; }
  UcpWorker(const UcpWorker&) = delete;
  UcpWorker& operator=(const UcpWorker&) = delete;
  ucp_worker_h get() const { return handle_; }
  int fd() const { return fd_; }
  std::string address() const {
    ucp_address_t* bytes = nullptr;
    std::size_t length = 0;
    check_status(ucp_worker_get_address(handle_, &bytes, &length), "has no address");
    std::string address(reinterpret_cast<const char*>(bytes), length);
    ucp_worker_release_address(handle_, bytes);
    return address;
  }

 private:
  ucp_worker_h handle_ = nullptr;
  int fd_ = -1;
};

// A request that UCX works on; null when it was done at once.
struct Pending {
  ucs_status_ptr_t request = nullptr;
  std::size_t bytes = 0;
  bool to_stash = false;
};

struct Peer {
  ucp_ep_h endpoint = nullptr;
  ucs_status_t status = UCS_OK;  // what the error callback said
  std::string stash = {};        // of a message that was longer than what was asked for
  std::size_t taken = 0;         // of the stash
};

// A transfer under way: the messages that are out, and how many of its bytes they cover.
struct Flow {
  Transfer* transfer = nullptr;
  std::deque<Pending> pending = {};
  std::size_t posted = 0;
};

class UcxTransport final : public detail::MonitoredTransport {
 public:
  explicit UcxTransport(const Bootstrap& bootstrap)
      : MonitoredTransport(bootstrap, std::move(detail::connect_mesh(bootstrap, 1)[0])),
        context_(devices_for(bootstrap.address), bootstrap.scratch, bootstrap.ports),
        worker_(context_),
        peers_(bootstrap.hosts.size()) {
    connect(bootstrap.all_gather(worker_.address()));
    greet(bootstrap);
  }
  // UCX 1.13 ends the process (an assertion in ucp_worker_destroy) when a peer goes while the two
  // still negotiate their connection, which nothing tells us. So a worker is left to the process's
  // end: its endpoints are closed, and the monitor tells the peers.
  ~UcxTransport() override {
    close_all(broken_, Clock::now() + kLinger);
    worker_.release();
    context_.release();
  }

  std::string_view name() const override { return "ucx"; }
  std::unique_ptr<Transport> connect_group(const Bootstrap& bootstrap) const override {
    return connect_ucx(bootstrap);
  }

  void exchange(std::span<Transfer> transfers, Deadline deadline,
                std::string_view operation) override;

 private:
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  void connect(const std::vector<std::string>& addresses);
  void greet(const Bootstrap& bootstrap);
  void start(std::span<Transfer> transfers);
  bool move_on(std::span<Transfer> transfers, std::string_view operation) override;
  bool move_send(Flow& flow);
  bool move_receive(Flow& flow);
  void take_stash(Flow& flow);
  void receive_message(Flow& flow, ucp_tag_message_h message, std::size_t length);
  bool settle(Flow& flow);
  bool is_first(const Flow& flow) const;
  bool flush(Deadline deadline, std::string_view operation);
  bool sleep(std::span<Transfer> transfers, Deadline until) override;
  void close_all(bool force, Deadline deadline);

  Context context_;
  UcpWorker worker_;
  std::vector<Peer> peers_;
  std::vector<Flow> flows_;
  bool broken_ = false;
  bool greets_ = false;
};

void on_error(void* argument, ucp_ep_h, ucs_status_t status) {
  static_cast<Peer*>(argument)->status = status;
}

void UcxTransport::connect(const std::vector<std::string>& addresses) {
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    const std::string& address = addresses[static_cast<std::size_t>(other)];
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler = {on_error, &peer(other)};
    check_status(ucp_ep_create(worker_.get(), &params, &peer(other).endpoint),
                 "cannot make an endpoint");
  }
}

// UCX connects when the first bytes flow; here, so that nobody finds out later. Whoever has the
// second greeting of all knows that his first has come, so nothing is left to flush; to flush
// connections that are still negotiated would take peers that may have gone on to another group.
void UcxTransport::greet(const Bootstrap& bootstrap) {
  greets_ = true;
  try {
    greet_all(bootstrap);
    greet_all(bootstrap);
    greets_ = false;
  } catch (...) {
    close_all(true, Clock::now() + kLinger);
    throw;
  }
}

void UcxTransport::start(std::span<Transfer> transfers) {
  flows_.clear();
  for (Transfer& one : transfers)
    if (one.done < one.bytes.size()) flows_.push_back({&one, {}, one.done});
}

// Of several transfers one way with one peer, only the first may move.
bool UcxTransport::is_first(const Flow& flow) const {
  for (const Flow& other : flows_) {
    if (&other == &flow) return true;
    if (other.transfer->peer == flow.transfer->peer && other.transfer->kind == flow.transfer->kind)
      return false;
  }
  return true;
}

// Takes note of the messages that are through; true when there was one.
bool UcxTransport::settle(Flow& flow) {
  bool moved = false;
  while (!flow.pending.empty()) {
    const Pending first = flow.pending.front();
    if (first.request != nullptr) {
      const ucs_status_t status = ucp_request_check_status(first.request);
      if (status == UCS_INPROGRESS) break;
      ucp_request_free(first.request);
      if (status != UCS_OK) peer(flow.transfer->peer).status = status;
    }
    flow.pending.pop_front();
    if (first.to_stash)
      take_stash(flow);
    else
      flow.transfer->done += first.bytes;
    moved = true;
  }
  return moved;
}

bool UcxTransport::move_send(Flow& flow) {
  Transfer& one = *flow.transfer;
  constexpr std::size_t kAhead = 4;
  while (flow.pending.size() < kAhead && flow.posted < one.bytes.size()) {
    const std::size_t length = std::min(kLongestMessage, one.bytes.size() - flow.posted);
    ucp_request_param_t param{};
    const ucs_status_ptr_t request =
        ucp_tag_send_nbx(peer(one.peer).endpoint, one.bytes.data() + flow.posted, length,
                         static_cast<ucp_tag_t>(rank()), &param);
    if (UCS_PTR_IS_ERR(request)) {
      peer(one.peer).status = UCS_PTR_STATUS(request);
      return false;
    }
    flow.pending.push_back({request, length});
    flow.posted += length;
  }
  return settle(flow);
}

void UcxTransport::take_stash(Flow& flow) {
  Peer& from = peer(flow.transfer->peer);
  Transfer& one = *flow.transfer;
  const std::size_t count = std::min(from.stash.size() - from.taken, one.bytes.size() - one.done);
  if (count == 0) return;
  std::memcpy(one.bytes.data() + one.done, from.stash.data() + from.taken, count);
  from.taken += count;
  one.done += count;
}

void UcxTransport::receive_message(Flow& flow, ucp_tag_message_h message, std::size_t length) {
  Transfer& one = *flow.transfer;
  Peer& from = peer(one.peer);
  std::byte* target = one.bytes.data() + flow.posted;
  const bool to_stash = length > one.bytes.size() - flow.posted;
  if (to_stash) {
    from.stash.resize(length);
    from.taken = 0;
    target = reinterpret_cast<std::byte*>(from.stash.data());
  }
  flow.posted = to_stash ? one.bytes.size() : flow.posted + length;
  ucp_request_param_t param{};
  const ucs_status_ptr_t request =
      ucp_tag_msg_recv_nbx(worker_.get(), target, length, message, &param);
  if (UCS_PTR_IS_ERR(request)) from.status = UCS_PTR_STATUS(request);
  if (!UCS_PTR_IS_ERR(request)) flow.pending.push_back({request, length, to_stash});
}

// A message is looked at before it is received, so that its length may differ from what is asked
// for here; long ones come straight into place, since UCX fetches them only now.
bool UcxTransport::move_receive(Flow& flow) {
  if (flow.pending.empty()) {
    take_stash(flow);
    flow.posted = flow.transfer->done;
  }
  while (flow.posted < flow.transfer->bytes.size()) {
    ucp_tag_recv_info_t info{};
    const auto tag = static_cast<ucp_tag_t>(flow.transfer->peer);
    ucp_tag_message_h message = ucp_tag_probe_nb(worker_.get(), tag, ~ucp_tag_t{0}, 1, &info);
    if (message == nullptr) break;
    receive_message(flow, message, info.length);
  }
  return settle(flow);
}

bool UcxTransport::move_on(std::span<Transfer> /*transfers*/, std::string_view operation) {
  bool moved = ucp_worker_progress(worker_.get()) != 0;
  for (Flow& flow : flows_) {
    if (!is_first(flow)) continue;
    const bool sends = flow.transfer->kind == Transfer::Kind::send;
    if (sends ? move_send(flow) : move_receive(flow)) moved = true;
    const ucs_status_t status = peer(flow.transfer->peer).status;
    const bool done = flow.transfer->done == flow.transfer->bytes.size();
    if (status != UCS_OK && !done)
      monitor_.explain_close(flow.transfer->peer, operation, ucs_status_string(status));
  }
  std::erase_if(flows_, [](const Flow& flow) {
    return flow.pending.empty() && flow.transfer->done == flow.transfer->bytes.size();
  });
  return moved;
}

bool UcxTransport::sleep(std::span<Transfer> /*transfers*/, Deadline until) {
  if (ucp_worker_arm(worker_.get()) != UCS_OK) return false;  // something came meanwhile
  pollfd watched[] = {{worker_.fd(), POLLIN, 0}, {monitor_.fd(), POLLIN, 0}};
  ::poll(watched, 2, poll_milliseconds(until));
  return watched[1].revents != 0;
}

// A send is done when its buffer may be used again; the bytes may still be UCX's to send, and it
// sends only while we are in it.
bool UcxTransport::flush(Deadline deadline, std::string_view operation) {
  ucp_request_param_t param{};
  const ucs_status_ptr_t request = ucp_worker_flush_nbx(worker_.get(), &param);
  if (!UCS_PTR_IS_PTR(request)) return true;
  while (ucp_request_check_status(request) == UCS_INPROGRESS && Clock::now() < deadline)
    if (ucp_worker_progress(worker_.get()) == 0 && sleep({}, deadline)) monitor_.check(operation);
  const bool done = ucp_request_check_status(request) != UCS_INPROGRESS;
  ucp_request_free(request);
  return done;
}

void UcxTransport::exchange(std::span<Transfer> transfers, Deadline deadline,
                            std::string_view operation) {
  detail::check_transfers(transfers, rank(), size(), operation);
  monitor_.check(operation);
  if (transfers.empty() && !has_side_transfers()) return;
  const Deadline begin = Clock::now();
  if (broken_ && !transfers.empty())
    monitor_.throw_lost(transfers[0].peer, operation, "an earlier error closed it");
  for (Transfer& one : transfers) one.later = false;  // UCX works on them until they are done
  start(transfers);
  try {
    complete(transfers, deadline, operation);
    if (!greets_ && !flush(deadline, operation))
      monitor_.throw_timeout(transfers, operation, begin);
  } catch (...) {
    // UCX may not touch the caller's memory after this.
    close_all(true, Clock::now() + kLinger);
    throw;
  }
}

void UcxTransport::close_all(bool force, Deadline deadline) {
  std::vector<ucs_status_ptr_t> closing;
  for (Peer& one : peers_) {
    if (one.endpoint == nullptr) continue;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = force || one.status != UCS_OK ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    closing.push_back(ucp_ep_close_nbx(one.endpoint, &param));
    one.endpoint = nullptr;
    if (force) one.status = UCS_ERR_CANCELED;
  }
  broken_ = broken_ || force;
  const auto busy = [](ucs_status_ptr_t request) {
    return UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS;
  };
  for (bool waiting = true; waiting && Clock::now() < deadline;) {
    ucp_worker_progress(worker_.get());
    waiting = std::any_of(closing.begin(), closing.end(), busy);
    for (Flow& flow : flows_) {
      settle(flow);
      waiting = waiting || !flow.pending.empty();
    }
  }
  for (ucs_status_ptr_t request : closing)
    if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  flows_.clear();
}

}  // namespace

bool has_ucx() { return true; }

std::unique_ptr<Transport> connect_ucx(const Bootstrap& bootstrap) {
  return std::make_unique<UcxTransport>(bootstrap);
}

}  // namespace lockstep::comm
