// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/train/observers.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {
namespace {

using cluster::MembershipEvent;
using nlohmann::ordered_json;

ordered_json json_of(const MembershipEvent& event) {
  ordered_json json{{"time", static_cast<double>(event.unix_ms) / 1000.0},
                    {"number", event.number},
                    {"event", event.kind},
                    {"generation", event.generation}};
  if (event.member >= 0) json["member"] = event.member;
  if (!event.host.empty()) json["host"] = event.host;
  if (!event.why.empty()) json["why"] = event.why;
  if (event.kind != "generation") return json;
  json["workers"] = event.workers;
  json["step"] = event.step;
  json["seconds"] = static_cast<double>(event.milliseconds) / 1000.0;
  return json;
}

class MembershipRecorder final : public Callback {
 public:
  explicit MembershipRecorder(std::string path) : path_(std::move(path)) {}

  void on_train_begin(FitContext& run) override {
    find_last();
    write(run);
  }
  void on_generation(FitContext& run) override { write(run); }
  void on_train_end(FitContext& run, const FitResult&) override { write(run); }

 private:
  // Numbers begin anew with each job, time goes on.
  using Place = std::pair<double, std::int64_t>;
  static Place place_of(const MembershipEvent& event) {
    return {static_cast<double>(event.unix_ms) / 1000.0, event.number};
  }

  // A line that another worker has not finished counts for nothing.
  void find_last() {
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      const auto json = ordered_json::parse(line, nullptr, false);
      if (json.is_object() && json.contains("time") && json.contains("number"))
        last_ = std::max(last_, Place{json["time"], json["number"]});
    }
  }

  void write(FitContext& run) {
    std::string lines;
    for (const MembershipEvent& event : run.membership_events()) {
      if (place_of(event) <= last_) continue;
      last_ = place_of(event);
      lines += json_of(event).dump() + "\n";
    }
    if (lines.empty() || failed_) return;
    std::ofstream file(path_, std::ios::app);
    if (file << lines << std::flush) return;
    failed_ = true;
    run.warn(path_ + ": cannot be written; what happens to the workers is not recorded any more");
  }

  std::string path_;
  Place last_{0.0, 0};
  bool failed_ = false;
};

}  // namespace

CallbackPtr record_membership(const observe::RunFolder& run) {
  return std::make_shared<MembershipRecorder>(run.membership_path());
}

}  // namespace lockstep::train
