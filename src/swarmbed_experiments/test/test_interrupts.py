"""Signals end what is computed, not what is being written."""

import signal
import threading

import pytest
from swarmbed_experiments.runs import interrupts
from swarmbed_experiments.runs.interrupts import Interrupts


@pytest.fixture
def apart(monkeypatch):
    """Let no two signals count as one."""
    monkeypatch.setattr(interrupts, "BURST", 0.0)


@pytest.fixture
def ended(monkeypatch):
    """Return the statuses with which the process would have ended."""
    statuses = []
    monkeypatch.setattr(interrupts.os, "_exit", statuses.append)
    return statuses


@pytest.mark.parametrize(
    ("number", "status", "name"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")]
)
def test_a_signal_raises_and_is_remembered(number, status, name):
    with Interrupts(terminate=True) as signals:
        assert not signals.possible
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        assert (signals.status, signals.name, signals.possible) == (status, name, True)
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_what_time_outs_send_twice_is_one():
    with Interrupts(terminate=True) as signals:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert signals.received == signal.SIGTERM


@pytest.mark.usefixtures("apart")
def test_a_second_signal_lets_results_be_written_and_a_third_ends_at_once(ended, capfd):
    with Interrupts(terminate=True) as signals:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signals.writing = True
        signal.raise_signal(signal.SIGTERM)
        assert "results are being written" in capfd.readouterr().err
        assert ended == []
        signal.raise_signal(signal.SIGTERM)
        assert ended == [143]
        assert signals.status == 130


@pytest.mark.usefixtures("apart")
def test_a_signal_that_is_held_is_noted():
    with Interrupts() as signals:
        signals.held = True
        signal.raise_signal(signal.SIGINT)
        assert signals.received == signal.SIGINT


def test_handlers_of_others_stay():
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with Interrupts() as signals:
            signal.raise_signal(signal.SIGINT)
            assert (signals.received, signals.possible) == (None, False)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        heard = []
        signal.signal(signal.SIGINT, lambda *_: heard.append(1))
        with Interrupts() as signals:
            signal.raise_signal(signal.SIGINT)
            # Whoever catches it may raise as well.
            assert (signals.received, signals.possible, heard) == (None, True, [1])
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_signals_alone():
    found = []

    def enter():
        with Interrupts(terminate=True) as signals:
            found.append((signals.possible, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [(False, signal.SIG_DFL)]
