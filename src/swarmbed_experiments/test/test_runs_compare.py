"""Two runs side by side: what went into them, what came out, and where their tracks part."""

import dataclasses
import io
import json
import re

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from swarmbed_core.config import check
from swarmbed_core.observing import Event
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.runs.comparing import changes, compare, parting
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.track import Track
from swarmbed_experiments.tools.runs_compare import as_json, show

pytestmark = pytest.mark.slow


@pytest.fixture
def made(scenario_data, tmp_path):
    """Return what makes a run and returns its directory."""

    def make(**changed):
        data = {**scenario_data, "time_limit": 1.0, **changed}
        run = Run(check(data, Scenario, "t.yaml"), "t.yaml")
        run.go(tmp_path, record=False)
        run.close()
        return run.directory

    return make


def rewrite(file, change):
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


def shown(found, width=80):
    console = Console(width=width, file=io.StringIO())
    show(console, found)
    return console.file.getvalue()


def test_the_same_run_twice_is_the_same_to_the_bit(made):
    found = compare(made(), made())
    assert found.same
    assert (found.settings, found.versions, found.files, found.orders, found.problems) == ([], [], [], [], [])
    results = {each.name: (each.one, each.other) for each in found.results}
    assert results["verdict"] == ("accepted", "accepted")
    assert results["collisions"] == (0, 0)
    text = shown(found)
    assert "tracks: the same to the bit" in text
    assert "scenario: the same settings" in text


def test_another_seed_is_named_and_so_is_where_the_tracks_part(made):
    found = compare(made(seed=1), made(seed=2))
    assert not found.same
    assert [(each.name, each.one, each.other) for each in found.settings] == [("seed", 1, 2)]
    assert re.fullmatch(
        r"from 0\.1 s on: dots1 is .* m and .* rad away from its pose in the other run", found.track
    )


def test_settings_in_files_that_the_scenario_names_are_compared(made):
    one, other = made(), made()
    robot = other / "files" / "robots" / "dots.yaml"
    data = yaml.safe_load(robot.read_text())
    data["body"]["mass"] = 4.5
    robot.write_text(yaml.safe_dump(data))
    walls = other / "files" / "markermaps" / "dots_arena.yaml"
    walls.write_text(walls.read_text() + "\n# the same\n")
    found = compare(one, other).settings
    assert [(each.name, each.one, each.other) for each in found] == [
        ("robots.0.kind.content.body.mass", 3.0, 4.5)
    ]


def test_versions_files_and_orders_are_compared(made):
    one, other = made(), made()

    def change(data):
        data["versions"]["numpy"] = "1.0"
        data["machine"]["cores"] = 999
        data["files"]["swarmbed_core/onboard.py"] = "0"
        data["files"]["mine.csv"] = "1"

    rewrite(other / "manifest.json", change)
    (other / "orders.jsonl").write_text('{"step": 3}\n')
    found = compare(one, other)
    assert {each.name for each in found.versions} == {"numpy", "machine.cores"}
    assert found.files[0].one is None
    assert [each.name for each in found.files] == ["mine.csv", "swarmbed_core/onboard.py"]
    assert [(each.name, each.one) for each in found.orders] == [("number of orders", None), ("orders", None)]
    text = shown(found)
    for piece in ("mine.csv", "numpy", "1.0", "999", "number of orders"):
        assert piece in text
    assert max(map(len, text.splitlines()[2:])) <= 80
    data = json.loads(as_json(found))
    assert data["same_track"] is True
    assert data["files"][0] == {"name": "mine.csv", "one": None, "other": "1"}


def test_what_a_run_lacks_is_told_and_the_rest_compared(made):
    one, other = made(), made()
    (other / "manifest.json").unlink()
    (other / "summary.json").write_text("{")
    found = compare(one, other)
    assert found.same
    assert len(found.problems) == 2
    assert "not compared" in shown(found)
    (other / "track.npz").write_bytes(b"no track")
    (other / "scenario.yaml").write_text("[")
    found = compare(one, other)
    assert found.track == "one of the runs has no track"
    assert len(found.problems) == 4
    assert "the same settings" not in shown(found)


TRACK = Track(
    robots=("a", "b"),
    carriers=("c",),
    times=np.arange(1, 6) / 10,
    poses=np.arange(30.0).reshape(5, 2, 3),
    doing=np.zeros((5, 2), dtype=np.int64),
    deeds=("drive", "stop"),
    carrier_poses=np.zeros((5, 1, 3)),
    carried_by=np.full((5, 1), -1),
    events=(Event(0.2, "x", "a", "t"),),
)


def changed(name, at, value):
    array = getattr(TRACK, name).copy()
    array[at] = value
    return dataclasses.replace(TRACK, **{name: array})


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (TRACK, ""),
        (changed("poses", (3, 1, 0), 18.5), "from 0.4 s on: b is 2.5 m and 0 rad away from its pose"),
        (changed("poses", (2, slice(None), 2), 0.0), "from 0.3 s on: a is 0 m and "),
        (changed("poses", (1, 0, 0), np.nan), "from 0.2 s on: a is there in one run only"),
        (changed("doing", (4, 1), 1), "from 0.5 s on: b does something else"),
        (changed("carrier_poses", (2, 0, 0), -0.0), "from 0.3 s on: c is 0 m and 0 rad away"),
        (changed("carried_by", (1, 0), 1), "from 0.2 s on: c is lifted by another robot, or by none"),
        (changed("times", 2, 0.35), "from 0.3 s on: the same sample is from 0.3 s and 0.35 s"),
        (dataclasses.replace(TRACK, robots=("a", "d")), "b is a robot of one run only"),
        (dataclasses.replace(TRACK, carriers=("d",)), "the runs have different carriers"),
        (dataclasses.replace(TRACK, events=()), "one of the runs has more events"),
        (
            dataclasses.replace(TRACK, events=(Event(0.1, "x", "a", "t"),)),
            "from 0.1 s on: the events differ",
        ),
    ],
)
def test_where_tracks_part(other, told):
    for found in (parting(TRACK, other), parting(other, TRACK)):
        assert found.startswith(told)
        assert bool(found) is bool(told)


def test_a_run_that_is_shorter_is_told():
    short = dataclasses.replace(
        TRACK,
        **{
            name: getattr(TRACK, name)[:3]
            for name in ("times", "poses", "doing", "carrier_poses", "carried_by")
        },
    )
    assert parting(TRACK, short) == parting(short, TRACK) == "the same to 0.3 s, where one of the runs ends"


def test_names_count_and_not_their_order_or_numbers():
    mirrored = dataclasses.replace(
        TRACK,
        robots=("b", "a"),
        poses=TRACK.poses[:, ::-1],
        doing=TRACK.doing[:, ::-1] + 1,
        deeds=("stop", "drive"),
    )
    assert parting(TRACK, mirrored) == ""
    carried = changed("carried_by", (slice(None), 0), 0)
    assert parting(carried, dataclasses.replace(mirrored, carried_by=np.ones((5, 1), dtype=np.int64))) == ""
    nan = changed("poses", (2, 1), np.nan)
    assert parting(nan, nan) == ""


TREES = st.recursive(
    st.none() | st.integers(-5, 5) | st.text("ab", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("xy", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(TREES, TREES)
def test_trees_differ_if_and_only_if_a_change_is_named(one, other):
    found = list(changes("", one, other))
    # A field that is null is the same as none.
    assert not list(changes("", one, one))
    if not found:
        assert _without_nulls(one) == _without_nulls(other)
    mirrored = [(each.name, each.other, each.one) for each in changes("", other, one)]
    assert sorted(map(repr, mirrored)) == sorted(repr((each.name, each.one, each.other)) for each in found)


def _without_nulls(tree):
    if isinstance(tree, dict):
        return {key: _without_nulls(value) for key, value in tree.items() if value is not None}
    return [_without_nulls(value) for value in tree] if isinstance(tree, list) else tree
