# SPDX-License-Identifier: Apache-2.0
"""Requests that servers cannot answer, to real server processes: the caller is told the key and the
server in one line, and everybody is served on (tests/roles/bad_requests.cpp looks after each)."""
import re

import pytest
from conftest import BAD_REQUESTS, Lockstep

PLACE = r"server {}: \S+:\d+: server {}: "


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a worker was told, by what it did."""
    job = Lockstep(tmp_path_factory.mktemp("job"))
    outcome = job.run("launch", "-n", 2, "-s", 2, "--", BAD_REQUESTS, status=0, timeout=120)
    lines = outcome.out.splitlines()
    assert lines[-1] == "the end" and "lockstep:" not in outcome.err
    return dict(line.split(": ", 1) for line in lines[:-1])


@pytest.mark.parametrize("what,message", [
    ("pull of an unknown key", "pull: there is no key 'nobody's', expected init() before"),
    ("push of an unknown key", "push: there is no key 'nobody's', expected init() before"),
    ("push of another shape", "push: key 'large': got shape [3], expected [1001, 1001]"),
    ("push of another type",
     "push: key 'large': got int64[1001, 1001], expected float32, float16 or bfloat16"),
    ("push of a row that is not there",
     "row_sparse_push: key 'large': there is no row 1001, the value has 1001"),
    ("pull of a row that is not there",
     "row_sparse_pull: key 'large': there is no row -1, the value has 1001"),
    ("a server of a number that is not there", "serve: server 7 of 2, expected 0 to 1"),
    ("one key", "6"),
])
def test_a_bad_call_is_told_before_anything_is_sent(told, what, message):
    assert told[what] == message


@pytest.mark.parametrize("what,message", [
    ("unknown key", "there is no key j here, expected init\\(\\) before"),
    ("unknown store", "there is no store 99"),
    ("unknown worker", "worker 9, the job has 2 of them"),
    ("worker that has not joined", "key k: worker 1 takes no part in the store"),
    ("other value", "init: key k is there already, with another value"),
    ("other shape", "init: key k is there already, with another value"),
    ("too few floats", "message: 20 bytes, expected 6 floats"),
    ("no floats", "key k: 0 values"),
    ("push out of turn", "key k: push 7 of worker 0, expected 1"),
    ("unknown code", "compression '3bit': .*"),
    ("unknown row", "key k: there is no row 2, 2 are here"),
    ("more than the job has room for", "key huge would take \\d+ bytes, and \\d+ of \\d+ are taken"),
    ("table that nobody made", "there is no table ''"),
])
@pytest.mark.parametrize("server", [0, 1])
def test_a_wrong_value_is_refused_by_the_server_that_is_asked(told, what, message, server):
    text = told[f"{what} at {server}"]
    assert re.fullmatch("request of key k at " + PLACE.format(server, server) + message, text), text


@pytest.mark.parametrize("what,message", [
    ("unknown kind", "message: there is no request of kind 99"),
    ("no message", "message: 0 bytes are left, expected 8"),
    ("truncated message", "message: 7 bytes are left, expected 8"),
    ("message with more behind it", "message: 1 bytes too many"),
    ("text that is no message", "message: \\d+ bytes are left, expected \\d+"),
    ("message that lies about a length", "message: \\d+ bytes are left, expected 4294967295"),
])
def test_what_is_no_message_of_ours_is_refused(told, what, message):
    text = told[what]
    assert re.fullmatch("request of key k at " + PLACE.format(0, 0) + message, text), text


def test_a_list_of_servers_that_does_not_match_and_a_wrong_secret_are_told(told):
    assert told["a server more than there are"] == \
        "registry: 'server/2' was not put within 1.0 s by any member"
    assert re.fullmatch(r"kvstore: server 0: \S+:\d+: refused: the job's secret is not the one given "
                        "here", told["another secret"]), told["another secret"]


@pytest.mark.parametrize("what", ["noise", "http", "nothing"])
def test_strangers_keep_nobody_from_being_served(told, what):
    assert told[f"{what} from strangers"] == "they serve on"
