# SPDX-License-Identifier: Apache-2.0
"""The commands around training."""
import json
import shutil
import struct
import subprocess

import pytest

from small_data import png


def grey(width, height, value):
    return png(width, height, bytes([value]) * (width * height))


def test_predict_says_a_class_and_how_sure_it_is(lockstep):
    lockstep.train("mnist-mlp", "--steps", 2, "--out", "run", status=0)
    (lockstep.folder / "a.png").write_bytes(grey(28, 28, 0))
    (lockstep.folder / "b.png").write_bytes(grey(56, 40, 200))
    outcome = lockstep.run("predict", "run", "a.png", "b.png", status=0)
    lines = outcome.out.splitlines()
    assert lines[0].startswith("a.png: ") and lines[0].endswith("%")
    assert lines[1].startswith("b.png: ")
    row = lockstep.run("predict", "run", "a.png", "--top", 10, "--json").json
    assert row["file"] == "a.png" and len(row["classes"]) == 10
    assert sum(c["confidence"] for c in row["classes"]) == pytest.approx(1, abs=1e-4)


def test_predict_takes_every_image_of_an_idx_file(lockstep):
    lockstep.train("mnist-mlp", "--steps", 2, "--out", "run", status=0)
    images = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 28, 28) + bytes(2 * 784)
    (lockstep.folder / "digits").write_bytes(images)
    lines = lockstep.run("predict", "run", "digits", status=0).out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["digits[0]", "digits[1]"]


def test_predict_names_a_file_that_is_no_image(lockstep):
    lockstep.train("mnist-mlp", "--steps", 2, "--out", "run", status=0)
    (lockstep.folder / "a.png").write_bytes(grey(28, 28, 0)[:60])
    assert "a.png: " in lockstep.run("predict", "run", "a.png", status=1).complaint
    assert "b.png: " in lockstep.run("predict", "run", "b.png", status=1).complaint


def mails(folder, spam, ham):
    for name, texts in (("spam", spam), ("ham", ham)):
        (folder / name).mkdir(parents=True)
        for i, text in enumerate(texts):
            (folder / name / f"{i}.txt").write_text(text)


def test_predict_says_what_a_model_reads(lockstep):
    lockstep.train("mnist-mlp", "--steps", 1, "--out", "run", status=0)
    complaint = lockstep.run("predict", "run", "--prompt", "Call me", status=2).complaint
    assert "--prompt: mnist-mlp does not write text; give it image files" in complaint
    complaint = lockstep.run("predict", "run", status=2).complaint
    assert "no files were given: mnist-mlp reads image files" in complaint


def test_a_report_after_a_resume_has_the_time_of_all_starts(lockstep):
    words = ["train", "mnist-mlp", "--data", "synthetic", "--steps", 3, "--out", "run"]
    lockstep.run(*words, status=0)
    metrics = lockstep.folder / "run" / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    rows[-1]["time"] = 7200
    rows.insert(1, "damaged")
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    outcome = lockstep.run("train", "mnist-mlp", "--resume", "--out", "run", status=0)
    assert "warning: run/metrics.jsonl: line 2 is not a JSON object" in outcome.err
    assert "2:00:0" in (lockstep.folder / "run" / "report.html").read_text()


def test_a_text_classifier_reads_files(lockstep):
    spam = [f"win money now offer {i}" for i in range(40)]
    ham = [f"the meeting is on monday {i}" for i in range(40)]
    mails(lockstep.folder / "mails", spam, ham)
    result = lockstep.run("train", "text-lstm", "--data", "mails", "--steps", 25, "--global-batch",
                          16, "--learning-rate", "0.01", "--json", "--out", "run").json
    assert result["test_accuracy"] == 1
    (lockstep.folder / "new.txt").write_text("win an offer")
    row = lockstep.run("predict", "run", "new.txt", "--json").json
    assert row["classes"][0]["class"] == "spam"
    again = lockstep.run("eval", "run", "--json").json
    assert again["test_loss"] == result["test_loss"]


def test_a_character_model_writes(lockstep):
    (lockstep.folder / "book").mkdir()
    (lockstep.folder / "book" / "text.txt").write_text("abcd " * 4000)
    lockstep.run("train", "char-gpt", "--data", "book", "--steps", 5, "--global-batch", 8, "--out",
                 "run", status=0)
    words = ["predict", "run", "--prompt", "abcd", "--length", "12", "--seed", "3"]
    first = lockstep.run(*words, status=0).out
    assert first.startswith("abcd") and len(first) == 4 + 12 + 1
    assert lockstep.run(*words, status=0).out == first
    assert "--prompt" in lockstep.run("predict", "run", status=2).complaint


def test_models_are_listed_and_summarised(lockstep):
    assert "cifar-resnet18" in lockstep.run("models", status=0).out
    assert "421,642" in lockstep.run("models", "--summary", "mnist-lenet", status=0).out


def test_data_sets_are_listed_and_have_a_place(lockstep):
    out = lockstep.run("data", "list", env={"LOCKSTEP_DATA": "/nowhere"}, status=0).out
    for name in ("mnist", "fashion-mnist", "cifar10", "moby-dick", "spam-assassin"):
        assert name in out
    assert lockstep.run("data", "path", env={"LOCKSTEP_DATA": "/nowhere"}).out == "/nowhere\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_parse(lockstep, shell):
    script = lockstep.run("completion", shell, status=0).out
    for word in ("train", "predict", "mnist-lenet"):
        assert word in script
    if shutil.which(shell):
        check = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True)
        assert check.returncode == 0, check.stderr


def complete(script, *words):
    """What bash offers for the last word."""
    quoted = " ".join(f"'{word}'" for word in ("lockstep", *words))
    ask = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _lockstep; echo \"${{COMPREPLY[@]}}\""
    return subprocess.run(["bash", "-c", f"{script}\n{ask}"], text=True, capture_output=True,
                          check=True).stdout.split()


def test_bash_completes_commands_options_and_values(lockstep):
    script = lockstep.run("completion", "bash", status=0).out
    assert complete(script, "tr") == ["train"]
    assert complete(script, "train", "mnist-") == ["mnist-mlp", "mnist-lenet"]
    assert "--global-batch" in complete(script, "train", "mnist-mlp", "--g")
    assert complete(script, "train", "mnist-mlp", "--optimizer", "adamw") == ["adamw"]
    assert complete(script, "train", "mnist-mlp", "--algorithm", "r") == ["ring"]
    assert complete(script, "train", "mnist-mlp", "--kvstore", "all") == ["allreduce"]
    assert complete(script, "train", "mnist-mlp", "--compression", "2") == ["2bit"]
    assert complete(script, "data", "get", "moby") == ["moby-dick"]


def test_help_is_grouped_and_shows_examples(lockstep):
    out = lockstep.run("--help", status=0).out
    for word in ("Train and use a model", "Data, models and tools", "Examples:",
                 "lockstep train mnist-lenet"):
        assert word in out
    launch = lockstep.run("launch", "--help", status=0).out
    for word in ("--hosts A:2,B:2 ", "--coordinator HOST[:PORT] ", "--workers N ",
                 "--timeout SECONDS "):
        assert word in launch
    train = " ".join(lockstep.run("train", "--help", status=0).out.split())
    for word in ("--kvstore MODE How gradients become parameters: local, allreduce, ps_sync",
                 "--optimizer NAME The update rule: adadelta", "hierarchical, central, ring",
                 "none, fp16, bf16, 1bit, 2bit, topk (default none)"):
        assert word in train
    assert "{false}" not in lockstep.run("bench", "step", "--help", status=0).out


def write_images(folder, classes):
    for part, count in (("train", 20), ("test", 4)):
        for name, value in classes:
            (folder / part / name).mkdir(parents=True)
            for i in range(count):
                (folder / part / name / f"{i}.png").write_bytes(grey(20 + i, 30, value))


def test_a_net_has_an_output_for_each_class_of_ones_own_images(lockstep):
    classes = [(f"c{i:02}", 20 * i) for i in range(12)]
    write_images(lockstep.folder / "images", classes)
    words = ["train", "cifar-cnn", "--data", "images", "--steps", 2, "--global-batch", 8]
    lockstep.run(*words, "--out", "run", "--json", status=0)
    row = lockstep.run("predict", "run", "images/test/c03/1.png", "--json", "--top", 99).json
    assert sorted(guess["class"] for guess in row["classes"]) == [name for name, _ in classes]
    assert lockstep.run("eval", "run", "--json").json["samples"] == 48
    lockstep.run("train", "cifar-cnn", "--resume", "--out", "run", status=0)
    shutil.rmtree(lockstep.folder / "images" / "train" / "c11")
    shutil.rmtree(lockstep.folder / "images" / "test" / "c11")
    assert "the run has c00, c01" in lockstep.run("train", "cifar-cnn", "--resume", "--out", "run",
                                                  status=1).complaint


def test_ones_own_images_are_learnt_and_bad_ones_left_out_when_asked(lockstep):
    write_images(lockstep.folder / "images", (("dark", 10), ("light", 240)))
    words = ["train", "mnist-mlp", "--data", "images", "--steps", 20, "--global-batch", 8, "--json"]
    assert lockstep.run(*words, "--out", "run").json["test_accuracy"] == 1
    told = lockstep.run(*words[:-1], "--optimizer", "adam", "--learning-rate", 0.002, "--out",
                        "told", status=0).out.splitlines()[-1]
    assert f" --data {lockstep.folder}/images " in told
    assert told.endswith(" --global-batch 8 --optimizer adam --learning-rate 0.002")
    row = lockstep.run("predict", "run", "images/test/light/1.png", "--json").json
    assert row["classes"][0]["class"] == "light"
    bad = lockstep.folder / "images" / "train" / "dark" / "3.png"
    bad.write_bytes(bad.read_bytes()[:-30])
    all_at_once = ["--steps", 2, "--global-batch", 40, "--out", "bad"]
    complaint = lockstep.run(*words[:4], *all_at_once, status=1).complaint
    assert "dark/3.png: " in complaint and "--skip-bad" in complaint
    assert not (lockstep.folder / "bad").exists(), "training never began"
    outcome = lockstep.run(*words, "--out", "skip", "--skip-bad", status=0)
    assert "dark/3.png" in outcome.err
    again = lockstep.run("train", "mnist-mlp", "--resume", "--skip-bad", "--out", "skip", "--json")
    assert again.json["params_sha256"] == outcome.json["params_sha256"]


def test_a_run_that_met_bad_images_goes_on_without_them(lockstep):
    write_images(lockstep.folder / "images", (("dark", 10), ("light", 240)))
    words = ["train", "mnist-mlp", "--data", "images", "--steps", 8, "--global-batch", 8,
             "--checkpoint-every", 1, "--threads", 1, "--quiet", "--out"]
    lockstep.run(*words, "good", "--json", status=0)
    for folder in ("train", "test"):
        bad = lockstep.folder / "images" / folder / "dark" / "3.png"
        bad.write_bytes(bad.read_bytes()[:-30])
    complaint = lockstep.run(*words, "run", status=1).complaint
    assert "train/dark/3.png" in complaint
    assert (lockstep.folder / "run").exists(), "a later step met it"
    resume = ["train", "mnist-mlp", "--resume", "--out", "run", "--json"]
    assert "train/dark/3.png" in lockstep.run(*resume, status=1).complaint
    outcome = lockstep.run(*resume, "--skip-bad", status=0)
    assert "train/dark/3.png" in outcome.err and "test/dark/3.png" in outcome.err
    assert outcome.json["steps"] == 8 and outcome.json["resumed_from_step"] > 0


def test_bench_scale_compares_workers_and_checks_their_bits(lockstep):
    words = ["bench", "scale", "--quick", "--no-peer", "--recipes", "mnist-mlp", "--threads", 1]
    outcome = lockstep.run(*words, "--workers", "1,2", "--json", status=0)
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    assert [(row["workers"], row["threads"]) for row in rows] == [(1, 1), (2, 1)]
    assert rows[0]["params_sha256"] == rows[1]["params_sha256"]
    assert rows[0]["speedup"] == 1 and rows[1]["samples_per_s"] > 0
    assert "bench scale: mnist-mlp" in outcome.err, "progress"
    complaint = lockstep.run(*words, "--workers", 9, status=1).complaint
    assert "9 workers, expected at most 8" in complaint


def test_messages_are_measured_over_each_path(lockstep):
    words = ["bench", "messages", "--quick", "--json", "--kilobytes", "1,1024"]
    rows = [json.loads(line) for line in lockstep.run(*words, status=0).out.splitlines()]
    for path in ("shared_memory", "tcp"):
        found = [r for r in rows if r["path"] == path]
        assert [r["bytes"] for r in found if r["what"] == "round_trip"] == [0]
        for what in ("push", "pull", "push_pull", "push_pull_in_place"):
            assert [r["bytes"] for r in found if r["what"] == what] == [1024, 1 << 20]
        for row in found:
            assert row["verified"] and 0 < row["us_p50"] <= row["us_p99"]
            assert row["bytes"] == 0 or 0 < row["memcpy_ratio"]
    one = lockstep.run(*words, "--no-peer", "--paths", "tcp", status=0).out.splitlines()
    assert len(one) == 9 and "memcpy" not in "".join(one)


def test_the_collectives_are_measured_at_every_size(lockstep):
    words = ["bench", "comm", "--quick", "--no-peer", "--json"]
    names = "all_reduce,all_reduce_shared,barrier"
    run = lockstep.run(*words, "--collectives", names, status=0)
    rows = [json.loads(line) for line in run.out.splitlines()]
    sizes = [8 << i for i in range(24)]
    for memory in ("private", "shared"):
        found = [r for r in rows if r["collective"] == "all_reduce" and r["memory"] == memory]
        assert [r["bytes"] for r in found] == sizes
        for row in found:
            # nccl-tests: what moves over a link is 2 (n - 1) / n of the data, here all of it.
            assert row["busbw_gbs"] == row["algbw_gbs"] > 0
            assert row["verified"] and 0 < row["us_p50"] <= row["us_p99"]
    assert [r["collective"] for r in rows].count("barrier") == 1
    table = lockstep.run(*words[:-1], "--collectives", "barrier", status=0).out.splitlines()
    assert table[0].split()[:3] == ["collective", "memory", "bytes"] and len(table) == 2
