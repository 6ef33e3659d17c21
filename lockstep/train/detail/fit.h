// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/loader.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/detail/cost_meter.h"
#include "lockstep/train/detail/fit_state.h"
#include "lockstep/train/detail/history_file.h"
#include "lockstep/train/detail/shard_dealer.h"
#include "lockstep/train/detail/ticket_loop.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train::detail {

// Time of the steps alone, from the third on.
class SteadyRate {
 public:
  void add(double seconds, std::int64_t samples);
  // 0 while there is none.
  double samples_per_s() const { return seconds_ > 0.0 ? samples_ / seconds_ : 0.0; }

 private:
  int seen_ = 0;
  double seconds_ = 0.0;
  double samples_ = 0.0;
};

// Seconds, of a clock that only goes on.
double now();

// What a trainer lends to a run.
struct Parts {
  nn::BlockPtr net;
  LossFunction loss;
  optim::OptimizerPtr optimizer;
  TrainerOptions options;
  Evaluator* evaluator;
};

// One run of Trainer::fit.
class Fit final : public FitContext {
 public:
  Fit(Parts parts, const data::DatasetPtr& dataset, const FitOptions& options);
  FitResult run();

  nn::Block& net() override;
  std::int64_t step() const override { return step_; }
  std::int64_t first_step() const override { return first_step_; }
  std::int64_t total_steps() const override { return total_steps_; }
  std::int64_t steps_per_epoch() const override { return loader_->steps_per_epoch(); }
  std::int64_t global_batch() const override { return parts_.options.global_batch; }
  const std::vector<EvaluationRecord>& history() const override { return state_.history; }
  const data::Dataset& train_set() const override { return *dataset_; }
  const data::Dataset* validation_set() const override { return options_.validation.get(); }
  bool is_first() const override;
  ShardRange shards() const override;
  std::vector<cluster::MembershipEvent> membership_events() const override;
  void request_stop(const std::string& reason) override;
  void warn(const std::string& line) override;

 private:
  void go();
  void remember_parameters();
  void compare_workers();
  bool take_set_parameters();
  bool take_set_parts();
  std::vector<std::string> set_parameters() const;
  void refuse_lost_parameters() const;
  void bring_net();
  void choose_mesh();
  // What may fail on this worker alone: where others have parts of the step, they hear of it at
  // once.
  template <class F>
  auto alone(const F& work) const {
    try {
      return work();
    } catch (const std::exception& error) {
      if (engine_ && engine_->is_partial()) parts_.options.mode->abort(error.what());
      throw;
    }
  }
  void leave_net();
  std::string first_set_parameter() const;
  void leave_committed_parameters() noexcept;
  std::string agreed_configuration() const;
  data::ShardSampler make_sampler() const;
  kvstore::OutOfStep* out_of_step() const { return parts_.options.mode->out_of_step(); }
  data::LoaderOptions loader_options();
  std::vector<data::Fields> load_first_batches();
  EngineOptions engine_options() const;
  void open_store();
  std::optional<Checkpoint> find_checkpoint();
  std::optional<Checkpoint> read_checkpoint_to_resume();
  std::string file_of(const Checkpoint& checkpoint) const;
  void make_engine();
  void compare_bits();
  void check_batch_norms();
  void check_outputs();
  void note_instruction_set();
  void restore(const Checkpoint& checkpoint);
  void read_older_history();
  void drop_evaluation_of_the_end();
  void write_older_history();
  void catch_up();
  void begin_run();
  void train_to_end();

  // Of a job that survives the loss of workers: fit_survival.cpp.
  bool is_late() const;
  void until_done();
  bool regroup(cluster::Standing standing);
  kvstore::Mode* next_mode(const cluster::Standing& standing);
  void enter(kvstore::Mode& mode);
  void align_states();
  void take_bits_of_newcomers(int source);
  void agree_on_writing();
  std::string state_text() const;
  void take_state_text(const std::string& text);
  void note_recovery();
  void leave_if_asked();

  // By speed: fit_deal.cpp.
  void watch_speeds();
  std::string deal_text() const;  // the same of all workers
  void redeal_if_worthwhile(const StepCost& cost);

  // What this worker computes at a time: its shards of a step, or a ticket.
  struct Share {
    std::int64_t number = 0;  // keys what is drawn
    std::int64_t step = 0;
    std::int64_t first_shard = 0;
  };
  Share share() const;
  void one_step();
  StepResult run_step(double rate, const std::vector<data::Fields>& batches,
                      const StepWishes& wishes);
  void tell_step(StepEvent event);

  // Of workers that are not in step: everything up to the next point at which they meet.
  void one_stretch();
  TicketPlan first_tickets() const;
  void agree_on_tickets();
  void leave_out_missed_checkpoint();
  bool wishes_to_pause();
  std::int64_t next_meeting() const;
  void end_ticket(const TicketResult& result);
  void tell_own_tickets();
  void tell_steps_until(std::int64_t step, const Stretch& stretch);
  std::int64_t samples_of_ticket() const;
  std::string wish_to_stop() const;

  std::int64_t number_of(const BadSample& sample) const;
  void end_epoch();
  double learning_rate(std::int64_t step) const;
  std::string first_finding(const std::string& own);
  void check_data(const std::vector<data::Fields>& batches);
  void check_sent();
  std::string kept_checkpoint();
  [[noreturn]] void fail_diverged(double loss, const std::vector<data::Fields>& batches);
  bool is_due(std::int64_t every) const;
  bool should_go_on();
  bool is_asked_to_stop() const;
  bool is_asked_to_leave() const;
  kvstore::Group& group() const;
  void agree_on_parameters();
  void do_what_is_due();
  void evaluate();
  Evaluation evaluate_on(const data::Dataset& dataset,
                         const std::vector<std::shared_ptr<nn::Metric>>& metrics, bool keep);
  void add_train_metrics(Evaluation& evaluation);
  void count_reductions();
  bool is_whole_everywhere(const Evaluation& evaluation);
  void write_checkpoint();
  std::string newest_checkpoint() const;
  void finish();
  void fill_result();
  double seconds() const;

  Parts parts_;
  data::DatasetPtr dataset_;
  const FitOptions& options_;
  std::string configuration_;
  TicketPlan tickets_;                  // of workers that are not in step: the run's
  std::optional<data::Loader> loader_;  // of a generation
  std::int64_t total_steps_ = 0;
  std::int64_t first_step_ = 0;
  std::int64_t step_ = 0;
  std::int64_t met_step_ = 0;   // of workers that are not in step: when they met last
  std::int64_t told_step_ = 0;  // and the last that was told
  std::int64_t evaluated_step_ = -1;
  std::int64_t written_step_ = -1;
  bool net_is_current_ = true;
  bool is_net_asked_for_ = false;         // by a callback, since the last step
  std::vector<Tensor> in_net_;            // as the engine gave them, while the net is current
  std::vector<std::string> sums_of_net_;  // of a part's worker, when the net was current last
  bool stop_requested_ = false;
  bool has_state_ = true;         // false: a late worker's, until the others have given it
  bool pause_requested_ = false;  // the generation is to end
  bool has_asked_to_leave_ = false;
  bool has_recovered_ = false;        // what is due at this step may be done already
  std::optional<Recovery> recovery_;  // until the next step is committed
  double failed_at_ = 0.0;
  StepEvent last_event_;
  FitState state_;
  FitResult result_;
  int reductions_ = 0;  // of the learning rate, on a plateau
  SteadyRate rate_;
  CostSum costs_;
  std::optional<ShardDealer> dealer_;  // of a generation
  bool has_told_deal_ = false;         // why there is none
  double begin_ = 0.0;
  std::optional<StepEngine> engine_;
  std::optional<TicketLoop> loop_;  // so are they
  std::optional<Share> ticket_;     // under way
  TicketResult since_told_;         // sums, of this worker's tickets; the last ticket
  std::int64_t count_since_told_ = 0;
  kvstore::PushesSeen seen_before_;                         // when the last step was told
  double ticket_end_ = 0.0;                                 // the last one's
  std::optional<std::vector<data::Fields>> first_batches_;  // made to know their shapes
  std::optional<CheckpointStore> store_;
  std::optional<HistoryFile> older_history_;  // where there is a store
  bool writes_ = false;                       // rank 0 has a store: on all workers
};

}  // namespace lockstep::train::detail
