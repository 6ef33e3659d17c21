# SPDX-License-Identifier: Apache-2.0
"""Which worker has what: ranked, simulated, and taken by `lockstep train --plan`."""
import json

import pytest

SMALL = ["--width", 64, "--blocks", 2, "--global-batch", 8, "--shards", 4]
RUN = ["--data", "synthetic", "--steps", 2, "--seed", 5, "--no-report", "--json", "--threads", 1]


def plan(lockstep, *words):
    return json.loads(lockstep.run("plan", "char-gpt", *SMALL, *words, "--json", status=0).out)


def test_every_placement_is_ranked_and_says_what_it_changes(lockstep):
    ranked = plan(lockstep, "--workers", 4)
    found = {(p["data"], p["pipeline"], p["shard_state"], p["recompute"]) for p in ranked["plans"]}
    assert found == {(4, 1, 0, False), (4, 1, 1, False), (4, 1, 2, False), (2, 2, 0, False),
                     (2, 2, 0, True), (1, 4, 0, False), (1, 4, 0, True)}
    for each in ranked["plans"]:
        assert each["changes_bits"] == (each["pipeline"] > 1) and each["fits"]
        assert len(each["cuts"]) == each["segments"] - 1
        parts = each["step"]
        assert abs(parts["seconds"] - parts["computing_s"] - parts["bubble_s"]
                   - parts["communication_s"] - parts["stragglers_s"]) < 1e-9
        assert each["bytes"] == sum(each["memory"].values())
    assert ranked["best_of_same_bits"].startswith("lockstep train char-gpt")
    text = lockstep.run("plan", "char-gpt", *SMALL, "--workers", 2, status=0).out
    assert "the best" in text and "lockstep train char-gpt" in text


def test_placements_of_slices_are_ranked_and_taken(lockstep, tmp_path):
    mesh = ["--slices", 2, "--segments", 2]
    ranked = plan(lockstep, *mesh, "--workers", 4, "--threads", 1)
    found = {(p["data"], p["pipeline"], p["tensor"]) for p in ranked["plans"]}
    assert found == {(4, 1, 1), (2, 2, 1), (2, 1, 2), (1, 2, 2)}
    assert not any(p["changes_bits"] or p["shard_state"] for p in ranked["plans"])
    least = min(p["bytes"] for p in ranked["plans"])
    limit = ["--memory-limit", f"{(least + 1000) / 1e3}KB"]
    assert "--pipeline 2 --tensor 2" in plan(lockstep, *mesh, "--workers", 4, *limit)["best"]

    def train(name, *words):
        run = lockstep.run("train", "char-gpt", *SMALL, *RUN, *mesh, "--out", tmp_path / name,
                           *words, status=0)
        return json.loads(run.out.splitlines()[-1]), run.err
    alone, _ = train("alone")
    cells, said = train("cells", "--workers", 4, "--plan", "auto", *limit)
    assert "plan: data 1 x pipeline 2 x tensor 2" in said
    assert cells["placement"] == {"data": 1, "pipeline": 2, "tensor": 2}
    assert cells["params_sha256"] == alone["params_sha256"]
    for number, each in enumerate(ranked["plans"]):
        run, _ = train(str(number), "--workers", 4, *each["words"].split())
        assert run["step_bytes"] <= 1.05 * each["bytes"], each


def test_what_a_plan_needs_is_what_a_run_plans(lockstep, tmp_path):
    for number, each in enumerate(plan(lockstep, "--workers", 2, "--threads", 1)["plans"]):
        words = ["--workers", 2, *each["words"].split()]
        run = json.loads(lockstep.run("train", "char-gpt", *SMALL, *RUN, *words, "--quiet", "--out",
                                      tmp_path / str(number), status=0).out.splitlines()[-1])
        # The first worker's is told; the plan's is that of the one that needs most.
        assert run["step_bytes"] <= 1.05 * each["bytes"], each
        if each["pipeline"] == 1:
            assert run["step_bytes"] >= 0.95 * each["bytes"], each


def test_a_limit_that_nothing_meets_says_by_how_much(lockstep):
    outcome = lockstep.run("plan", "char-gpt", *SMALL, "--workers", 2, "--memory-limit", "100KB",
                           status=1)
    assert "no plan of 2 workers fits in 100 kB: the closest, data 1 x pipeline 2" \
        in outcome.complaint and "too much" in outcome.complaint
    outcome = lockstep.run("train", "char-gpt", *SMALL, *RUN, "--workers", 2, "--plan", "auto",
                           "--memory-limit", "100KB", status=1)
    assert "--plan auto: no plan of 2 workers fits in 100 kB" in outcome.complaint
    assert not (lockstep.folder / "runs").exists()


def test_train_takes_the_plan_and_keeps_the_bits_where_they_fit(lockstep, tmp_path):
    def train(name, *words):
        outcome = lockstep.run("train", "char-gpt", *SMALL, *RUN, "--out", tmp_path / name, *words,
                               status=0)
        return json.loads(outcome.out.splitlines()[-1]), outcome.err
    alone, _ = train("alone")
    planned, said = train("planned", "--workers", 2, "--plan", "auto")
    assert "plan: data 2 x pipeline 1" in said
    assert planned["params_sha256"] == alone["params_sha256"]
    # Where one of two workers cannot have all of it, the net is cut: the bits of two segments.
    fits = [p for p in plan(lockstep, "--workers", 2)["plans"] if p["pipeline"] == 2]
    limit = min(p["bytes"] for p in fits) + 1000
    same = [p["bytes"] for p in plan(lockstep, "--workers", 2)["plans"] if p["pipeline"] == 1]
    assert limit < min(same)
    cut, said = train("cut", "--workers", 2, "--plan", "auto", "--memory-limit", f"{limit / 1e3}KB")
    assert "the result is that of --segments 2" in said and cut["segments"] == 2
    segments, _ = train("segments", "--segments", 2)
    assert cut["params_sha256"] == segments["params_sha256"]


def test_a_thousand_workers_are_simulated(lockstep, tmp_path):
    page = tmp_path / "step.html"
    words = ["simulate", "char-gpt", "--width", 64, "--blocks", 2, "--workers", 1024, "--hosts",
             128, "--links", "25gbit,10us", "--draws", 3]
    result = json.loads(lockstep.run(*words, "--json", "--page", page, status=0).out)
    assert result["workers"] == result["shards"] == result["data"] == 1024
    assert result["global_batch"] == 4 * 1024 and 0 < result["efficiency"] < 1
    assert result["step_p10_s"] <= result["step_s"] <= result["step_p90_s"]
    assert result["bound"] in ("computing", "bubble", "communication", "stragglers")
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>") and "worker 31" in text and "<svg" in text
    said = lockstep.run("simulate", "char-gpt", *SMALL, "--segments", 2, "--pipeline", 2,
                        "--workers", 4, "--hosts", 2, "--links", "1gbit,50us", status=0).out
    assert "data 2 x pipeline 2" in said and "bound by" in said


@pytest.mark.parametrize("words,said", [
    (["plan", "--workers", 2, "--links", "fast"],
     "--links 'fast': expected a rate and a latency, such as 25gbit,10us"),
    (["plan", "--workers", 2, "--memory-limit", "2 potatoes"],
     "--memory-limit 2 potatoes: expected a number of GB, MB or KB, such as 2GB"),
    (["plan", "--workers", 2, "--hosts", 2], "2 hosts without links between them"),
    (["plan", "--workers", 2, "--hosts", 3, "--links", "1gbit"],
     "--hosts 3 with 2 workers: each has at least one"),
    (["simulate", "--workers", 8, "--shards", 4],
     "8 replicas with --shards 4: each computes at least one"),
    (["simulate", "--workers", 6, "--tensor", 3, "--slices", 2],
     "--tensor 3 with --slices 2: each worker needs a slice"),
    (["plan", "--workers", 4, "--tensor", 3, "--slices", 3],
     "--tensor 3 with 4 workers: expected a multiple of 3"),
    (["simulate", "--workers", 4, "--pipeline", 4],
     "--pipeline 4 with 1 segment: expected --segments 4 or more, or --cuts"),
    (["train", "--workers", 2, "--plan", "auto", "--kvstore", "ps_sync", "--data", "synthetic"],
     "--plan auto: is for workers that add gradients in the canonical order"),
])
def test_what_cannot_be_is_said_in_one_line(lockstep, words, said):
    outcome = lockstep.run(words[0], "char-gpt", "--width", 64, "--blocks", 2, *words[1:], status=2)
    assert said in outcome.complaint


def test_the_doctors_figures_are_taken(lockstep, tmp_path):
    figures = tmp_path / "doctor.json"
    figures.write_text(json.dumps({"network": {"latency_s": {"middle": 1e-3},
                                               "bandwidth_bytes_per_s": {"middle": 1e5}}}))
    slow = plan(lockstep, "--workers", 2, "--doctor", figures)
    assert slow["hosts"] == 2
    data = next(p for p in slow["plans"] if p["data"] == 2 and p["shard_state"] == 0)
    assert data["step"]["communication_s"] > 0.5  # 0.4 MB of gradients over 0.1 MB/s
    figures.write_text("{}")
    outcome = lockstep.run("plan", "char-gpt", *SMALL, "--workers", 2, "--doctor", figures, status=1)
    assert "has no rates between hosts" in outcome.complaint
