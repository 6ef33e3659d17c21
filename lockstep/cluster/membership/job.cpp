// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/job.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "lockstep/base/version.h"
#include "lockstep/cluster/membership/detail/rendezvous_point.h"
#include "lockstep/cluster/membership/placed_rendezvous.h"
#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/comm/agreement.h"
#include "lockstep/comm/group.h"

namespace lockstep::cluster {
namespace {

constexpr auto kLookForChange = std::chrono::milliseconds(10);
constexpr const char* kTransportEntry = "transport";  // of all workers, for those who come later

const std::string& first_given(const std::string& own, const std::string& others) {
  return own.empty() ? others : own;
}

// Members that connect by different means would look for each other in vain.
void agree_on_transport(const comm::Bootstrap& bootstrap, const comm::TransportType& own) {
  const auto differs = [&](std::size_t rank, const std::string& first, const std::string& its) {
    throw comm::Refused(
        fmt::format("transport: rank {} ({}) has {}, rank 0 ({}) has {}: all members need the same",
                    rank, bootstrap.hosts[rank], its, bootstrap.hosts[0], first));
  };
  comm::compare_texts(bootstrap.all_gather(std::string(own.name)), differs);
}

}  // namespace

// The members stay with the coordinator until the end: it learns of those that die.
struct Job::Impl {
  std::optional<PlacedRendezvous> rendezvous = {};
  std::shared_ptr<comm::Communicator> communicator = {};
  Membership membership = {};
  std::int64_t id = 0;
  Role role;
  std::shared_ptr<comm::Meter> meter = std::make_shared<comm::Meter>();
  comm::PortRange ports = {};

  // Of a job that survives losses.
  bool survives = false, is_late = false;
  const comm::TransportType* type = nullptr;
  std::string scratch = {};
  std::chrono::milliseconds timeout{0};
  std::optional<GenerationMember> member = {};
  std::vector<std::shared_ptr<comm::Communicator>> retired = {};  // until settle()
  std::atomic<bool> wants_change = false;
  // Of who aborts the communicator or asks who is there, against who changes that.
  mutable std::mutex mutex = {};
  bool has_left = false, is_told = false;
  bool is_watching = false;
  std::string why_stopped = {};                 // guarded by it too
  std::atomic<std::int64_t> last_stopped = -1;  // generation
  std::jthread watcher = {};

  Impl(Place place, JobOptions options) : role(place.role) {
    if (place.is_scheduler)
      throw InvalidArgument(
          "job: this process is to be its scheduler (DMLC_ROLE), which is no member; expected "
          "cluster::run_scheduler, or train::join_job for all roles");
    if (place.timeout.count() > 0) options.timeout = place.timeout;
    place.interface = first_given(options.interface, place.interface);
    if (!options.ports.is_any()) place.ports = options.ports;
    ports = place.ports;
    const std::string& transport = first_given(options.transport, place.transport);
    if (transport == "mpi")
      connect_by_mpi(place, options);
    else
      connect(place, options, transport);
  }

  void connect(const Place& place, const JobOptions& options, const std::string& transport) {
    type = &comm::find_transport(transport);
    survives = options.survives && place.launcher != Place::Launcher::dmlc;
    is_late = place.is_late;
    scratch = place.scratch;
    timeout = options.timeout;
    if (options.on_phase) options.on_phase("meet");
    rendezvous.emplace(
        place, RendezvousTerms{std::string(version()), options.configuration, options.timeout,
                               options.tolerates_lost_servers, survives, options.care});
    membership = (*rendezvous)->membership();
    id = (*rendezvous)->id();
    if (is_late) {
      type = &comm::find_transport((*rendezvous)->get(kTransportEntry, timeout).bytes);
      member.emplace(id);
      return;
    }
    member.emplace(id, membership);
    if (options.on_phase) options.on_phase("connect");
    try {
      connect_members();
    } catch (const comm::CommError& error) {
      complain(error);
      throw;
    }
    if (survives && role == Role::worker && membership.rank_of(id) == 0)
      (*rendezvous)->put(kTransportEntry, std::string(type->name));
  }

  // The only worker of a later generation has nobody to connect to.
  void connect_members() {
    if (member->generation() > 1 && membership.count(role) == 1) {
      const std::lock_guard lock(mutex);
      is_watching = true;
      return;
    }
    comm::Bootstrap bootstrap = (*rendezvous)->bootstrap();
    bootstrap.scratch = scratch;
    bootstrap.ports = ports;
    bootstrap.meter = meter;
    if (member->generation() > 1)
      bootstrap.check = [this] { check_generation(); };
    else
      agree_on_transport(bootstrap, *type);
    auto made = std::make_shared<comm::Communicator>(type->connect(bootstrap), meter);
    const std::lock_guard lock(mutex);
    communicator = std::move(made);
    is_watching = member->generation() > 1;
  }

  // While its workers connect.
  void check_generation() {
    const auto change = (*rendezvous)->poll_change();
    if (change && change->is_urgent)
      throw comm::Aborted("connect: the members change: " + change->why, -1, "", "connect");
    if (change) wants_change = true;
  }

  ~Impl() { watcher = {}; }

  void leave() {
    watcher = {};
    rendezvous.reset();
  }

  void watch() {
    Rendezvous& with = coordinator_for("membership");
    {
      const std::lock_guard lock(mutex);
      is_watching = true;
    }
    look_for_change();
    with.query(timeout);  // the coordinator has heard that this worker listens
    watcher = std::jthread([this](const std::stop_token& stop) {
      std::mutex own;
      std::unique_lock lock(own);
      std::condition_variable_any never;
      while (!never.wait_for(lock, stop, kLookForChange, [] { return false; }) &&
             !stop.stop_requested())
        look_for_change();
    });
    pthread_setname_np(watcher.native_handle(), "membership");
  }

  // What is wrong with the coordinator, whoever reports next hears too.
  void look_for_change() {
    const std::lock_guard lock(mutex);
    if (!is_watching) return;
    try {
      const auto change = (*rendezvous)->poll_change();
      if (!change) return;
      wants_change = true;
      if (change->is_urgent) stop_generation("the members change: " + change->why);
    } catch (const std::exception& error) {
      wants_change = true;
      stop_generation(error.what());
    }
  }

  // Of one who holds the mutex.
  void stop_generation(const std::string& why) {
    is_watching = false;
    if (last_stopped < membership.generation) {
      why_stopped = why;
      last_stopped = membership.generation;
    }
    if (communicator) communicator->abort(why);
  }

  void check_goes_on(std::int64_t generation) {
    if (generation > last_stopped) return;
    const std::lock_guard lock(mutex);
    throw comm::Aborted(why_stopped, -1, "", "generation");
  }

  // Without the coordinator there is no next generation.
  bool report(const Standing& standing) {
    try {
      return (*rendezvous)->report(standing);
    } catch (const comm::CommError& error) {
      throw comm::Refused(fmt::format("membership: there is no next generation: {}", error.what()));
    }
  }

  bool regroup(const Standing& standing) {
    coordinator_for("membership");
    member->fail();
    std::shared_ptr<comm::Communicator> last;
    {
      const std::lock_guard lock(mutex);
      last = communicator;
      is_watching = false;
      if (standing.is_broken) stop_generation("this worker has come out of the generation");
      if (last) retired.push_back(last);
      communicator = nullptr;
    }
    if (!report(standing)) {
      member->end();
      come_out(std::move(last));
      return false;
    }
    wants_change = false;
    {
      const std::lock_guard lock(mutex);
      membership = (*rendezvous)->membership();
    }
    member->begin(membership);
    connect_members();
    return true;
  }

  Alignment align(const Progress& own) {
    std::vector<Progress> all;
    for (const std::string& text : (*rendezvous)->all_gather(own.to_text(), timeout))
      all.push_back(Progress::from_text(text));
    return member->align_with(all);
  }

  // When the run is done its last workers may still have something to say to each other.
  void come_out(std::shared_ptr<comm::Communicator> last) {
    const std::lock_guard lock(mutex);
    has_left = !(*rendezvous)->is_run_done();
    if (!has_left) communicator = std::move(last);
  }

  // Who holds one of them still hears that its generation is over.
  void settle() {
    member->aligned();
    for (const auto& one : retired)
      if (one.use_count() > 1) one->abort("the workers of this generation have changed");
    retired.clear();
  }

  bool is_in_generation() const {
    const std::lock_guard lock(mutex);
    return !has_left && !(is_late && membership.generation == 0);
  }

  std::shared_ptr<comm::Communicator> shared_communicator() {
    if (!is_in_generation())
      throw InvalidArgument(
          is_late && !has_left
              ? "job: this worker comes to a job that is under way, and has nothing to do with the "
                "others before fit"
              : "job: this worker has left the job, and the others have gone on without it");
    let_others_go();
    const std::lock_guard lock(mutex);
    if (membership.count(role) == 1) return nullptr;
    if (!communicator)
      throw comm::Aborted("job: the workers change, and are not connected yet", -1, "", "job");
    return communicator;
  }

  // Once the run is done. They are in there until the result is told, and cannot do their part.
  void let_others_go() {
    {
      const std::lock_guard lock(mutex);
      const bool is_done = survives && rendezvous && (*rendezvous)->is_run_done();
      if (!is_done || is_told) return;
    }
    (*rendezvous)->tell();
    const std::lock_guard lock(mutex);
    is_told = true;
  }

  void complain(const comm::CommError& error) const noexcept {
    if (rendezvous && error.rank() >= 0) (*rendezvous)->complain(error.rank(), error.what());
  }

  Rendezvous& coordinator_for(const char* what) const {
    if (rendezvous) return **rendezvous;
    if (type != nullptr) throw InvalidArgument("{}: this process has left its job", what);
    throw Unsupported("{}: over MPI alone there is no coordinator to be asked", what);
  }

  void connect_by_mpi(const Place& place, const JobOptions& options) {
    if (place.launcher != Place::Launcher::mpi)
      throw InvalidArgument(
          "transport: mpi connects processes that mpirun started; this one has "
          "been started otherwise: use auto");
    if (place.servers > 0)
      throw InvalidArgument("transport: mpi connects workers alone, and this job has {} servers",
                            place.servers);
    communicator = std::make_shared<comm::Communicator>(detail::connect_by_mpi(place));
    detail::check_agreement(*communicator, std::string(version()) + "\n" + options.configuration,
                            options.timeout);
    id = place.id();
    membership = workers_of(*communicator);
  }
};

Job::Job(const Place& place, const JobOptions& options)
    : impl_(std::make_unique<Impl>(place, options)) {}

Job::~Job() = default;

Membership Job::membership() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->membership;
}
std::int64_t Job::id() const { return impl_->id; }
Role Job::role() const { return impl_->role; }
int Job::rank() const { return membership().rank_of(impl_->id); }
int Job::size() const { return membership().count(impl_->role); }
bool Job::is_in_generation() const { return impl_->is_in_generation(); }
const std::string& Job::secret() const {
  impl_->coordinator_for("secret");
  return impl_->rendezvous->secret();
}
const std::string& Job::address() const { return impl_->coordinator_for("address").address(); }
const comm::Endpoint& Job::coordinator() const {
  impl_->coordinator_for("coordinator");
  return impl_->rendezvous->coordinator();
}
const std::shared_ptr<comm::Meter>& Job::meter() const { return impl_->meter; }
const comm::PortRange& Job::ports() const { return impl_->ports; }
std::vector<MemberReport> Job::report(const std::string& text) noexcept {
  return impl_->rendezvous ? (*impl_->rendezvous)->report(text) : std::vector<MemberReport>();
}
void Job::leave() { impl_->leave(); }
void Job::complain(const comm::CommError& error) noexcept { impl_->complain(error); }
MembershipStatus Job::query(std::chrono::milliseconds timeout) {
  return impl_->coordinator_for("membership").query(timeout);
}
bool Job::have_workers_left() { return impl_->coordinator_for("membership").have_workers_left(); }
std::int64_t Job::put(const std::string& name, const std::string& bytes,
                      std::chrono::milliseconds timeout) {
  return impl_->coordinator_for("registry").put(name, bytes, timeout);
}
RegistryEntry Job::get(const std::string& name, std::chrono::milliseconds timeout,
                       const RegistryWait& wait) {
  return impl_->coordinator_for("registry").get(name, timeout, wait);
}
ComparedEntry Job::compare_and_set(const std::string& name, std::int64_t expected_version,
                                   const std::string& bytes, std::chrono::milliseconds timeout) {
  return impl_->coordinator_for("registry").compare_and_set(name, expected_version, bytes, timeout);
}
bool Job::survives() const { return impl_->survives; }
bool Job::is_late() const { return impl_->is_late; }
void Job::watch_members() { impl_->watch(); }
bool Job::wants_change() const { return impl_->wants_change; }
void Job::check_goes_on(std::int64_t generation) const { impl_->check_goes_on(generation); }
bool Job::regroup(const Standing& standing) { return impl_->regroup(standing); }
bool Job::is_run_done() const { return impl_->rendezvous && (*impl_->rendezvous)->is_run_done(); }
Alignment Job::align(const Progress& own) { return impl_->align(own); }
void Job::settle() { impl_->settle(); }
void Job::tell() { impl_->coordinator_for("membership").tell(); }
void Job::depart() { impl_->coordinator_for("membership").depart(); }
void Job::wait_for_nobody() { impl_->coordinator_for("membership").wait_for_nobody(); }
void Job::expel(std::int64_t id, const std::string& why) {
  impl_->coordinator_for("membership").expel(id, why);
}
std::vector<MembershipEvent> Job::events() const {
  if (!impl_->rendezvous) return {};
  return (*impl_->rendezvous)->events();
}
comm::Communicator& Job::communicator() { return *impl_->communicator; }
std::shared_ptr<comm::Communicator> Job::shared_communicator() {
  return impl_->shared_communicator();
}

}  // namespace lockstep::cluster
