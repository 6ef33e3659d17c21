// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/host_link.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "lockstep/base/error.h"

namespace lockstep::cluster::detail {
namespace {

using comm::Socket;
constexpr auto kLinger = std::chrono::seconds(3);
constexpr std::size_t kKeptRemarks = 5;
constexpr int kNotStarted = 126;  // as shells have it
constexpr int kMostBlocks = 64;   // read in one turn: other hosts, and signals, wait
// What a login shell says before the agent does, and of a line that does not end.
constexpr std::size_t kLongestGreeting = 1 << 20, kLongestRemark = 1 << 16;

struct Pair {
  Socket ours, theirs;
};

// Socket pairs, since writing to one never raises SIGPIPE.
Pair make_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw IoError("launch: socketpair: {}", std::strerror(errno));
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {Socket(ends[0]), Socket(ends[1])};
}

// Like a pipe: ssh takes the end of its input for what it is.
Pair make_pipe_from() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw IoError("launch: pipe: {}", std::strerror(errno));
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {Socket(ends[0]), Socket(ends[1])};
}

// The terminal's Ctrl-C is the launcher's alone. Whoever ends a session or a service sends SIGTERM
// to each process of it: ssh would end at once, and the host be lost before its workers have
// stopped. ssh respects what is ignored.
StartOptions start_options(const Pair& to, const Pair& from, const Pair& remarks,
                           const sigset_t& mask) {
  StartOptions start;
  start.input = to.theirs.fd();
  start.output = from.theirs.fd();
  start.errors = remarks.theirs.fd();
  start.own_group = true;
  start.blocked = mask;
  start.ignored = {SIGINT, SIGTERM, SIGHUP};
  return start;
}

}  // namespace

HostLink::HostLink(std::string host, Process process, Socket to, Socket from, Socket remarks)
    : host_(std::move(host)),
      process_(std::move(process)),
      to_(std::make_unique<Outgoing>(std::move(to))),
      from_(std::move(from)),
      remarks_(std::move(remarks)),
      is_remote_(static_cast<bool>(remarks_)) {}

HostLink::HostLink(HostLink&& other) noexcept
    : host_(std::move(other.host_)),
      process_(std::move(other.process_)),
      status_(other.status_),
      to_(std::move(other.to_)),
      from_(std::move(other.from_)),
      remarks_(std::move(other.remarks_)),
      said_(std::move(other.said_)),
      last_remarks_(std::move(other.last_remarks_)),
      marked_(other.marked_),
      is_remote_(other.is_remote_),
      reader_(std::move(other.reader_)) {}

// The agent takes over what we have blocked: no signal is lost on the way. When this process ends
// and somebody has stopped the agent, it goes on, and sees that.
HostLink HostLink::fork_agent(const std::string& host, AgentOptions options, const sigset_t& mask) {
  Pair to = make_pair(), from = make_pipe_from();
  options.mask = mask;
  options.input = to.theirs.fd();
  options.output = from.theirs.fd();
  options.has_terminal = true;
  const auto be_agent = [&] {
    to.ours.close();
    from.ours.close();
    return run_agent(options);
  };
  try {
    Process agent = Process::fork(be_agent, {.own_group = true, .death_signal = SIGCONT});
    return {host, std::move(agent), std::move(to.ours), std::move(from.ours), Socket()};
  } catch (const IoError& error) {
    throw IoError("launch: {}: {}", host, error.what());
  }
}

HostLink HostLink::run_command(const std::string& host, const std::vector<std::string>& command,
                               const sigset_t& mask) {
  Pair to = make_pair(), from = make_pipe_from(), remarks = make_pipe_from();
  HostLink link(host, Process(), std::move(to.ours), std::move(from.ours), std::move(remarks.ours));
  try {
    link.process_ = Process::start(command, start_options(to, from, remarks, mask));
  } catch (const Error& error) {
    link.said_ = error.what();
    link.status_ = kNotStarted;
  }
  return link;
}

HostLink::~HostLink() {
  if (process_.pid() > 0) close();
}

void HostLink::close() {
  hang_up();
  if (wait_for_end(kLinger)) return;
  process_.end();  // the ssh of a script that runs it, too
  status_ = 128 + SIGKILL;
}

// What it still says is read meanwhile, since an agent that cannot write does not end.
bool HostLink::wait_for_end(std::chrono::milliseconds longest) {
  const auto end = comm::Clock::now() + longest;
  while (!status_) {
    if (const std::optional<ExitStatus> end = process_.status()) status_ = end->shell();
    if (!status_ && comm::Clock::now() >= end) return false;
    advance();
    if (!status_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void HostLink::watch(std::vector<pollfd>& watched) const {
  to_->watch(watched);
  if (from_) watched.push_back({from_.fd(), POLLIN, 0});
  if (remarks_) watched.push_back({remarks_.fd(), POLLIN, 0});
}

void HostLink::advance() {
  to_->advance();
  std::string bytes;
  read_from(from_, bytes);
  reader_.append(bytes);
  read_from(remarks_, said_);
}

void HostLink::read_from(Socket& pipe, std::string& bytes) {
  char block[16384];
  for (int blocks = 0; pipe && blocks < kMostBlocks; ++blocks) {
    const ssize_t got = ::read(pipe.fd(), block, sizeof block);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0)
      bytes.append(block, static_cast<std::size_t>(got));
    else
      pipe.close();
  }
}

std::optional<Frame> HostLink::next() {
  marked_ = marked_ || reader_.skip_to_mark();
  if (!marked_ && reader_.bytes().size() > kLongestGreeting)
    throw Corrupt("it says other things than an agent does, {} bytes", reader_.bytes().size());
  return marked_ ? reader_.next() : std::nullopt;
}

std::optional<std::string> HostLink::next_remark() {
  if (!remarks_ && !said_.empty() && said_.back() != '\n') said_ += '\n';
  if (said_.size() > kLongestRemark && said_.find('\n') == std::string::npos) said_ += '\n';
  const std::size_t end = said_.find('\n');
  if (end == std::string::npos) return {};
  std::string line = said_.substr(0, end);
  said_.erase(0, end + 1);
  while (!line.empty() && line.back() == '\r') line.pop_back();
  if (!line.empty()) last_remarks_.push_back(line);
  if (last_remarks_.size() > kKeptRemarks) last_remarks_.pop_front();
  return line;
}

int HostLink::stopped_by() {
  if (!wait_for_end(kLinger)) return 0;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (*status_ == 128 + signal) return signal;
  return 0;
}

void HostLink::wake() const { process_.signal(SIGCONT); }

std::string HostLink::why_closed() {
  if (!wait_for_end(kLinger)) return "the agent does not talk any more";
  while (next_remark()) {
  }
  const std::string remark = last_remarks_.empty() ? "" : last_remarks_.back();
  if (*status_ > 128 && *status_ != 255)
    return fmt::format("{} was ended by signal {}", is_remote_ ? "ssh or the agent" : "the agent",
                       *status_ - 128);
  if (*status_ == 127 && marked_ == false)
    return fmt::format("{}; --remote-program says where lockstep is there", remark);
  if (!remark.empty()) return remark;
  return fmt::format("the agent ended with status {}", *status_);
}

}  // namespace lockstep::cluster::detail
