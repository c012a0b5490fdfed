"""The world node: its options change the scenario, and its stage is that of a run."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from swarmbed_core.config import names
from swarmbed_core.errors import ConfigError
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_robot.world import OPTIONS, PlainWorld, load

from swarmbed_robot import world as world_module

DEFAULTS = {option.name: option.default for option in OPTIONS}


def loaded(**options) -> Scenario:
    return load(DEFAULTS | options)[0]


@pytest.mark.parametrize("name", names(Scenario.FOLDER))
def test_without_options_a_scenario_is_as_its_file_has_it(name):
    assert loaded(scenario=name) == Scenario.load(name)


def test_the_scenario_is_told_with_its_file(tmp_path):
    scenario, source = load(DEFAULTS)
    assert source.endswith("config/scenarios/intralogistics.yaml")
    file = tmp_path / "mine.yaml"
    shutil.copy(source, file)
    assert load(DEFAULTS | {"scenario": str(file)}) == (scenario, str(file))


def test_options_change_only_what_they_name():
    plain = loaded()
    changed = loaded(world="planar", robots=3, seed=0)
    assert (changed.world, changed.robots[0].count, changed.seed) == ("planar", 3, 0)
    back = changed.model_copy(update={"world": plain.world, "robots": plain.robots, "seed": plain.seed})
    assert back == plain
    assert changed.robots[0].model_copy(update={"count": plain.robots[0].count}) == plain.robots[0]


def test_other_groups_of_robots_stay(tmp_path):
    file = tmp_path / "two.yaml"
    file.write_text(
        "{version: 1, title: two groups, time_limit: 1, controller: {name: none}, robots: "
        "[{count: 2, place: {zone: drop}}, {kind: epuck2, count: 4, place: {zone: search}}]}",
        encoding="utf-8",
    )
    assert [group.count for group in loaded(scenario=str(file), robots=7).robots] == [7, 4]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scenario": "nonsense"}, "'nonsense' is not in config/scenarios"),
        # The places are told one by one there: no more robots fit than there are places.
        ({"scenario": "go_to_goal", "robots": 5}, r"go_to_goal\.yaml: .*count is 5, but place\.poses has 1"),
    ],
)
def test_what_cannot_be_is_told_with_the_file(options, said):
    with pytest.raises(ConfigError, match=said):
        loaded(**options)


@pytest.fixture
def stage():
    made = []

    def make(seed: int = 3, **options) -> PlainWorld:
        scenario, source = load(DEFAULTS | {"world": "planar", "robots": 2} | options)
        made.append(PlainWorld(scenario, source, seed))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_stage_is_the_scene_of_its_seed(stage):
    here = stage(seed=3)
    scene = make_scene(loaded(world="planar", robots=2), 3)
    assert [item.pose for item in here.scene.robots] == [item.pose for item in scene.robots]
    assert here.seed == 3
    assert here.world.truth()[:, :3] == pytest.approx(np.array([item.pose for item in scene.robots]))
    assert [robot.name for robot in here.swarm.robots] == ["dots1", "dots2"]
    other = stage(seed=4)
    assert [item.pose for item in other.scene.robots] != [item.pose for item in scene.robots]


def test_a_stage_goes_on_for_ever_and_nobody_judges_it(stage):
    here = stage()
    for _ in range(20):
        here.step()
    assert here.world.time == pytest.approx(20 * here.world.timestep)
    assert here.swarm.robots[0].onboard._latest == pytest.approx(here.world.time)
    here.say({"dots1": "sweep"})
    assert here.think() is False
    assert here.see_doing() == ("sweep", "")
    assert here.verdict() == ("", "")
    assert (here.fixed, set(here.dead)) == ("", set())


def test_a_world_that_there_is_not_is_told(stage):
    with pytest.raises(ConfigError, match="no world 'moon': there are"):
        stage(world="moon")


def test_the_node_hosts_what_its_options_say(ros, monkeypatch, capfd):
    hosted = []

    class Host:
        """Stands in for the host."""

        def __init__(self, spinner, node, make, options):
            del spinner, node
            self.made, self.options = [make(None), make(8)], options
            self.apis = {robot.name: None for robot in self.made[0].swarm.robots}
            hosted.append(self)

        def run(self):
            self.ran = True

        def close(self):
            self.closed = True
            for made in self.made:
                made.close()

    monkeypatch.setattr(world_module, "WorldHost", Host)
    options = DEFAULTS | {"world": "planar", "robots": 2, "seed": 6}
    assert world_module.start(ros.spinner, ros.node("world"), options) == 0
    [host] = hosted
    assert host.ran
    assert host.closed
    assert [made.seed for made in host.made] == [6, 8]
    assert host.options is options
    assert f"2 robots in ROS domain {ros.domain}: dots1, dots2" in capfd.readouterr().err
