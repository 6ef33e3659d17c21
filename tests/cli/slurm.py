# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one machine: real daemons, everything of theirs in one folder, ports of their own."""
import os
import shutil
import socket
import subprocess
import time

from jobs import free_ports

PROGRAMS = ["munged", "slurmctld", "slurmd", "srun"]

CONFIGURATION = """\
ClusterName=lockstep
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8
"""


def why_not():
    """Why there can be no Slurm here; empty when there can."""
    missing = [name for name in PROGRAMS if find(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed (scripts/setup test)"
    return "" if os.geteuid() == 0 else "slurmd needs root"


def find(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class Slurm:
    def __init__(self, folder):
        self.folder = folder
        self.daemons = []
        for name in ("state", "spool"):
            os.mkdir(folder / name)
        controller_port, node_port = free_ports(2)
        (folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=socket.gethostname().split(".")[0], folder=folder,
            controller_port=controller_port, node_port=node_port))
        (folder / "munge.key").write_bytes(os.urandom(1024))
        os.chmod(folder / "munge.key", 0o600)
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def start(self):
        f = self.folder
        self.run_daemon("munged", "--foreground", "--force", f"--key-file={f}/munge.key",
                        f"--socket={f}/munge.socket", f"--pid-file={f}/munge.pid",
                        f"--log-file={f}/munge.log", f"--seed-file={f}/munge.seed")
        self.wait_until(lambda: os.path.exists(f / "munge.socket"), "munged")
        self.run_daemon("slurmctld", "-D", "-f", f / "slurm.conf")
        self.run_daemon("slurmd", "-D", "-f", f / "slurm.conf")
        self.wait_until(self.is_ready, "the node")

    def run_daemon(self, name, *words):
        with open(self.folder / f"{name}.out", "w") as out:
            self.daemons.append(subprocess.Popen([find(name), *map(str, words)], stdout=out,
                                                 stderr=out, env=self.environment))

    def wait_until(self, condition, what, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            said = "".join(path.read_text()[-2000:] for path in self.folder.glob("*.out"))
            assert time.monotonic() < end, f"{what} does not come: {said}"
            assert all(one.poll() is None for one in self.daemons), said
            time.sleep(0.1)

    def is_ready(self):
        said = subprocess.run([find("sinfo"), "-h", "-o", "%T"], env=self.environment,
                              capture_output=True, text=True, timeout=60)
        return said.stdout.strip() in ("idle", "mixed", "allocated")

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
