// SPDX-License-Identifier: Apache-2.0
// Jobs of several processes, and the store of their values.
#include "bindings/bindings.h"
#include "bindings/block.h"
#include "bindings/train.h"
#include "lockstep/kvstore/kvstore.h"
#include "lockstep/optim/optimizer.h"

namespace lockstep::python {
namespace {

kvstore::Key to_key(const py::object& key) {
  if (py::isinstance<py::str>(key)) return kvstore::Key(py::cast<std::string>(key));
  return kvstore::Key(py::cast<std::int64_t>(key));
}

std::vector<Tensor> to_values(const py::object& values) {
  if (py::isinstance<py::list>(values) || py::isinstance<py::tuple>(values))
    return py::cast<std::vector<Tensor>>(values);
  return {to_tensor(values)};
}

// A store, and the job whose connections it uses.
struct HeldStore {
  py::object job;
  std::shared_ptr<comm::Communicator> communicator = {};
  std::unique_ptr<kvstore::KVStore> store = {};
};

std::unique_ptr<HeldStore> make_store(const std::string& type, const py::object& job) {
  auto held = std::make_unique<HeldStore>();
  held->job = job;
  const train::OwnJob* own = job.is_none() ? nullptr : &py::cast<HeldJob&>(job).own;
  const py::gil_scoped_release released;
  kvstore::JobParts parts;
  if (own != nullptr) {
    held->communicator = own->communicator();
    parts = own->parts();
    parts.communicator = held->communicator.get();
  }
  held->store = kvstore::create(type, parts);
  return held;
}

void bind_store(py::module_& m) {
  using Release = py::gil_scoped_release;
  py::class_<HeldStore>(m, "KVStore", "Values by key, the same on all workers.")
      .def_property_readonly("type",
                             [](const HeldStore& s) { return std::string(s.store->type()); })
      .def_property_readonly("rank", [](const HeldStore& s) { return s.store->rank(); })
      .def_property_readonly("num_workers",
                             [](const HeldStore& s) { return s.store->num_workers(); })
      .def(
          "barrier", [](HeldStore& s) { s.store->barrier(); }, py::call_guard<Release>())
      .def("init",
           [](HeldStore& s, const py::object& key, const Tensor& value) {
             const kvstore::Key name = to_key(key);
             const Release released;
             s.store->init(name, value);
           })
      .def("push",
           [](HeldStore& s, const py::object& key, const py::object& values) {
             const kvstore::Key name = to_key(key);
             const std::vector<Tensor> tensors = to_values(values);
             const Release released;
             s.store->push(name, tensors);
           })
      .def("pull",
           [](const HeldStore& s, const py::object& key) {
             const kvstore::Key name = to_key(key);
             const Release released;
             return s.store->pull(name);
           })
      .def("pushpull",
           [](HeldStore& s, const py::object& key, const py::object& values) {
             const kvstore::Key name = to_key(key);
             const std::vector<Tensor> tensors = to_values(values);
             const Release released;
             return s.store->pushpull(name, tensors);
           })
      .def("broadcast",
           [](HeldStore& s, const py::object& key, const Tensor& value) {
             const kvstore::Key name = to_key(key);
             const Release released;
             return s.store->broadcast(name, value);
           })
      .def(
          "set_optimizer",
          [](HeldStore& s, const std::shared_ptr<optim::Optimizer>& rule, double rescale) {
            s.store->set_optimizer(rule, rescale);
          },
          py::arg("rule"), py::arg("rescale") = 1.0, py::call_guard<Release>())
      .def(
          "save_optimizer_states",
          [](const HeldStore& s, const std::string& path) { s.store->save_optimizer_states(path); },
          py::call_guard<Release>())
      .def(
          "load_optimizer_states",
          [](HeldStore& s, const std::string& path) { s.store->load_optimizer_states(path); },
          py::call_guard<Release>());
  m.def("create", &make_store, py::arg("type") = "local", py::arg("job") = py::none(),
        "A store by name: local, allreduce, ps_sync, ps_async, ps_ssp, or MXNet's names.");
}

}  // namespace

void bind_job(py::module_& m) {
  py::class_<HeldJob> job(m, "Job",
                          "The job that this process is a worker of, or a process alone.");
  bind_collectives(job);
  job.def_property_readonly("rank", [](const HeldJob& j) { return j.own.rank(); })
      .def_property_readonly("workers", [](const HeldJob& j) { return j.own.workers(); })
      .def_property_readonly("is_first", [](const HeldJob& j) { return j.own.is_first(); })
      .def("__repr__",
           [](const HeldJob& j) {
             return fmt::format("worker {} of {}", j.own.rank(), j.own.workers());
           })
      .def(
          "_leave",
          [](HeldJob& j) {
            if (j.own.job) j.own.job->leave();
          },
          py::call_guard<py::gil_scoped_release>())
      .def(
          "_complain",
          [](HeldJob& j, const std::string& text, int rank) {
            if (j.own.job) j.own.job->complain(comm::PeerLost(text, rank, "", ""));
          },
          py::call_guard<py::gil_scoped_release>());
  m.def(
      "join_job",
      [](double timeout, bool tolerates_lost_servers, bool survives, const std::string& kvstore,
         std::uint64_t staleness, std::int64_t shard_state) {
        cluster::JobOptions options;
        options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * timeout));
        options.tolerates_lost_servers = tolerates_lost_servers;
        options.survives = survives;
        const train::JobStore how{.name = kvstore,
                                  .staleness = staleness,
                                  .shard_state = kvstore::parse_shard_state(shard_state)};
        auto joined = [&] {
          const py::gil_scoped_release released;
          return std::make_unique<HeldJob>(HeldJob{train::join_job(options, how)});
        }();
        const py::object own = py::cast(std::move(joined));
        py::module_::import("lockstep._job").attr("joined")(own);
        return own;
      },
      py::arg("timeout") = 60.0, py::arg("tolerates_lost_servers") = false,
      py::arg("survives") = false, py::arg("kvstore") = "dist_sync", py::arg("staleness") = 3,
      py::arg("shard_state") = 0,
      "This process's place in the job that `lockstep launch`, mpirun or srun has started, or a\n"
      "process alone. To be called before anything is computed. Servers do their part in here.\n"
      "With `survives` a lost worker does not end the job: the others go on, and rank, workers "
      "and\n"
      "is_first are those of the workers that are there. `kvstore` says how gradients become "
      "parameters where\n"
      "there are servers: dist_sync, ps_async, or ps_ssp with its `staleness`. With `shard_state` "
      "1\n"
      "workers have what the optimizer keeps together, each a part, with 2 gradients too: the "
      "bits\n"
      "are the same.");
  py::module_ store = m.def_submodule("kvstore", "Values by key, the same on all workers.");
  bind_store(store);
}

}  // namespace lockstep::python
