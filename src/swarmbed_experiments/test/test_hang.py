"""Programs that do not return are reported with who they are and where they hang."""

import faulthandler
import subprocess
import sys
import textwrap
import threading
from types import SimpleNamespace

import pytest
from swarmbed_experiments.errors import FailedError, make
from swarmbed_experiments.runs.hang import (
    CodeLine,
    Limits,
    Stuck,
    Watch,
    attend,
    frames_in,
    getting_ready,
    limited,
    now,
    where,
)

HANGS = """
import threading

def spin():
    while True:
        pass

def wait():
    threading.Event().wait()
"""


class Running:
    """Stands for a run."""

    def __init__(self, time=1.5):
        self.now = "dots1: controller hangs:Hangs"
        self.world = SimpleNamespace(time=time)


@pytest.fixture
def hangs(tmp_path, monkeypatch):
    (tmp_path / "my_hangs.py").write_text(HANGS)
    monkeypatch.syspath_prepend(tmp_path)
    import my_hangs

    yield my_hangs
    del sys.modules["my_hangs"]


@pytest.mark.parametrize(("name", "line"), [("spin", "[56]"), ("wait", "9")])
def test_a_program_that_hangs_is_raised_in_with_its_line(hangs, name, line):
    run = Running()
    attend(run)
    text = (
        rf"dots1: controller hangs:Hangs has not returned for 0.6 s \(my_hangs.py, line {line}, in {name}\)"
    )
    with pytest.raises(Stuck, match=text), limited(Limits(tick=0.6)):
        getattr(hangs, name)()


def test_a_run_that_takes_too_long_is_raised_in(hangs):
    run = Running()
    attend(run)
    text = r"the run was not over after 0.3 s at 1.5 s of the world's time, in dots1: .* \(my_hangs.py, line"
    with pytest.raises(Stuck, match=text), limited(Limits(tick=None, run=0.3)):
        hangs.spin()


@pytest.fixture
def watch():
    return Watch(lambda _: None, Limits(tick=2.0, run=60.0))


def test_what_goes_on_is_left_alone(watch):
    run = Running()
    attend(run)
    for _ in range(20):
        assert not watch.look(1.0)
        run.world.time += 0.01
    assert not watch.look(1.0)
    assert not watch.look(1.0)
    assert "has not returned for 2 s" in watch.look(1.5)


def test_one_program_after_the_other_goes_on(watch):
    run = Running()
    attend(run)
    for number in range(20):
        run.now = f"dots{number}: controller mine"
        assert not watch.look(1.0)


def test_worlds_are_given_more_time(watch):
    run = Running()
    run.now = "world gazebo"
    attend(run)
    assert not any(watch.look(1.0) for _ in range(21))
    assert watch.look(1.0).startswith("world gazebo has not returned")


def test_a_debugger_is_given_all_the_time(watch):
    run = Running()
    attend(run)
    heard = []
    code = compile("heard += [look(1.0) for _ in range(99)]", "/usr/lib/python3/pdb.py", "exec")
    exec(code, {"heard": heard, "look": watch.look})  # noqa: S102
    assert set(heard) == {""}


def test_who_is_being_made_is_named(hangs):
    attend(Running())
    with pytest.raises(FailedError, match=r"dots2: controller it has not returned for 0.3 s \(my_hangs"):  # noqa: SIM117
        with getting_ready(Limits(tick=0.3)):
            make("dots2: controller it", hangs.spin)
    assert now() == ("getting the run ready", None)


def test_a_run_that_is_gone_is_no_run_any_more():
    attend(Running())
    assert now() == ("getting the run ready", None)


def test_in_other_threads_nothing_is_watched():
    done = []

    def work():
        with limited(Limits(tick=0.1)):
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done


def python(text):
    words = [sys.executable, "-c", textwrap.dedent(text)]
    return subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)


def test_a_program_that_catches_everything_is_ended():
    done = python("""
        from swarmbed_experiments.runs import hang
        hang.GRACE = 0.5
        with hang.limited(hang.Limits(tick=0.3)):
            while True:
                try:
                    while True:
                        pass
                except BaseException:
                    pass
    """)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "swarmbed: getting the run ready has not returned for 0.3 s (<string>, line"
    )
    assert done.stderr.endswith("it cannot be interrupted\n")


def test_compiled_code_that_hangs_is_ended_with_its_line():
    done = python("""
        import re
        from swarmbed_experiments.runs.hang import Limits, limited
        def stuck_here():
            re.match(r"(a|aa)+$", "a" * 60 + "b")
        with limited(Limits(tick=0.1)):
            stuck_here()
    """)
    assert done.returncode != 0
    assert "in stuck_here" in done.stderr


def test_lines_are_read_from_what_faulthandler_wrote(tmp_path):
    with (tmp_path / "dump").open("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        found = frames_in(file.read())
    assert found[0].name == "test_lines_are_read_from_what_faulthandler_wrote"
    assert found[0].file == __file__
    assert frames_in("nonsense") == []


def test_a_users_line_is_preferred():
    theirs = CodeLine("/home/somebody/mine.py", 3, "tick")
    ours = CodeLine(sys.modules[Watch.__module__].__file__, 5, "tick")
    library = CodeLine(threading.__file__, 7, "wait")
    assert where([library, ours, theirs]) == "mine.py, line 3, in tick"
    assert where([library, ours]) == "hang.py, line 5, in tick"
    assert where([library]) == "threading.py, line 7, in wait"
    assert where([]) == "somewhere"
