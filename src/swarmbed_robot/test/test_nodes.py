"""How nodes start, spin and end: in order, with one line and a status for whatever is wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from std_msgs.msg import String
from swarmbed_robot.errors import RobotError
from swarmbed_robot.nodes import BAD_INPUT, Spinner, check_name, run
from swarmbed_robot.options import Option

OPTIONS = (Option("robot", "dots1", "who", positional=True), Option("rate", 10.0, "how often", 0.1, 100.0))


@pytest.fixture(autouse=True)
def _as_found(domain, monkeypatch):
    """Leave signals as they were found, and be in a domain of one's own."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def go(start, *arguments: str) -> int:
    return run("test_node", "A node.\n", OPTIONS, start, arguments)


@pytest.mark.parametrize(("returned", "status"), [(None, 0), (0, 0), (1, 1), (130, 130)])
def test_what_the_work_returns_is_the_status(returned, status):
    assert go(lambda *_: returned) == status


def test_the_work_gets_its_node_and_its_options():
    got = []

    def start(spinner, node, options):
        got.append((node.get_name(), node.get_namespace(), options, spinner.stopping))
        assert node.get_parameter("rate").value == 20.0

    go(start, "e1", "--rate", "20", "--ros-args", "-r", "__ns:=/there")
    assert got == [("test_node", "/there", {"robot": "e1", "rate": 20.0}, False)]


def test_the_command_line_of_the_process_is_taken_if_none_is_given(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/test_node", "e7"])
    got = []
    run("test_node", None, OPTIONS, lambda _spinner, _node, options: got.append(options["robot"]))
    assert got == ["e7"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--speed", "2"], "unrecognized arguments"),
        (["--rate", "0"], "parameter rate: expected 0.1 to 100"),
        (["--ros-args", "-p", "rate:=fast"], "parameter rate: its type is float"),
        (["--ros-args", "--no-such"], "ROS does not start: ['--no-such']"),
        (["--ros-args", "-p", "rate"], "ROS does not start: failed to initialize rcl"),
        (["--ros-args", "--params-file", "/no/such.yaml"], "/no/such.yaml"),
        (["--ros-args", "-r", "__node:=bad name"], "ROS does not start"),
    ],
)
def test_what_is_wrong_with_its_options_is_one_line_and_status_2(arguments, said, capfd):
    def start(*_):
        raise AssertionError

    assert go(start, *arguments) == BAD_INPUT == 2
    told = capfd.readouterr()
    [line] = [line for line in told.err.splitlines() if line.startswith("test_node: ")]
    assert said in line
    assert told.out == ""


def test_a_domain_that_is_none_is_told(monkeypatch, capfd):
    monkeypatch.setenv("ROS_DOMAIN_ID", "here")
    assert go(lambda *_: 0) == BAD_INPUT
    assert "ROS_DOMAIN_ID" in capfd.readouterr().err


def test_what_the_work_finds_wrong_is_told_and_all_is_given_back(capfd):
    spinners = []

    def start(spinner, node, options):
        del node, options
        spinners.append(spinner)
        message = "the robot is in the way"
        raise RobotError(message)

    assert go(start) == BAD_INPUT
    assert capfd.readouterr().err == "test_node: the robot is in the way\n"
    assert not spinners[0].context.ok()
    assert spinners[0].nodes == []


def test_what_nobody_expected_goes_on_up_and_all_is_given_back():
    spinners = []

    def start(spinner, *_):
        spinners.append(spinner)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go(start)
    assert not spinners[0].context.ok()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_spinning_in_order(number):
    def start(spinner, *_):
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
        spinner.spin()
        return 7

    began = time.monotonic()
    assert go(start) == 7
    assert time.monotonic() - began < 10.0


def test_a_second_signal_does_not_kill_what_is_being_ended():
    def start(spinner, *_):
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
        assert spinner.stopping

    assert go(start) == 0


SCRIPT = """
import sys
from swarmbed_robot.nodes import run
def start(spinner, node, options):
    print("ready", flush=True)
    spinner.spin()
    print("ended", flush=True)
    return 5
sys.exit(run("test_node", "A node.", (), start))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_shell_that_ignores_signals_for_its_background_does_not_matter(processes, ros, number):
    names = "INT,TERM"
    node = processes.start("/usr/bin/env", f"--ignore-signal={names}", sys.executable, "-c", SCRIPT)
    ros.spin_until(lambda: "ready" in node.said or node.ended, "its start")
    node.send(number)
    ros.spin_until(lambda: node.ended, "its end")
    assert node.said == "ready\nended\n"
    assert node.process.returncode == 5


# The spinner


def test_nodes_of_one_spinner_hear_each_other(ros):
    heard = []
    ros.node("ear").create_subscription(String, "said", heard.append, 10)
    mouth = ros.node("mouth").create_publisher(String, "said", 10)
    ros.spin_until(mouth.get_subscription_count, "the ear")
    mouth.publish(String(data="hello"))
    ros.spin_until(lambda: heard, "the word")
    assert heard == [String(data="hello")]


def test_once_waits_no_longer_than_asked(ros):
    ros.node("quiet")
    began = time.monotonic()
    ros.spinner.once(0.0)
    ros.spinner.once(0.05)
    assert 0.03 < time.monotonic() - began < 5.0


def test_spin_ends_when_it_shall(ros):
    node = ros.node("short")
    ticks = []

    def tick():
        ticks.append(1)
        ros.spinner.stopping = len(ticks) == 3

    node.create_timer(0.005, tick)
    ros.spinner.spin()
    assert len(ticks) == 3


def test_a_closed_spinner_can_be_closed_again(domain):
    spinner = Spinner(domain=domain)
    spinner.node("one")
    assert spinner.context.get_domain_id() == domain
    spinner.close()
    spinner.close()
    assert not spinner.context.ok()
    assert spinner.nodes == []


@pytest.mark.parametrize("name", ["dots1", "Robot_7", "fleet/dots1"])
def test_names_of_robots(name):
    check_name(name)


@pytest.mark.parametrize("name", ["", "bad name", "7up", "a-b", "dots1/", "/dots1", "döts", "{x}"])
def test_what_is_no_name_of_a_robot_is_told(name):
    with pytest.raises(RobotError, match="is not a valid robot name: expected letters, digits and _"):
        check_name(name)


def test_without_a_place_for_its_logs_it_says_what_to_set():
    program = "import sys; from swarmbed_robot.nodes import run; sys.exit(run('n', '', (), None, []))"
    env = os.environ | {"ROS_LOG_DIR": "/proc/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 2
    assert "/proc/nowhere" in done.stderr
    assert "set ROS_LOG_DIR to a writable directory" in done.stderr
    assert "Traceback" not in done.stderr
