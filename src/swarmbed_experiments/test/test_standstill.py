"""Whether the machine stood still: told by a process that is itself held up."""

import json
import signal
import subprocess
import sys
import time


def test_a_process_that_was_held_up_tells_for_how_long():
    command = [sys.executable, "-m", "swarmbed_experiments.bench.standstill"]
    watcher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert watcher.stdout.readline() == "watching\n"
    time.sleep(0.1)
    watcher.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    watcher.send_signal(signal.SIGCONT)
    time.sleep(0.1)
    watcher.send_signal(signal.SIGINT)
    told = json.loads(watcher.communicate(timeout=30)[0])
    assert watcher.returncode == 0
    assert told["times"] >= 1
    assert 0.25 < told["longest"] <= told["seconds"] + 0.01
