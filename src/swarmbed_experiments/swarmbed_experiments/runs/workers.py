"""Worker processes that execute jobs, such as the runs of a sweep, isolated from each other.

`Workers` starts one server process. It imports our packages and loads our compiled code once, never runs a
user's program, and has a single thread, so that it can fork: a worker costs some ten milliseconds. Each job
with a user's program gets a fresh worker, so that nothing leaks from one run to the next. Other jobs share
workers. When a worker dies, its job is repeated once. A job that hangs or exceeds its time limit is ended,
and the result says where in the code it was (`swarmbed_experiments.runs.hang`). The server exits with its
parent, and workers exit with the server.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import faulthandler
import gc
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, Self

from swarmbed_experiments.errors import FailedError
from swarmbed_experiments.runs.hang import GRACE, Limits, Watch, frames_in, where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ONE_THREAD = dict.fromkeys(
    ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
"""Makes libraries single-threaded: a worker uses one core, and only such a process can fork safely."""
PRELOAD = ("swarmbed_experiments.runs.run", "swarmbed_experiments.runs.rehearsal")
TRIES = 2
"""Maximum number of attempts at a job whose worker dies."""
CLOSE = 5.0
"""Seconds that the server has to exit."""
EXPENDABLE = b"500"
"""OOM score adjustment of workers: when memory runs out, they are killed before the server and the sweep."""
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from swarmbed_experiments.runs.workers import serve; serve(int(sys.argv[2]), int(sys.argv[3]))"
)
DONE, RAISED, STUCK, DIED = "done", "raised", "stuck", "died"


@dataclass(frozen=True)
class Lost:
    """Result of a job whose worker died or was ended.

    Attributes:
        reason: text for users.
        stuck: True if the job exceeded a time limit, False if its worker died.
    """

    reason: str
    stuck: bool


class JobError(Exception):
    """A job raised an exception; the text describes it."""


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """A pool of worker processes. It must be closed."""

    def __init__(
        self, slots: int | None = None, *, directory: Path | None = None, path: Sequence[str] = ()
    ) -> None:
        """Prepare the pool. The server starts with the first job.

        Args:
            slots: number of jobs executed at a time; by default one per core.
            directory: working directory of the jobs; by default the current one.
            path: directories to put first in Python's module search path.
        """
        self.slots = slots or cores()
        self._directory = directory
        self._path = tuple(path)
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None
        self._lock = threading.Lock()
        self._futures: dict[int, Future[Any]] = {}
        self._count = 0

    def __enter__(self) -> Self:
        """Return the pool."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the pool."""
        self.close()

    def submit(
        self,
        job: Callable[[Any], Any],
        argument: Any,
        *,
        fresh: bool = True,
        limits: Limits | None = None,
    ) -> Future[Any]:
        """Submit a job, and return a future.

        Its result is the job's return value, or `Lost`. It raises JobError if the job raises, and FailedError
        if the server dies.

        Args:
            job: a function that workers can import.
            argument: of the job.
            fresh: whether to execute it in a new process.
            limits: of its time.
        """
        future: Future[Any] = Future()
        try:
            payload = pickle.dumps((job, argument))
        except Exception as error:  # noqa: BLE001 - pickling users' objects can raise anything
            future.set_exception(error)
            return future
        self._send(future, ("run", payload, fresh, limits or Limits()))
        return future

    def load(self, job: Callable[[Any], Any], argument: Any) -> Future[Any]:
        """Execute a job in the server, for all workers forked later. Not for users' programs."""
        future: Future[Any] = Future()
        self._send(future, ("here", pickle.dumps((job, argument)), False, Limits()))
        return future

    def drop(self) -> None:
        """Discard all unfinished jobs, and end the workers that execute any."""
        with self._lock:
            self._futures.clear()
            if self._line is not None:
                with contextlib.suppress(OSError):
                    self._line.send((0, ("drop", b"", False, Limits())))

    def close(self) -> None:
        """End the server and all workers."""
        with self._lock:
            process, line = self._process, self._line
            self._futures.clear()
            self._process = self._line = None
        if process is None or line is None:
            return
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(line.fileno())) as end:
            # The listener thread would hold the connection open otherwise.
            end.shutdown(socket.SHUT_RDWR)
        try:
            process.wait(CLOSE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _send(self, future: Future[Any], message: tuple[str, bytes, bool, Limits]) -> None:
        with self._lock:
            line = self._line or self._start()
            self._count += 1
            self._futures[self._count] = future
            try:
                line.send((self._count, message))
            except OSError:
                # If the listener thread has seen it first, it has set the exception already.
                if self._futures.pop(self._count, None) is not None:
                    future.set_exception(FailedError("the process that starts workers has ended"))

    def _start(self) -> Connection:
        """Start the server and return the connection to it."""
        here, there = socket.socketpair()
        folders = [*self._path, *(str(Path(folder or ".").absolute()) for folder in sys.path)]
        words = [sys.executable, "-P", "-c", START, json.dumps(folders), str(there.fileno()), str(self.slots)]
        with there, interrupts_later():
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                words,
                pass_fds=[there.fileno()],
                env=os.environ | ONE_THREAD,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
            )
        self._line = line = Connection(here.detach())
        listener = threading.Thread(
            target=self._listen, args=(self._process, line), name="workers", daemon=True
        )
        listener.start()
        return line

    def _listen(self, process: subprocess.Popen[bytes], line: Connection) -> None:
        """Receive results and set the futures."""
        while True:
            try:
                number, kind, value = pickle.loads(line.recv_bytes())  # noqa: S301 - from our own process
            except (EOFError, OSError):
                break
            with self._lock:
                future = self._futures.pop(number, None)
            if future is None:
                continue
            try:
                found = pickle.loads(value) if kind == DONE else value  # noqa: S301 - as above
            except Exception as error:  # noqa: BLE001 - unpickling users' classes can raise anything
                kind, found = RAISED, f"its result cannot be read: {type(error).__name__}: {error}"
            if kind == RAISED:
                future.set_exception(JobError(found))
            else:
                future.set_result(found if kind == DONE else Lost(found, kind == STUCK))
        with self._lock:
            waiting, self._futures = self._futures, {}
            if self._line is line:
                # The next job starts a new server.
                self._process = self._line = None
        if waiting:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(CLOSE)
        line.close()
        for future in waiting.values():
            text = f"the process that starts workers ended ({_status(process.returncode)})"
            future.set_exception(FailedError(text))


def _status(code: int | None) -> str:
    if code is None or code >= 0:
        return f"status {code}"
    return signal.Signals(-code).name


@contextlib.contextmanager
def interrupts_later() -> Iterator[None]:
    """Block SIGINT: processes started meanwhile inherit the mask, so Ctrl-C does not hit their imports."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# The server


@dataclass
class _Job:
    number: int
    payload: bytes
    fresh: bool
    limits: Limits
    tries: int = 0


@dataclass
class _Worker:
    pid: int
    line: Connection
    words: IO[bytes]
    fresh: bool
    job: _Job | None
    until: float | None = None
    ending: bool = False
    """Whether it was killed for exceeding its time limit."""


def serve(line: int, slots: int) -> NoReturn:
    """Fork workers until the other end of the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for name in PRELOAD:
        __import__(name)
    _Server(Connection(line), slots).serve()


class _Server:
    def __init__(self, line: Connection, slots: int) -> None:
        self._line = line
        self._slots = slots
        self._queue: collections.deque[_Job] = collections.deque()
        self._workers: dict[int, _Worker] = {}
        self._bell, bell = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(bell, False)
        self._ends = (self._bell, bell)
        # SIGCHLD writes to this pipe, which wakes up `wait`.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(bell)

    def serve(self) -> NoReturn:
        try:
            while True:
                self._start()
                busy = [worker.line for worker in self._workers.values() if worker.job is not None]
                ready = wait([self._line, self._bell, *busy], self._patience())
                for worker in list(self._workers.values()):
                    if worker.line in ready:
                        self._hear(worker)
                if self._bell in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._bell, 4096)
                    self._reap()
                if self._line in ready:
                    self._take()
                self._hurry()
        except (EOFError, OSError):
            pass
        finally:
            self._end()
            os._exit(0)

    def _take(self) -> None:
        """Take one message."""
        number, (what, payload, fresh, limits) = self._line.recv()
        if what == "drop":
            self._end()
        elif what == "here":
            job, argument = pickle.loads(payload)  # noqa: S301 - from the parent
            job(argument)
            gc.collect()
            # Frozen objects are not written to by the garbage collector, so workers keep sharing their pages.
            gc.freeze()
            self._answer(number, DONE, pickle.dumps(None))
        else:
            self._queue.append(_Job(number, payload, fresh, limits))

    def _answer(self, number: int, kind: str, value: bytes | str) -> None:
        self._line.send_bytes(pickle.dumps((number, kind, value)))

    def _start(self) -> None:
        """Assign jobs to free or new workers."""
        while self._queue:
            busy = [worker for worker in self._workers.values() if worker.job is not None]
            if len(busy) >= self._slots:
                return
            job = self._queue.popleft()
            job.tries += 1
            idle = [worker for worker in self._workers.values() if worker.job is None and not worker.fresh]
            if job.fresh or not idle:
                worker = self._fork(job)
            else:
                worker = idle[0]
                worker.job = job
                with contextlib.suppress(OSError):
                    worker.line.send_bytes(pickle.dumps((job.payload, job.limits)))
            worker.until = None if job.limits.run is None else time.monotonic() + job.limits.run + GRACE

    def _fork(self, job: _Job) -> _Worker:
        ours, theirs = (Connection(end.detach()) for end in socket.socketpair())
        words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            try:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                ours.close()
                self._line.close()
                for end in self._ends:
                    os.close(end)
                for worker in self._workers.values():
                    worker.line.close()
                    worker.words.close()
                _work(theirs, words, job)
            finally:
                os._exit(1)
        theirs.close()
        self._workers[pid] = worker = _Worker(pid, ours, words, job.fresh, job)
        return worker

    def _hear(self, worker: _Worker) -> None:
        """Forward a worker's result."""
        try:
            kind, value = pickle.loads(worker.line.recv_bytes())  # noqa: S301 - from our own process
        except (EOFError, OSError):
            self._reap(worker)
            return
        if worker.job is not None:
            self._answer(worker.job.number, kind, value)
            worker.job = None
            worker.until = None

    def _reap(self, broken: _Worker | None = None) -> None:
        """Remove exited workers, and settle their jobs. A worker whose connection broke is killed first."""
        for worker in [broken] if broken else list(self._workers.values()):
            if broken:
                with contextlib.suppress(OSError):
                    os.kill(worker.pid, signal.SIGKILL)
            pid, status = os.waitpid(worker.pid, 0 if broken else os.WNOHANG)
            if pid == 0:
                continue
            if worker.job is not None and worker.line.poll():
                with contextlib.suppress(EOFError, OSError):
                    kind, value = pickle.loads(worker.line.recv_bytes())  # noqa: S301 - as above
                    self._answer(worker.job.number, kind, value)
                    worker.job = None
            if worker.job is not None:
                self._settle(worker, worker.job, status)
            worker.line.close()
            worker.words.close()
            del self._workers[pid]

    def _settle(self, worker: _Worker, job: _Job, status: int) -> None:
        """Repeat a job whose worker died, or report it as lost."""
        worker.words.seek(0)
        frames = frames_in(worker.words.read().decode(errors="replace"))
        at = f" ({where(frames)})" if frames else ""
        code = os.waitstatus_to_exitcode(status)
        limits = job.limits
        if worker.ending:
            text = f"the run was not over after {limits.run:g} s and could not be interrupted{at}"
            self._answer(job.number, STUCK, text)
        elif code == -signal.SIGPROF:
            text = f"a program has not returned for {limits.shortest:g} s and could not be interrupted{at}"
            self._answer(job.number, STUCK, text)
        elif job.tries < TRIES:
            self._queue.appendleft(job)
        else:
            end = f"exited with status {code}" if code >= 0 else f"died of {signal.Signals(-code).name}"
            hint = "; the machine may be out of memory" if code == -signal.SIGKILL else ""
            self._answer(job.number, DIED, f"its process {end}{at}, {job.tries} times{hint}")

    def _patience(self) -> float | None:
        ends = [worker.until for worker in self._workers.values() if worker.until is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _hurry(self) -> None:
        """Kill workers that exceed their time limit."""
        for worker in self._workers.values():
            if worker.until is not None and worker.until < time.monotonic():
                worker.ending = True
                worker.until = None
                os.kill(worker.pid, signal.SIGKILL)

    def _end(self) -> None:
        """Discard all jobs, and kill all workers."""
        self._queue.clear()
        for worker in self._workers.values():
            worker.job = None
            with contextlib.suppress(OSError):
                os.kill(worker.pid, signal.SIGKILL)
        for worker in self._workers.values():
            with contextlib.suppress(OSError):
                os.waitpid(worker.pid, 0)
            worker.line.close()
            worker.words.close()
        self._workers.clear()


# A worker


def _work(line: Connection, words: IO[bytes], job: _Job) -> NoReturn:
    """Execute a job, and further ones unless the job needs a fresh process."""
    _end_with_parent()
    faulthandler.enable(words, all_threads=True)
    payload, limits = job.payload, job.limits
    while True:
        _do(line, words, payload, limits)
        if job.fresh:
            _flush()
            os._exit(0)
        try:
            payload, limits = pickle.loads(line.recv_bytes())  # noqa: S301 - from the server
        except (EOFError, OSError):
            os._exit(0)


def _do(line: Connection, words: IO[bytes], payload: bytes, limits: Limits) -> None:
    """Execute a job and send its result."""
    lock = threading.Lock()

    def send(kind: str, value: bytes | str) -> None:
        with lock:
            line.send_bytes(pickle.dumps((kind, value)))

    def give_up(text: str) -> None:
        send(STUCK, text)
        _flush()
        os._exit(1)

    answer: tuple[str, bytes | str]
    try:
        with Watch(give_up, limits, words):
            call, argument = pickle.loads(payload)  # noqa: S301 - from the server
            answer = DONE, pickle.dumps(call(argument))
    except BaseException as error:  # noqa: BLE001 - users' programs can raise anything
        answer = RAISED, f"{type(error).__name__}: {error}"
    send(*answer)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _end_with_parent() -> None:
    """Exit with the server, and be the first to be killed when memory runs out."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_bytes(EXPENDABLE)
