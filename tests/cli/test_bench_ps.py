# SPDX-License-Identifier: Apache-2.0
"""lockstep bench ps: jobs with servers, measured and verified."""
import json

STORES = ["local", "allreduce", "ps_sync", "ps_async", "ps_ssp"]


def rows_of(outcome):
    return [json.loads(line) for line in outcome.out.splitlines()]


def test_pushes_and_pulls_are_measured_by_size_keys_and_servers(lockstep):
    words = ["bench", "ps", "--quick", "--kilobytes", "1,1024", "--keys", "1,16"]
    outcome = lockstep.run(*words, "--json", status=0)
    rows = rows_of(outcome)
    for servers in (1, 2):
        own = [row for row in rows if row["servers"] == servers]
        assert [(row["op"], row["bytes"], row["keys"]) for row in own if "memcpy_ratio" in row] == [
            (op, 1024 * size, keys) for size in (1, 1024) for keys in (1, 16)
            for op in ("push", "pull", "pushpull")]
        sparse = {row["op"]: row for row in own if "rows_per_s" in row}
        assert list(sparse) == ["row_sparse_push", "row_sparse_pull", "row_sparse_pushpull"]
        # 100,000 rows of 64 floats, 2,000 of them with their numbers.
        assert sparse["row_sparse_push"]["dense_bytes"] == 100_000 * 64 * 4
        assert sparse["row_sparse_pushpull"]["bytes"] == 2 * 2_000 * (64 * 4 + 8)
        assert abs(sparse["row_sparse_pushpull"]["bytes_ratio"] - 0.02 * 264 / 256) < 1e-9
        ahead = [row for row in own if row["op"].startswith("next_rows")]
        assert [row["op"] for row in ahead] == ["next_rows", "next_rows_ahead"]
        assert ahead[0]["speedup"] == 1 and ahead[1]["speedup"] > 0
    for row in rows:
        assert row["verified"] and row["workers"] == 1 and 0 < row["us_p50"] <= row["us_p99"]
    assert "bench ps" in outcome.err, "progress"


def test_a_table_for_reading_and_more_workers(lockstep):
    words = ["bench", "ps", "--quick", "--workers", 2, "--servers", 1, "--keys", 1]
    lines = lockstep.run(*words, "--kilobytes", 4, status=0).out.splitlines()
    assert lines[0].split()[:3] == ["op", "servers", "keys"] and len(lines) == 1 + 3 + 3 + 2
    assert "rows/s" in lines[-3] and "x as fast" in lines[-1]
    complaint = lockstep.run("bench", "ps", "--kilobytes", 99999, status=2).complaint
    assert complaint.startswith("lockstep: --kilobytes: got 99999, expected")


def test_one_job_is_trained_with_every_kvstore(lockstep):
    rows = rows_of(lockstep.run("bench", "ps", "--quick", "--train", "mnist-mlp", "--json", status=0))
    by_name = {row["kvstore"]: row for row in rows}
    assert sorted(by_name) == sorted(STORES)
    in_step = [by_name[name] for name in STORES[:3]]
    assert len({row["params_sha256"] for row in in_step}) == 1
    assert [row["workers"] for row in in_step] == [1, 2, 2]
    assert [row["servers"] for row in in_step] == [0, 0, 2]
    assert by_name["allreduce"]["ratio"] == 1
    for row in rows:
        assert row.get("refused") or (row["samples_per_s"] > 0 and row["train_loss"] > 0)
    assert "refused" not in by_name["ps_sync"]
