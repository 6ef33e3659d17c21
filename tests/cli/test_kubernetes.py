# SPDX-License-Identifier: Apache-2.0
"""lockstep launch --kubernetes: a manifest that says what is meant, and pods that find each other."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest

from conftest import PROGRAM, ROLES, SHOW_ROLE
from jobs import checkpoints_of, steps_done, wait_until

PROGRAM_WORDS = ["lockstep", "train", "mnist-lenet", "--out", "/data/run 1 $(HOME)"]
TRAIN = ["train", "mnist-mlp", "--data", "synthetic", "--quiet", "--no-report", "--json",
         "--threads", "1", "--global-batch", "24"]
GOOD = ["--name", "digits", "--image", "registry.example/lockstep:1", "--workers", 3]


def items_of(text):
    whole = json.loads(text)
    assert (whole["apiVersion"], whole["kind"]) == ("v1", "List")
    return whole["items"]


def manifest(lockstep, *words):
    outcome = lockstep.run("launch", "--kubernetes", *words, "--", *PROGRAM_WORDS, status=0)
    return items_of(outcome.out)


def test_the_manifest_is_an_indexed_job_and_a_headless_service(lockstep):
    service, job = manifest(lockstep, *GOOD, "--namespace", "ml", "--cpus", "4", "--memory", "8Gi")
    assert (service["apiVersion"], service["kind"]) == ("v1", "Service")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    for one in (service, job):
        assert one["metadata"]["name"] == "digits" and one["metadata"]["namespace"] == "ml"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed" and "backoffLimit" not in spec
    assert spec["completions"] == spec["parallelism"] == 3
    pod = spec["template"]
    assert pod["metadata"]["labels"].items() >= service["spec"]["selector"].items()
    assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    assert pod["spec"]["restartPolicy"] == "Never"
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "registry.example/lockstep:1"
    assert container["command"] == [*PROGRAM_WORDS[:-1], "/data/run 1 $$(HOME)"]
    limits = {"cpu": "4", "memory": "8Gi"}
    assert container["resources"] == {"requests": limits, "limits": limits}


def test_pods_mount_a_claim_and_have_enough_shared_memory(lockstep):
    for claim, path in [("runs", "/data"), ("runs:/mnt/all", "/mnt/all")]:
        _, job = manifest(lockstep, *GOOD, "--volume-claim", claim)
        pod = job["spec"]["template"]["spec"]
        assert pod["volumes"] == [
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "runs"}}]
        (container,) = pod["containers"]
        assert container["volumeMounts"] == [{"name": "shared-memory", "mountPath": "/dev/shm"},
                                             {"name": "tmp", "mountPath": "/tmp"},
                                             {"name": "data", "mountPath": path}]
    _, job = manifest(lockstep, *GOOD)
    assert [one["name"] for one in job["spec"]["template"]["spec"]["volumes"]] == [
        "shared-memory", "tmp"]


def test_an_administrator_accepts_the_pods(lockstep):
    """The restricted profile of the pod security standards, and what policies ask for besides."""
    _, job = manifest(lockstep, *GOOD)
    pod = job["spec"]["template"]["spec"]
    own = pod["securityContext"]
    assert own["runAsNonRoot"] is True and own["runAsUser"] == own["fsGroup"] == 10001
    assert own["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False,
                                            "capabilities": {"drop": ["ALL"]}}
    assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
    usual = {"cpu": "2", "memory": "4Gi"}
    assert container["resources"] == {"requests": usual, "limits": usual}
    assert [(one["name"], one["containerPort"]) for one in container["ports"]] == [
        ("coordinator", 29400), ("coordinator-data", 29401)]
    (spread,) = pod["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == {"lockstep-job": "digits"}
    assert "tolerations" not in pod
    spec = job["spec"]
    assert (spec["ttlSecondsAfterFinished"], spec["activeDeadlineSeconds"]) == (86400, 604800)


def test_pods_may_go_and_come_where_the_others_go_on_without_them(lockstep):
    _, job = manifest(lockstep, *GOOD)
    spec = job["spec"]
    assert spec["backoffLimitPerIndex"] == 6 and spec["template"]["spec"]["restartPolicy"] == "Never"
    wrong, taken = spec["podFailurePolicy"]["rules"]
    assert (wrong["action"], wrong["onExitCodes"]["values"]) == ("FailJob", [2])
    assert (taken["action"], taken["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
    assert spec["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}


@pytest.mark.parametrize("words", [["train", "mnist-mlp", "--fail-fast"],
                                   ["train", "mnist-mlp", "--shard-state", "1"], ["doctor"]])
def test_a_pod_that_the_others_cannot_do_without_ends_the_job(lockstep, words):
    out = lockstep.run("launch", "--kubernetes", *GOOD, "--", "lockstep", *words, status=0).out
    spec = items_of(out)[1]["spec"]
    assert spec["backoffLimit"] == 0 and "successPolicy" not in spec


def test_what_an_administrator_asks_for_is_in_the_manifest(lockstep):
    train = ["lockstep", "train", "mnist-lenet", "--resume", "auto", "--out", "/data/run"]
    out = lockstep.run("launch", "--kubernetes", *GOOD, "--user", 2000, "--ttl", 60, "--deadline", 3600,
                       "--retries", 2, "--shm-size", "256Mi", "--ports", "5000-5100",
                       "--toleration", "gpu=no:NoSchedule", "--toleration", "spot", "--toleration",
                       "a/b:NoExecute", "--env", "HOME=/home/me", "--", *train, status=0).out
    _, job = items_of(out)
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert (spec["backoffLimitPerIndex"], spec["ttlSecondsAfterFinished"],
            spec["activeDeadlineSeconds"]) == (2, 60, 3600)
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["runAsGroup"] == 2000
    assert pod["volumes"][0]["emptyDir"]["sizeLimit"] == "256Mi"
    assert pod["tolerations"] == [
        {"key": "gpu", "operator": "Equal", "value": "no", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
        {"key": "a/b", "operator": "Exists", "effect": "NoExecute"}]
    variables = variables_of(job)
    assert (variables["LOCKSTEP_PORTS"], variables["HOME"]) == ("5000-5100", "/home/me")


def test_a_job_that_would_start_anew_is_not_tried_again(lockstep):
    train = ["lockstep", "train", "mnist-lenet", "--out", "/data/run"]
    outcome = lockstep.run("launch", "--kubernetes", *GOOD, "--retries", 2, "--", *train, status=2)
    assert "--retries 2: expected lockstep train --resume auto" in outcome.complaint


def test_a_reader_of_yaml_takes_it_too(lockstep):
    yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed")
    outcome = lockstep.run("launch", "--kubernetes", "--name", "true", "--image", "x", "--workers", 2,
                           "--namespace", "null", "--env", "A=no \U0001f600", "--", "true", status=0)
    assert yaml.safe_load(outcome.out) == json.loads(outcome.out)
    service, job = items_of(outcome.out)
    for one in (service, job):
        assert one["metadata"] == {"name": "true", "namespace": "null",
                                   "labels": {"lockstep-job": "true"}}
    assert job["spec"]["template"]["spec"]["subdomain"] == "true"


def variables_of(job):
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


def test_pods_hear_where_the_first_is_but_the_secret_is_only_named(lockstep):
    service, job = manifest(lockstep, *GOOD, "--transport", "zmq")
    port = service["spec"]["ports"][0]["port"]
    assert variables_of(job) == {
        "HOME": "/tmp",
        "LOCKSTEP_PORTS": "29402-29499",
        "LOCKSTEP_WORKERS": "3",
        "LOCKSTEP_COORDINATOR": f"digits-0.digits:{port}",
        "LOCKSTEP_TRANSPORT": "zmq",
        "LOCKSTEP_SECRET": {"secretKeyRef": {"name": "digits-secret", "key": "secret"}}}


def as_kubernetes_expands(text):
    """$$ is $, whatever follows; $(NAME) would be a variable's value."""
    return re.sub(r"\$(\$|\([^)]*\))", lambda found: "$" if found[1] == "$" else "EXPANDED", text)


@pytest.mark.parametrize("value", [
    "b", "", "a=b", 'say "hi" \\ there', "two\nlines\tand a tab", "$(HOME)", "$HOME $$ $", "$é", "yes",
    "007", "null", "- {a: [b]} # c", "'", "%20 & *x", "ü 漢 \U0001f600", "\x7f \x85 \u2028 \ufeff"])
def test_a_variable_reaches_the_pods_as_it_is(lockstep, value):
    _, job = manifest(lockstep, *GOOD, "--env", "A=" + value, "--env=B=2")
    variables = variables_of(job)
    assert as_kubernetes_expands(variables["A"]) == value
    assert variables["B"] == "2" and variables["LOCKSTEP_WORKERS"] == "3"


def test_a_word_of_the_program_reaches_the_pods_as_it_is(lockstep):
    words = ["sh", "-c", "echo $$ $(date) $HOME '$$(x)' \"\u2028\""]
    outcome = lockstep.run("launch", "--kubernetes", *GOOD, "--", *words, status=0)
    _, job = items_of(outcome.out)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert [as_kubernetes_expands(word) for word in container["command"]] == words


def test_a_variable_of_ours_and_the_last_of_two_count(lockstep, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_TEST_OURS", "from here")
    _, job = manifest(lockstep, *GOOD, "--env", "LOCKSTEP_TEST_OURS", "--env", "A=1", "--env", "A=2")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert [one["value"] for one in container["env"] if one["name"] == "A"] == ["2"]
    assert variables_of(job)["LOCKSTEP_TEST_OURS"] == "from here"


def test_folder_and_timeout_are_in_the_manifest(lockstep):
    _, job = manifest(lockstep, *GOOD, "--folder", "/data/work here", "--timeout", 90.5)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["workingDir"] == "/data/work here"
    assert variables_of(job)["LOCKSTEP_TIMEOUT"] == "91"


KUBECTL = shutil.which("kubectl")
NASTY = ["--env", "A=- {a: [b]} # $(c) \u2028 \x85 \U0001f600", "--env", "B=007", "--env", "C="]
FULL = [*GOOD, "--namespace", "ml", "--cpus", "2", "--memory", "8Gi", "--volume-claim", "runs",
        "--folder", "/data/work here", "--timeout", 90, "--transport", "tcp", "--toleration",
        "gpu=no:NoSchedule", "--shm-size", "2Gi", *NASTY]


def through_kubectl(text, *words):
    """What kubectl prints of a manifest after a change that it makes by itself, without a cluster."""
    verb, change = words[:-1], words[-1]
    outcome = subprocess.run([KUBECTL, *verb, "--local", "--dry-run=client", "-o", "json", "-f", "-", change],
                             input=text, capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


def kubectl_minor():
    version = json.loads(subprocess.run([KUBECTL, "version", "--client", "-o", "json"],
                                        capture_output=True, text=True, timeout=60).stdout)
    return int(re.match(r"\d+", version["clientVersion"]["minor"])[0])


def lost(ours, theirs, path=""):
    """The paths of what is in ours and not, or differently, in theirs. An empty text may be left out."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [one for key, value in ours.items() for one in lost(value, theirs.get(key), f"{path}.{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [one for k, value in enumerate(ours) for one in lost(value, theirs[k], f"{path}[{k}]")]
    return [] if ours == theirs or (ours, theirs) == ("", None) else [path]


@pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed")
def test_kubectl_reads_the_whole_manifest(lockstep):
    text = lockstep.run("launch", "--kubernetes", *FULL, "--", *PROGRAM_WORDS, status=0).out
    read, at = [], 0
    answer = through_kubectl(text, "label", "seen=yes")
    while answer[at:].strip():
        item, end = json.JSONDecoder().raw_decode(answer[at:].lstrip())
        at = len(answer) - len(answer[at:].lstrip()) + end
        assert item["metadata"]["labels"].pop("seen") == "yes"
        read.append(item)
    assert read == list(items_of(text))


# Read into kubectl's own types, a field that Kubernetes does not have is dropped.
@pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed")
def test_kubectl_knows_every_field(lockstep):
    service, job = manifest(lockstep, *FULL)
    read = through_kubectl(json.dumps(service), "set", "selector", "lockstep-job=digits")
    assert lost(service, json.loads(read)) == []
    image = job["spec"]["template"]["spec"]["containers"][0]["image"]
    job["spec"]["template"]["spec"]["containers"][0]["image"] = "another"
    read = json.loads(through_kubectl(json.dumps(job), "set", "image", f"worker={image}"))
    job["spec"]["template"]["spec"]["containers"][0]["image"] = image
    assert lost(job, read) == ([] if kubectl_minor() >= 21 else [".spec.completionMode"])


def test_how_the_secret_is_made_and_where_results_are_is_said_beside_the_manifest(lockstep):
    outcome = lockstep.run("launch", "--kubernetes", *GOOD, "--namespace", "ml", "--", "true", status=0)
    assert "create secret generic digits-secret --namespace ml" in outcome.err
    assert ("job-completion-index=0,lockstep-role=worker,lockstep-job=digits --namespace ml"
            in outcome.err)


def free_endpoint():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


class Pods:
    """Three, whose run's folder is pods."""

    def __init__(self, lockstep, *words):
        self.folder, self.words = lockstep.folder, words
        self.variables = {key: value for key, value in
                          variables_of(manifest(lockstep, *GOOD)[1]).items()
                          if isinstance(value, str)}
        self.variables.update(LOCKSTEP_COORDINATOR=free_endpoint(), LOCKSTEP_SECRET="hush")

    def start(self, index):
        return subprocess.Popen([PROGRAM, *self.words, "--out", "pods"], cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**os.environ, **self.variables,
                                     "JOB_COMPLETION_INDEX": str(index)})

    def start_all(self):
        """By rank."""
        return [self.start(index) for index in (2, 1, 0)][::-1]


def start_pods(lockstep, *words):
    return Pods(lockstep, *words).start_all()


def test_a_pod_that_is_lost_is_replaced_and_the_bits_are_the_same(lockstep):
    words = [*TRAIN, "--steps", "400"]
    alone = lockstep.run(*words, "--out", "alone").json
    job = Pods(lockstep, *words, "--min-workers", "3")  # the others wait for it
    pods = job.start_all()
    run = lockstep.folder / "pods"
    wait_until(lambda: steps_done(run) >= 3 or any(pod.poll() is not None for pod in pods))
    pods[1].kill()
    pods[1].communicate()
    pods[1] = job.start(1)
    ends = [pod.communicate(timeout=120) for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0, 0], ends
    result = json.loads(ends[0][0].strip().splitlines()[-1])
    assert result["params_sha256"] == alone["params_sha256"] and result["steps_lost"] == 0
    assert "worker 1 is lost" in ends[0][1] and "3 workers go on" in ends[0][1], ends[0][1]


def test_a_pod_that_is_asked_to_go_leaves_and_is_to_be_replaced_and_the_first_stops_the_job(lockstep):
    pods = start_pods(lockstep, *TRAIN, "--steps", "1000000")
    run = lockstep.folder / "pods"
    wait_until(lambda: steps_done(run) >= 3 or any(pod.poll() is not None for pod in pods))
    pods[2].send_signal(signal.SIGTERM)
    pods[2].communicate(timeout=60)
    assert pods[2].returncode == 143
    done = steps_done(run)
    wait_until(lambda: steps_done(run) > done + 5 or pods[0].poll() is not None)
    first = lockstep.run("leave", "pods", "--worker", 0)
    assert first.status == 1 and "worker 0 coordinates the job" in first.complaint
    pods[0].send_signal(signal.SIGTERM)
    ends = [pod.communicate(timeout=60) for pod in pods[:2]]
    assert [pod.returncode for pod in pods[:2]] == [143, 143], ends
    assert checkpoints_of(run)[-1:] == [json.loads(ends[0][0].splitlines()[-1])["steps"]]


def test_processes_with_a_pods_environment_are_a_job(lockstep):
    words = [*TRAIN, "--steps", "3"]
    alone = lockstep.run(*words, "--out", "alone").json
    pods = start_pods(lockstep, *words)
    ends = [pod.communicate(timeout=120) for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0, 0], ends
    result = json.loads(ends[0][0].strip().splitlines()[-1])
    assert result["workers"] == 3
    assert result["params_sha256"] == alone["params_sha256"]


def with_a_server(lockstep):
    return items_of(lockstep.run("launch", "--kubernetes", "--name", "digits", "--image", "i",
                                 "--workers", 2, "--servers", 1, "--", *PROGRAM_WORDS, "--kvstore",
                                 "ps_sync", status=0).out)


def test_servers_are_a_set_of_their_own(lockstep):
    service, workers, servers = with_a_server(lockstep)
    assert (workers["metadata"]["name"], servers["metadata"]["name"]) == ("digits", "digits-server")
    assert [job["spec"]["completions"] for job in (workers, servers)] == [2, 1]
    for job, role in ((workers, "worker"), (servers, "server")):
        pod = job["spec"]["template"]
        assert pod["metadata"]["labels"].items() >= service["spec"]["selector"].items()
        assert pod["metadata"]["labels"]["lockstep-role"] == role
        assert pod["spec"]["containers"][0]["name"] == role
        assert variables_of(job)["LOCKSTEP_COORDINATOR"].startswith("digits-0.digits:")
    assert variables_of(servers)["LOCKSTEP_ROLE"] == "server"


def test_a_server_that_others_can_do_without_may_fail(lockstep):
    train = [PROGRAM, "train", "mnist-mlp", "--kvstore", "ps_sync", "--replicas"]
    for replicas, limit in ((1, "backoffLimit"), (2, "backoffLimitPerIndex")):
        out = lockstep.run("launch", "--kubernetes", "--name", "digits", "--image", "i", "-n", 2,
                           "-s", 2, "--", *train, replicas, status=0).out
        _, workers, servers = json.loads(out)["items"]
        assert workers["spec"]["backoffLimitPerIndex"] == 6 and servers["spec"][limit] == 0
        assert ("backoffLimit" in servers["spec"]) == (replicas == 1)


def start_pods_with_a_server(lockstep, *command):
    """The server's, the second worker's, the first worker's."""
    _, workers, servers = with_a_server(lockstep)
    at = dict(LOCKSTEP_COORDINATOR=free_endpoint(), LOCKSTEP_SECRET="hush")
    pods = []
    for job, index in ((servers, 0), (workers, 1), (workers, 0)):
        own = {key: value for key, value in variables_of(job).items() if isinstance(value, str)}
        pods.append(subprocess.Popen(list(map(str, command)), text=True, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, cwd=lockstep.folder,
                                     env={**os.environ, **own, **at,
                                          "JOB_COMPLETION_INDEX": str(index)}))
    return pods


def test_processes_with_the_environment_of_servers_pods_are_servers(lockstep):
    pods = start_pods_with_a_server(lockstep, SHOW_ROLE)
    assert sorted(pod.communicate(timeout=120)[0].strip() for pod in pods) == ROLES


def test_a_server_in_a_pod_keeps_the_parameters_and_ends_with_the_workers(lockstep):
    alone = lockstep.run(*TRAIN, "--steps", 3, "--out", "alone").json
    pods = start_pods_with_a_server(lockstep, PROGRAM, *TRAIN, "--steps", 3, "--kvstore", "ps_sync",
                                    "--out", "pods")
    ends = [pod.communicate(timeout=120) for pod in pods]
    assert [pod.returncode for pod in pods] == [0] * 3, ends
    result = json.loads(ends[2][0].strip().splitlines()[-1])
    assert (result["servers"], result["params_sha256"]) == (1, alone["params_sha256"])


def test_pods_with_a_server_that_are_stopped_save_what_it_keeps(lockstep):
    pods = start_pods_with_a_server(lockstep, PROGRAM, *TRAIN, "--steps", 100000, "--kvstore",
                                    "ps_sync", "--out", "pods")
    run = lockstep.folder / "pods"
    wait_until(lambda: steps_done(run) >= 3 or any(pod.poll() is not None for pod in pods))
    for pod in pods:
        pod.send_signal(signal.SIGTERM)
    ends = [pod.communicate(timeout=60) for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 143, 143], ends
    result = json.loads(ends[2][0].strip().splitlines()[-1])
    assert result["stopped"] is True and checkpoints_of(run)[-1:] == [result["steps"]]


@pytest.mark.parametrize("asked, how, status", [
    ([0, 1, 2], signal.SIGTERM, 143), ([0], signal.SIGTERM, 143),
    ([0, 1, 2], signal.SIGINT, 130), ([2], signal.SIGINT, 130)])
def test_pods_that_are_stopped_finish_their_step_and_keep_it(lockstep, asked, how, status):
    pods = start_pods(lockstep, *TRAIN, "--steps", "100000")
    run = lockstep.folder / "pods"
    wait_until(lambda: steps_done(run) >= 3 or any(pod.poll() is not None for pod in pods))
    for rank in asked:
        pods[rank].send_signal(how)
    ends = [pod.communicate(timeout=60) for pod in pods]
    assert [pod.returncode for pod in pods] == [status] * 3, ends
    result = json.loads(ends[0][0].strip().splitlines()[-1])
    assert result["stopped"] is True and checkpoints_of(run)[-1:] == [result["steps"]]
    assert f"stopped after step {result['steps']}; to go on: " in ends[0][1]


def test_a_pod_that_waits_for_others_ends_at_once(lockstep):
    variables = {"LOCKSTEP_WORKERS": "2", "JOB_COMPLETION_INDEX": "0", "LOCKSTEP_SECRET": "hush",
                 "LOCKSTEP_COORDINATOR": free_endpoint()}
    pod = subprocess.Popen([PROGRAM, *TRAIN, "--out", "pods"], cwd=lockstep.folder,
                           stderr=subprocess.DEVNULL, env={**os.environ, **variables})
    wait_until(lambda: len(os.listdir(f"/proc/{pod.pid}/task")) > 2)
    pod.send_signal(signal.SIGTERM)
    assert pod.wait(timeout=5) == 143
    assert not (lockstep.folder / "pods").exists()


@pytest.mark.parametrize("words, complaint", [
    (["--image", "x", "--workers", 2], "--name: '', expected"),
    (["--name", "Digits", "--image", "x", "--workers", 2], "--name: 'Digits', expected"),
    (["--name", "d" * 62, "--image", "x", "--workers", 2], "has 62 characters, expected at most 61"),
    (["--name", "d", "--workers", 2], "--image: '', expected"),
    (["--name", "d", "--image", "x"], "--kubernetes: needs --workers N"),
    ([*GOOD, "--cpus", "many"], "--cpus: 'many', expected a quantity"),
    ([*GOOD, "--shm-size", "much"], "--shm-size: 'much', expected a quantity"),
    ([*GOOD, "--toleration", "a b"], "--toleration: 'a b', expected KEY"),
    ([*GOOD, "--toleration", "a:Never"], "--toleration: 'a:Never', expected KEY"),
    ([*GOOD, "--user", "0"], "--user"),
    ([*GOOD, "--memory", "8 GB"], "--memory: '8 GB', expected a quantity"),
    ([*GOOD, "--namespace", "a/b"], "--namespace: 'a/b', expected"),
    ([*GOOD, "--volume-claim", "a..b"], "--volume-claim: 'a..b', expected a claim's name"),
    ([*GOOD, "--volume-claim", "a" * 254], "the name: has 254 characters, expected at most 253"),
    ([*GOOD, "--volume-claim", "a" * 100000], "has 100000 characters, expected at most 1024"),
    (["--name", "d", "--workers", 2, "--image", "a" * 100000], "--image: has 100000 characters, expected at most 1024"),
    ([*GOOD, "--volume-claim", "runs:/dev/shm"], "'/dev/shm' is the pod's own, expected another"),
    ([*GOOD, "--volume-claim", "runs:/dev//shm/"], "is the pod's own, expected another"),
    ([*GOOD, "--volume-claim", "runs:data"], "--volume-claim: 'runs:data', expected a claim's name"),
    ([*GOOD, "--hosts", "a,b"], "--hosts"),
    ([*GOOD, "--coordinator", "a"], "--kubernetes with --coordinator"),
    ([*GOOD, "--ssh", "ssh -v"], "--kubernetes with --ssh"),
    ([*GOOD, "--remote-program", "/x"], "--kubernetes with --remote-program"),
    ([*GOOD, "--folder", "work"], "--folder work: expected a path from / on"),
    ([*GOOD, "--env", "NO_SUCH_VARIABLE_HERE"], "--env NO_SUCH_VARIABLE_HERE: is not set here"),
    ([*GOOD, "--env", "=b"], "--env =b: has no name before ="),
    ([*GOOD, "--env", "1A=b"], "--env: '1A', expected a name"),
    ([*GOOD, "--env", "A B=b"], "--env: 'A B', expected a name"),
    ([*GOOD, "--env", "LOCKSTEP_SECRET=x"], "--env LOCKSTEP_SECRET: the manifest sets it"),
    ([*GOOD, "--env", "A=\udcff"], "--env A: is not UTF-8"),
    ([*GOOD[:2], "--workers", 2, "--image", "x\udcff"], "--image: is not UTF-8"),
    ([*GOOD, "--folder", "/\udcff"], "--folder: is not UTF-8")])
def test_what_cannot_be_meant_is_wrong_usage(lockstep, words, complaint):
    outcome = lockstep.run("launch", "--kubernetes", *words, "--", "program", status=2)
    assert complaint in outcome.complaint


@pytest.mark.parametrize("words", [["--user", 5], ["--ttl", 5], ["--deadline", 5], ["--retries", 1],
                                   ["--toleration", "a"], ["--shm-size", "1Gi"]])
def test_what_is_for_a_manifest_alone_is_refused_elsewhere(lockstep, words):
    outcome = lockstep.run("launch", *words, "--workers", 2, "--", "true", status=2)
    assert str(words[0]) in outcome.complaint and "--kubernetes" in outcome.complaint


def test_options_of_a_manifest_without_kubernetes_are_wrong_usage(lockstep):
    outcome = lockstep.run("launch", "--image", "x", "--workers", 2, "--", "true", status=2)
    assert "--image" in outcome.complaint and "--kubernetes" in outcome.complaint
