# SPDX-License-Identifier: Apache-2.0
"""Recommenders: ratings of a file or generated, what they report, what they recommend."""
import json
import math
import random

import pytest

RECIPES = {"recsys-mf": "rmse", "recsys-dlrm": "auc"}
FEW = ["--steps", 3, "--global-batch", 64, "--shards", 8, "--quiet", "--no-report", "--json"]


def write_ratings(folder, name="ratings.csv", separator=",", header="userId,movieId,rating,timestamp"):
    """Sixty users with ids of their own; odd ones like odd movies."""
    draws = random.Random(3)
    lines = [header] if header else []
    for user in range(60):
        for movie in draws.sample(range(40), 25):
            rating = 5 if (user + movie) % 2 == 0 else 2
            row = (f"u{user}", 1000 + movie, rating, 900000000 + draws.randrange(10**7))
            lines.append(separator.join(map(str, row)))
    (folder / name).write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("recipe,metric", RECIPES.items())
def test_generated_ratings_need_no_file(lockstep, recipe, metric):
    result = lockstep.run("train", recipe, "--steps", 3, "--out", "run", status=0)
    assert f"test {metric} " in result.out and "predict run --user 1" in result.out
    assert f"<html" in (lockstep.folder / "run" / "report.html").read_text()
    saved = json.loads((lockstep.folder / "run" / "result.json").read_text())
    assert saved["data"] == "synthetic" and saved["test_accuracy"] is None
    assert 0 < saved[f"test_{metric}"] < 5
    if metric == "rmse":
        assert math.isclose(saved["test_rmse"] ** 2, saved["test_loss"], rel_tol=1e-5)
    evaluated = lockstep.run("eval", "run", "--json").json
    for key in (f"test_{metric}", "test_loss", "params_sha256"):
        assert evaluated[key] == saved[key]
    rows = [json.loads(row) for row in open(lockstep.folder / "run" / "metrics.jsonl")]
    assert rows[-1][f"val_{metric}"] == saved[f"test_{metric}"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_threads_workers_and_servers_change_no_bit(lockstep, recipe):
    write_ratings(lockstep.folder)
    sums = set()
    served = ["--kvstore", "ps_sync", "--threads", 1]
    for words in (["--threads", 1], ["--threads", 2], ["--workers", 2, "--threads", 1],
                  [*served, "--workers", 1, "--servers", 2],
                  [*served, "--workers", 3, "--servers", 1]):
        result = lockstep.run("train", recipe, "--data", "ratings.csv", *FEW, *words).json
        sums.add((result["params_sha256"], result[f"test_{RECIPES[recipe]}"]))
    assert len(sums) == 1


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_run_goes_on_to_the_same_bits(lockstep, recipe):
    write_ratings(lockstep.folder)
    words = ["--data", "ratings.csv", "--schedule", "constant", "--warm-up", 0, *FEW[2:]]
    whole = lockstep.run("train", recipe, *words, "--steps", 6).json
    lockstep.run("train", recipe, *words, "--steps", 3, "--out", "run", status=0)
    longer = lockstep.run("train", recipe, "--resume", "--steps", 6, "--out", "run", "--json").json
    assert longer["params_sha256"] == whole["params_sha256"]
    assert longer["resumed_from_step"] == 3
    with open(lockstep.folder / "ratings.csv", "a") as file:
        file.write("u999,1000,3,900000001\n")
    again = lockstep.run("train", recipe, "--resume", "--out", "run", status=1)
    assert "has other ratings than the run" in again.complaint


def test_the_forms_of_movielens_are_one(lockstep):
    write_ratings(lockstep.folder)
    write_ratings(lockstep.folder, "u.data", "\t", None)
    write_ratings(lockstep.folder, "ratings.dat", "::", None)
    sums = {lockstep.run("train", "recsys-mf", "--data", name, *FEW).json["params_sha256"]
            for name in ("ratings.csv", "u.data", "ratings.dat", ".")}
    assert len(sums) == 1
    late = lockstep.run("train", "recsys-mf", "--data", "u.data", "--split", "time", *FEW).json
    assert late["params_sha256"] not in sums


def test_a_user_gets_what_is_new_and_liked(lockstep):
    write_ratings(lockstep.folder)
    lockstep.run("train", "recsys-mf", "--data", "ratings.csv", "--threads", 1, "--epochs", 150,
                 "--global-batch", 64, "--quiet", "--out", "run", status=0)
    (lockstep.folder / "ratings.csv").rename(lockstep.folder / "gone.csv")
    answer = lockstep.run("predict", "run", "--user", "u7", "--top", 3, "--json").json
    rated = {line.split(",")[1] for line in open(lockstep.folder / "gone.csv")
             if line.startswith("u7,")}
    assert answer["user"] == "u7" and len(answer["items"]) == 3
    for row in answer["items"]:
        assert row["item"] not in rated and int(row["item"]) % 2 == 1 and row["score"] > 3.5
    table = lockstep.run("predict", "run", "--user", "u7", status=0).out.splitlines()
    assert table[0].split() == ["item", "rating"] and len(table) == 11
    assert table[1].split()[0] == answer["items"][0]["item"]
    every = lockstep.run("predict", "run", "--user", "u7", "--all", "--top", 100, "--json").json
    assert len(every["items"]) == 40

    (lockstep.folder / "pairs.txt").write_text(f"u7 {every['items'][5]['item']}\nu8 1000\n")
    pairs = [json.loads(line) for line in
             lockstep.run("predict", "run", "pairs.txt", "--json", status=0).out.splitlines()]
    assert pairs[0]["score"] == pytest.approx(every["items"][5]["score"], rel=1e-5)
    assert (pairs[1]["user"], pairs[1]["item"]) == ("u8", "1000")

    unknown = lockstep.run("predict", "run", "--user", "42", status=1).complaint
    assert unknown == "lockstep: user '42' is none of the 60 that the run was trained on"
    (lockstep.folder / "pairs.txt").write_text("u7,1000\nu7,7\n")
    bad = lockstep.run("predict", "run", "pairs.txt", status=1).complaint
    assert bad == "lockstep: pairs.txt:2: item '7' was never trained on"
    nothing = lockstep.run("predict", "run", status=2).complaint
    assert "give --user ID, or files of users and items" in nothing


@pytest.mark.parametrize("text,complaint", [
    ("", "has no ratings, expected lines of user, item, rating and perhaps a time"),
    ("1\n2\n", ":1: has 1 column, expected user, item, rating and perhaps a time"),
    ("1,2,3\n1,3,bad\n", ":2: the rating is 'bad', expected a number"),
    ("1,2,3\n1,3,nan\n", ":2: the rating is 'nan', expected a number"),
    ("1,2,3\n1,2,4\n", ":2: user 1 has rated item 2 before, in line 1"),
])
def test_bad_ratings_are_one_line(lockstep, text, complaint):
    (lockstep.folder / "r.csv").write_text(text)
    outcome = lockstep.run("train", "recsys-mf", "--data", "r.csv", status=1)
    assert outcome.complaint.endswith("r.csv" + (complaint if complaint[0] == ":" else ": " + complaint))
    assert not (lockstep.folder / "runs").exists()


def test_bad_lines_may_be_left_out(lockstep):
    write_ratings(lockstep.folder)
    good = lockstep.run("train", "recsys-mf", "--data", "ratings.csv", *FEW).json
    with open(lockstep.folder / "ratings.csv", "a") as file:
        file.write("u1,1000,bad,1\n")
    again = lockstep.run("train", "recsys-mf", "--data", "ratings.csv", "--skip-bad", *FEW).json
    assert again["params_sha256"] == good["params_sha256"]


def test_other_recipes_do_not_recommend(lockstep):
    lockstep.train("mnist-mlp", "--steps", 1, "--global-batch", 8, "--out", "run")
    outcome = lockstep.run("predict", "run", "--user", "1", status=2)
    assert "mnist-mlp does not recommend" in outcome.complaint
    outcome = lockstep.run("train", "mnist-mlp", "--split", "time", status=2)
    assert "--split time: mnist-mlp has no ratings" in outcome.complaint
