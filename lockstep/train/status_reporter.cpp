// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/status_reporter.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/base/file.h"
#include "lockstep/base/unix_time.h"
#include "lockstep/observe/stall.h"

namespace lockstep::train {
namespace {

using observe::JobStatus;
using observe::MemberStatus;

// How much the last step counts in an average over the last ones.
constexpr double kLastStep = 0.1;

std::string request_path(const std::string& folder) { return folder + "/stop.request"; }

// -1: of a worker that waits for its first generation.
int rank_in(const Membership& membership, std::int64_t id) {
  const bool is_in = std::any_of(membership.members.begin(), membership.members.end(),
                                 [&](const Member& one) { return one.id == id; });
  return is_in ? membership.rank_of(id) : -1;
}

// What the training thread knows of the run; any may read it.
class Board {
 public:
  struct Facts {
    bool is_training = false;
    std::int64_t step = 0, total_steps = 0, epoch = 0;
    double loss = 0.0, samples_per_s = 0.0;
    double compute_s = 0.0, wait_s = 0.0, bytes_sent = 0.0;
    bool is_first = false;
    Membership membership = {};
    ShardRange shards{0, 0};  // of this worker
  };
  Facts facts() const {
    const std::lock_guard lock(mutex_);
    return facts_;
  }
  void set_members(bool is_first, const cluster::Job* job) {
    const std::lock_guard lock(mutex_);
    facts_.is_first = is_first;
    if (job != nullptr) facts_.membership = job->membership();
  }
  void set_shards(ShardRange shards) {
    const std::lock_guard lock(mutex_);
    facts_.shards = shards;
  }
  void begin(std::int64_t step, std::int64_t total_steps) {
    const std::lock_guard lock(mutex_);
    facts_.is_training = true;
    facts_.step = step;
    facts_.total_steps = total_steps;
  }
  void take(const StepEvent& event) {
    const std::lock_guard lock(mutex_);
    facts_.step = event.step;
    facts_.epoch = event.epoch + 1;
    facts_.loss = event.loss;
    facts_.samples_per_s = event.samples_per_s;
    if (!event.cost) return;
    const auto add = [&](double& mean, double last) {
      mean = mean == 0.0 ? last : mean + kLastStep * (last - mean);
    };
    add(facts_.compute_s, event.cost->compute_s);
    add(facts_.wait_s, event.cost->wait_s);
    add(facts_.bytes_sent, static_cast<double>(event.cost->bytes_sent));
  }

 private:
  mutable std::mutex mutex_;
  Facts facts_;
};

class NoteSteps final : public Callback {
 public:
  NoteSteps(std::shared_ptr<Board> board, const cluster::Job* job)
      : board_(std::move(board)), job_(job) {}
  void on_train_begin(FitContext& run) override {
    on_generation(run);
    board_->begin(run.step(), run.total_steps());
  }
  void on_generation(FitContext& run) override {
    board_->set_members(run.is_first(), job_);
    board_->set_shards(run.shards());
  }
  void on_deal(FitContext& run) override { board_->set_shards(run.shards()); }
  void on_step_end(FitContext&, const StepEvent& event) override { board_->take(event); }

 private:
  std::shared_ptr<Board> board_;
  const cluster::Job* job_;
};

}  // namespace

struct StatusReporter::Impl {
  StatusOptions options;
  std::shared_ptr<Board> board = std::make_shared<Board>();
  const ProcessMark self = own_mark();
  JobStatus status;
  std::mutex mutex;  // of the file and of what follows
  std::condition_variable_any ends;
  bool is_over = false;
  std::chrono::steady_clock::time_point next_expulsion = {};
  std::jthread thread;

  explicit Impl(const StatusOptions& given) : options(given), status(given.about) {
    status.began = unix_seconds();
    status.writer = self;
    board->set_members(options.is_first, options.job);
    if (writes(board->facts())) ::unlink(request_path(options.folder).c_str());  // of another start
    tell();
    start();
  }

  // Where there can be no more threads, the run goes on without.
  void start() try {
    thread = std::jthread([this](const std::stop_token& stop) { run(stop); });
    pthread_setname_np(thread.native_handle(), "status");
  } catch (const std::system_error&) {
  }

  bool writes(const Board::Facts& facts) const { return facts.is_first && !options.folder.empty(); }

  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    while (!ends.wait_for(lock, stop, options.every, [this] { return is_over; }) &&
           !stop.stop_requested()) {
      tell();
      look_for_request();
    }
  }

  void look_for_request() const {
    if (!writes(board->facts()) || ::unlink(request_path(options.folder).c_str()) != 0) return;
    if (options.on_stop) options.on_stop();
  }

  void tell() {
    const Board::Facts facts = board->facts();
    const MemberStatus own = own_status(facts);
    const std::vector<cluster::MemberReport> others = options.job != nullptr
                                                          ? options.job->report(to_json(own))
                                                          : std::vector<cluster::MemberReport>();
    if (!writes(facts)) return;
    status.members = {own};
    for (const cluster::MemberReport& report : others)
      if (report.id != own.id) add_member(report, facts.membership);
    take_facts(facts);
    write_status(options.folder, status);
    look_for_stall(facts);
  }

  void look_for_stall(const Board::Facts& facts) {
    if (options.stall_timeout.count() == 0 || options.job == nullptr || is_over) return;
    const auto stall = observe::find_stall(status.members, options.stall_timeout);
    if (!stall || std::chrono::steady_clock::now() < next_expulsion) return;
    next_expulsion = std::chrono::steady_clock::now() + options.stall_timeout;
    try {
      options.job->expel(facts.membership.members.at(static_cast<std::size_t>(stall->rank)).id,
                         stall->reason);
    } catch (const std::exception&) {
      // The coordinator has gone: others say so.
    }
  }

  void take_facts(const Board::Facts& facts) {
    if (status.state == JobStatus::State::starting && facts.is_training)
      status.state = JobStatus::State::training;
    status.step = facts.step;
    status.total_steps = facts.total_steps;
    status.epoch = facts.epoch;
    status.loss = facts.loss;
    status.samples_per_s = facts.samples_per_s;
    status.written = unix_seconds();
    if (options.job != nullptr) {
      status.generation = facts.membership.generation;
      status.workers = facts.membership.count(Role::worker);
      status.servers = facts.membership.count(Role::server);
    }
  }

  MemberStatus own_status(const Board::Facts& facts) const {
    MemberStatus own{.host = self.host, .pid = self.pid};
    own.step = facts.step;
    own.compute_s = facts.compute_s;
    own.wait_s = facts.wait_s;
    own.bytes_sent = facts.bytes_sent;
    own.end_shard = options.shards;
    if (options.job == nullptr) return own;
    own.first_shard = facts.shards.lo;
    own.end_shard = facts.shards.hi;
    own.id = options.job->id();
    own.role = to_string(options.job->role());
    own.rank = rank_in(facts.membership, own.id);
    if (const auto waiting = options.job->meter()->waiting())
      own.waiting = MemberStatus::Waiting{waiting->operation, waiting->rank, waiting->seconds};
    return own;
  }

  // One that has said nothing yet, or not what it should, is there by its name alone.
  void add_member(const cluster::MemberReport& report, const Membership& membership) {
    MemberStatus member;
    try {
      member = observe::member_from_json(report.text, "a member");
    } catch (const Corrupt&) {
      const auto found = std::find_if(membership.members.begin(), membership.members.end(),
                                      [&](const Member& one) { return one.id == report.id; });
      if (found == membership.members.end()) return;
      member.role = to_string(found->role);
      member.rank = membership.rank_of(found->id);
      member.host = found->host;
    }
    member.id = report.id;
    member.heard_s = std::chrono::duration<double>(report.age).count();
    member.has_left = report.has_left;
    status.members.push_back(std::move(member));
  }

  void end(JobStatus::State state, const std::string& message) {
    const std::lock_guard lock(mutex);
    if (std::exchange(is_over, true)) return;
    status.state = state;
    status.message = message;
    tell();
    ends.notify_all();
  }

  void discard() {
    const std::lock_guard lock(mutex);
    is_over = true;
    ends.notify_all();
  }
};

StatusReporter::StatusReporter(const StatusOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}

StatusReporter::~StatusReporter() { impl_->end(JobStatus::State::failed, {}); }

CallbackPtr StatusReporter::callback() const {
  return std::make_shared<NoteSteps>(impl_->board, impl_->options.job);
}

void StatusReporter::end(JobStatus::State state, const std::string& message) {
  impl_->end(state, message);
}

void StatusReporter::discard() { impl_->discard(); }

void request_stop(const std::string& folder) { write_file(request_path(folder), "stop\n"); }

}  // namespace lockstep::train
