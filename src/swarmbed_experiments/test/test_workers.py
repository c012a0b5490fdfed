"""Workers: each job apart from the others, and one that dies, hangs or leaves threads costs nothing else."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs.hang import Limits
from swarmbed_experiments.runs.workers import JobError, Lost, Workers

JOBS = """
import os, re, signal, sys, threading, time
from pathlib import Path

count = 0

def square(x):
    return x * x

def counted(_):
    global count
    count += 1
    return count, os.getpid()

def threads(_):
    return os.environ["NUMBA_NUM_THREADS"], len(os.listdir("/proc/self/task"))

def imported(names):
    return [name for name in names if name in sys.modules]

def dies(how):
    file, end = how
    with open(file, "a") as note:
        note.write("x")
    if end == "exit":
        os._exit(7)
    if end == "segv":
        signal.raise_signal(signal.SIGSEGV)
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)

def dies_once(file):
    if not Path(file).exists():
        Path(file).write_text("")
        os._exit(1)
    return "at last"

def raises(_):
    raise ValueError("so it is")

def exits(_):
    raise SystemExit("gone")

class Odd:
    def __reduce__(self):
        raise TypeError("not sent")

def odd(_):
    return Odd()

def spins(_):
    while True:
        pass

def waits(_):
    threading.Event().wait()

def holds_the_interpreter(_):
    # A regular expression that takes for ever, in C.
    re.match(r"(a|aa)+$", "a" * 60 + "b")

def leaves_a_thread(_):
    threading.Thread(target=threading.Event().wait).start()
    return "done"
"""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """What workers import: tests themselves cannot be imported there."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "worker_jobs.py").write_text(JOBS)
    sys.path.insert(0, str(folder))
    import worker_jobs

    yield worker_jobs
    sys.path.remove(str(folder))
    sys.modules.pop("worker_jobs", None)


@pytest.fixture(scope="module")
def crew(jobs):  # noqa: ARG001 - it has to be there before
    with Workers(2) as workers:
        yield workers


def test_results_come_back(crew, jobs):
    futures = [crew.submit(jobs.square, x) for x in range(5)]
    assert [future.result() for future in futures] == [0, 1, 4, 9, 16]


def test_a_fresh_job_finds_nothing_of_the_one_before(crew, jobs):
    found = [crew.submit(jobs.counted, None).result() for _ in range(3)]
    assert [count for count, _ in found] == [1, 1, 1]
    assert len({pid for _, pid in found}) == 3


def test_jobs_of_ours_share_workers(crew, jobs):
    found = [crew.submit(jobs.counted, None, fresh=False).result() for _ in range(3)]
    assert len({pid for _, pid in found}) == 1
    assert [count for count, _ in found] == [1, 2, 3]


def test_the_server_knows_our_packages_and_no_jobs(crew, jobs):
    names = ["swarmbed_experiments.runs.run", "worker_jobs"]
    # The job itself has imported the second.
    assert crew.submit(jobs.imported, names).result() == names
    assert crew.submit(eval, "'worker_jobs' in __import__('sys').modules").result() is False


def test_a_worker_has_one_thread_and_one_that_watches(crew, jobs):
    assert crew.submit(jobs.threads, None).result() == ("1", 2)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("exit", "its process exited with status 7, 2 times"),
        ("segv", r"its process died of SIGSEGV \(worker_jobs.py, line \d+, in dies\), 2 times"),
        ("kill", "its process died of SIGKILL, 2 times; the machine may be out of memory"),
    ],
)
def test_a_worker_that_dies_is_one_job_that_is_tried_twice(crew, jobs, tmp_path, end, reason):
    bad = crew.submit(jobs.dies, (str(tmp_path / "note"), end))
    good = [crew.submit(jobs.square, x, fresh=False) for x in range(4)]
    found = bad.result()
    assert isinstance(found, Lost)
    assert not found.stuck
    assert re.fullmatch(reason, found.reason)
    assert (tmp_path / "note").read_text() == "xx"
    assert [future.result() for future in good] == [0, 1, 4, 9]


def test_a_second_try_may_succeed(crew, jobs, tmp_path):
    assert crew.submit(jobs.dies_once, str(tmp_path / "note")).result() == "at last"


@pytest.mark.parametrize(
    ("name", "text"), [("raises", "ValueError: so it is"), ("exits", "SystemExit: gone"), ("odd", "not sent")]
)
def test_what_raises_is_an_error_of_the_job(crew, jobs, name, text):
    with pytest.raises(JobError, match=text):
        crew.submit(getattr(jobs, name), None).result()


def test_what_cannot_be_sent_is_an_error_at_once(crew):
    with pytest.raises(Exception, match=r"pickle|local"):
        crew.submit(lambda _: None, None).result()


@pytest.mark.parametrize(("name", "place"), [("spins", "spins"), ("waits", "waits")])
def test_a_job_that_does_not_return_is_ended_with_its_line(crew, jobs, name, place):
    found = crew.submit(getattr(jobs, name), None, limits=Limits(tick=1.0)).result()
    assert isinstance(found, Lost)
    assert found.stuck
    assert found.reason.startswith("getting the run ready has not returned for 1 s (worker_jobs.py, line ")
    assert f"in {place})" in found.reason


def test_a_job_that_takes_too_long_is_ended(crew, jobs):
    found = crew.submit(jobs.spins, None, limits=Limits(tick=None, run=0.5)).result()
    assert isinstance(found, Lost)
    assert found.stuck
    assert found.reason.startswith("the run was not over after 0.5 s")


def test_compiled_code_that_never_releases_the_interpreter_is_ended(crew, jobs):
    found = crew.submit(jobs.holds_the_interpreter, None, limits=Limits(tick=0.5)).result(timeout=120)
    assert isinstance(found, Lost)
    assert found.stuck
    assert "could not be interrupted (worker_jobs.py, line" in found.reason


def test_a_thread_that_is_left_keeps_nobody_waiting(crew, jobs):
    assert crew.submit(jobs.leaves_a_thread, None).result() == "done"
    assert crew.submit(jobs.square, 3).result() == 9


def test_what_is_dropped_is_ended(jobs, tmp_path):
    with Workers(1) as workers:
        workers.submit(jobs.spins, None)
        workers.submit(jobs.dies, (str(tmp_path / "note"), "exit"))
        workers.drop()
        assert workers.submit(jobs.square, 2).result() == 4
    assert not (tmp_path / "note").exists()


def test_workers_that_nobody_asked_for_anything_start_nothing():
    with Workers(1) as workers:
        assert workers._process is None


def test_a_server_that_dies_fails_its_jobs_and_the_next_starts_another(jobs):
    with Workers(1) as workers:
        assert workers.submit(jobs.square, 2).result() == 4
        future = workers.submit(jobs.waits, None)
        workers._process.kill()
        with pytest.raises(RunError, match=r"ended \(SIGKILL\)"):
            future.result()
        assert workers.submit(jobs.square, 3).result() == 9


def test_nobody_outlives_the_process_that_started_them(jobs, tmp_path):
    script = tmp_path / "starts.py"
    script.write_text(
        "import os, sys, time\n"
        f"sys.path.insert(0, {os.path.dirname(jobs.__file__)!r})\n"  # noqa: PTH120
        "import worker_jobs\nfrom swarmbed_experiments.runs.workers import Workers\n"
        "workers = Workers(1)\n"
        "print(workers.submit(worker_jobs.counted, None, fresh=False).result()[1], workers._process.pid)\n"
        "sys.stdout.flush()\n"
        "workers.submit(worker_jobs.spins, None)\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    pids = [int(word) for word in process.stdout.readline().split()]
    process.kill()
    process.wait()
    process.stdout.close()
    end = time.monotonic() + 60
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.02)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie whom nobody has buried yet is none.
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
        return file.read().rpartition(")")[2].split()[0] != "Z"


def test_ctrl_c_does_not_reach_workers(crew, jobs):
    crew.submit(jobs.square, 1).result()
    os.kill(crew._process.pid, signal.SIGINT)
    assert crew.submit(jobs.square, 2).result() == 4
