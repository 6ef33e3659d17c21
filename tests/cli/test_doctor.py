# SPDX-License-Identifier: Apache-2.0
"""lockstep doctor: on this machine, on hosts behind a stand-in for ssh, and with one bad thing each."""
import json
import os
import subprocess

import pytest

from conftest import PROGRAM

# Reaches "hosts" that are this machine: options, the host's name, a command for its shell. One of
# them cannot be reached, and one has a lockstep of its own.
SSH = """#!/bin/sh
while [ $# -gt 2 ]; do shift; done
case $1 in
  gone) echo "ssh: connect to host gone port 22: No route to host" >&2; exit 255 ;;
  silent*) exec sleep 600 ;;
  old) exec %s launch --agent ;;
esac
exec sh -c "$2"
"""


def write_program(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def ssh(tmp_path):
    return write_program(tmp_path / "reach", SSH % (tmp_path / "old_lockstep"))


def report_of(outcome, status):
    assert outcome.status == status, outcome.err + outcome.out
    return json.loads(outcome.out)


def fatal_of(report):
    return [one for one in report["problems"] if one["fatal"]]


def test_this_machine_is_examined_as_two_workers(lockstep):
    report = report_of(lockstep.run("doctor", "--json"), 0)
    assert report["ok"] and not fatal_of(report)
    assert [member["rank"] for member in report["members"]] == [0, 1]
    own = report["members"][0]
    assert own["cores"] >= 1 and own["memory_free"] > 0 and own["open_files"] > 0
    assert own["interface"] == "lo" and own["address"] == "127.0.0.1"
    assert own["instructions"].split()[0] == "sse4" and own["bad_instructions"] == ""
    (link,) = report["links"]
    assert (link["from"], link["to"]) == (0, 1)
    assert link["latency_s"] > 0 and link["bandwidth_bytes_per_s"] > 0
    assert link["bandwidth_back_bytes_per_s"] > 0


def test_a_member_that_dies_after_the_report_is_a_failure(lockstep):
    dying = write_program(lockstep.folder / "dying",
                          f'#!/bin/sh\n{PROGRAM} "$@"\ntest $LOCKSTEP_RANK = 0 || kill -9 $$\n')
    outcome = lockstep.run("doctor", "--json", "--remote-program", dying, status=1)
    assert json.loads(outcome.out)["ok"]
    assert outcome.complaint == ("lockstep: worker 1 was ended by signal 9 (Killed); the job is over")


def test_people_get_a_summary_first_then_tables(lockstep):
    outcome = lockstep.run("doctor", "--workers", 3, status=0)
    lines = outcome.out.splitlines()
    assert lines[0] == lines[-1] == "Ready for a job of 3 workers."
    assert any(line.startswith("rank  host") for line in lines)
    assert any(line.split() == ["from", "to", "by", "latency", "there", "back"] for line in lines)
    assert outcome.err == ""


def test_people_get_the_network_between_hosts_in_a_line(lockstep, ssh):
    outcome = lockstep.run("doctor", "--hosts", "one,two,three", "--ssh", ssh, status=0)
    assert outcome.out.splitlines()[1].startswith("Between 3 hosts: ")
    assert any(line.split() == ["host", "sends", "at", "least", "receives", "at", "least"]
               for line in outcome.out.splitlines())


def test_two_hosts_are_measured_over_the_network_between_them(lockstep, ssh):
    report = report_of(lockstep.run("doctor", "--json", "--hosts", "one:2,two", "--ssh", ssh), 0)
    assert [member["host"] for member in report["members"]] == ["one", "one", "two"]
    assert len(report["links"]) == 3
    assert report["network"]["hosts"] == 2 and report["network"]["rated_links"] == 2
    assert [one["host"] for one in report["hosts"]] == ["one", "two"]


def test_silent_hosts_are_named_together(lockstep, ssh):
    report = report_of(lockstep.run("doctor", "--json", "--hosts", "one,silent1,silent2", "--ssh", ssh,
                                    "--timeout", 5), 1)
    (problem,) = fatal_of(report)
    assert "silent1, silent2: did not answer within" in problem["what"]
    assert [member["host"] for member in report["members"]] == ["one"]


def test_the_host_options_of_launch_are_doctors_too(lockstep):
    seen = write_program(lockstep.folder / "seen",
                         f'#!/bin/sh\necho "$PWD $A $LOCKSTEP_COORDINATOR" > {lockstep.folder}/seen_$LOCKSTEP_RANK\n'
                         f'exec {PROGRAM} "$@"\n')
    elsewhere = lockstep.folder / "elsewhere"
    elsewhere.mkdir()
    lockstep.run("doctor", "--remote-program", seen, "--folder", elsewhere, "--env", "A=b",
                 "--coordinator", "127.0.0.3", status=0)
    for rank in (0, 1):
        folder, value, place = (lockstep.folder / f"seen_{rank}").read_text().split()
        assert (folder, value) == (str(elsewhere), "b") and place.startswith("127.0.0.3:")


def test_more_workers_than_slots_are_wrong_usage(lockstep, ssh):
    outcome = lockstep.run("doctor", "--hosts", "one,two", "--ssh", ssh, "--workers", 3, status=2)
    assert "3 workers, the hosts take 2" in outcome.complaint


def test_a_host_that_cannot_be_reached_is_named_and_the_rest_examined(lockstep, ssh):
    report = report_of(lockstep.run("doctor", "--json", "--hosts", "one:2,gone", "--ssh", ssh), 1)
    (problem,) = fatal_of(report)
    assert "gone" in problem["what"] and "No route to host" in problem["what"]
    assert problem["advice"] == "try it by hand: ssh gone lockstep --version"
    assert [member["host"] for member in report["members"]] == ["one", "one"]


def test_no_host_at_all_is_a_report_too(lockstep, ssh):
    outcome = lockstep.run("doctor", "--hosts", "gone", "--ssh", ssh)
    assert outcome.status == 1
    assert "problem: launch: gone: " in outcome.out
    assert outcome.out.startswith("A job would fail: 1 problem to cure first.\n")


def test_another_version_is_named(lockstep, ssh):
    version = lockstep.run("--version").out.split()[1]
    other = version[:-1] + str((int(version[-1]) + 1) % 10)
    program = open(PROGRAM, "rb").read().replace(version.encode() + b"\0", other.encode() + b"\0")
    (lockstep.folder / "old_lockstep").write_bytes(program)
    (lockstep.folder / "old_lockstep").chmod(0o755)
    report = report_of(lockstep.run("doctor", "--json", "--hosts", "one,old", "--ssh", ssh), 1)
    (problem,) = fatal_of(report)
    assert "old: has lockstep " + other in problem["what"]
    assert problem["advice"] == "install the same version on all hosts"


def test_small_shared_memory_is_fatal(lockstep):
    if os.geteuid() != 0:
        pytest.skip("a mount of its own needs root")
    words = f"mount -t tmpfs -o size=1m tmpfs /dev/shm && exec {PROGRAM} doctor --json"
    try:
        process = subprocess.run(["unshare", "--mount", "sh", "-c", words], capture_output=True,
                                 text=True, timeout=120)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if "unshare" in process.stderr or "mount:" in process.stderr:
        pytest.skip("no mount namespaces here: " + process.stderr)
    assert process.returncode == 1, process.stderr
    report = json.loads(process.stdout)
    problem = next(one for one in fatal_of(report) if "/dev/shm has 1 MB free" in one["what"])
    assert "--transport tcp" in problem["advice"]


def test_few_open_files_are_fatal(lockstep):
    process = subprocess.run(["sh", "-c", f"ulimit -n 48; exec {PROGRAM} doctor --json"],
                             capture_output=True, text=True, timeout=120)
    assert process.returncode == 1, process.stderr
    assert any("may open 48 files" in one["what"]
               for one in fatal_of(json.loads(process.stdout)))


def test_hosts_that_make_no_sense_are_wrong_usage(lockstep):
    outcome = lockstep.run("doctor", "--hosts", "a:zero", status=2)
    assert "a:zero" in outcome.complaint


def test_an_interface_that_does_not_exist_is_named(lockstep):
    outcome = lockstep.run("doctor", "--interface", "nosuch0")
    assert outcome.status == 1
    assert "nosuch0" in outcome.out
