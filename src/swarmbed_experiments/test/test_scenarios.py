"""Scenario files: changes from the command line, and every fault with its field."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from swarmbed_core.arena import Arena
from swarmbed_core.config import check, names, share_dir
from swarmbed_core.errors import ConfigError
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_experiments.runs.scenarios import (
    apply_set,
    load_scenario,
    make_plan,
    name_of,
    pack,
    root_of,
    to_yaml,
)


@pytest.fixture
def file(tmp_path, scenario_data):
    """Return what writes a scenario file with changes."""

    def write(**changes):
        path = tmp_path / "s.yaml"
        path.write_text(yaml.safe_dump({**scenario_data, **changes}))
        return str(path)

    return write


def test_changes_reach_every_depth(file):
    scenario, source = load_scenario(
        file(),
        ["robots.0.count=7", "noise=false", "controller.speed=0.1", "frame.acceptors.0={name: safe}"],
        world="planar",
        seed=9,
    )
    assert source.endswith("s.yaml")
    assert scenario.robots[0].count == 7
    assert scenario.noise is False
    assert scenario.controller.parameters == {"speed": 0.1}
    assert scenario.frame.acceptors[0].name == "safe"
    assert (scenario.world, scenario.seed) == ("planar", 9)


def test_a_change_makes_what_is_missing(file):
    scenario, _ = load_scenario(file(), ["radio.loss=0.25"])
    assert scenario.radio.loss == 0.25


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("robots.0.count", "write field=value"),
        ("=3", "write field=value"),
        ("robots..count=3", "write field=value"),
        ("robots.1.count=3", "robots is a list of 1"),
        ("robots.x.count=3", "robots is a list of 1"),
        ("robots.-1.count=3", "robots is a list of 1"),
        ("title.x=3", "title is 'a test' and has no field 'x'"),
        ("title=[", "not valid YAML"),
        ("robots.0.count=many", "robots.0.count: Input should be a valid integer"),
        ("time_limit=-1", "time_limit: Input should be greater than 0"),
        ("nonsense=1", "nonsense: unknown field"),
        ("seed=-1", "seed"),
    ],
)
def test_a_change_that_cannot_be(file, change, message):
    with pytest.raises(ConfigError) as raised:
        load_scenario(file(), [change])
    assert message in str(raised.value)


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4), st.integers(-(2**63), 2**64 - 1))
def test_what_was_set_is_there(keys, value):
    data = {}
    apply_set(data, f"{'.'.join(keys)}={value}")
    for key in keys:
        data = data[key]
    assert data == value


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({"world": "atlantis"}, ["world: no world 'atlantis': there are"]),
        ({"controller": {"name": "nobody"}}, ["controller: no controller 'nobody': there are"]),
        ({"controller": {"name": "fake_controllers:Nothing"}}, ["is not a controller"]),
        ({"controller": {"name": "fake_controllers:Drives", "sped": 1}}, ["sped: unknown field"]),
        ({"frame": {"acceptors": [{"name": "retrieved", "of": -1}]}}, ["frame.acceptors.0", "of: "]),
        ({"frame": {"generators": [{"name": "flood"}]}}, ["frame.generators.0: no generator 'flood'"]),
        ({"frame": {"transducers": [{"name": "elapsed"}]}}, ["frame.transducers.0: no transducer 'elapsed'"]),
        ({"robots": [{"count": 500, "place": {"zone": "drop"}}]}, ["robots.0.count: 500 do not fit"]),
        (
            {"robots": [{"place": {"poses": [[1, 0, 0], [1.1, 0, 0]]}}]},
            ["robots.0.place.poses.1", "overlaps another dots"],
        ),
        ({"arena": "moon"}, ["'moon' is not in worlds"]),
        (
            {
                "robots": [{"count": 1, "crowd": True, "place": {"zone": "drop"}}],
                "controller": {"name": "fake_controllers:NotForCrowds"},
            },
            ["does not support crowds"],
        ),
        # All at once:
        (
            {"world": "atlantis", "controller": {"name": "nobody"}, "arena": "moon"},
            ["atlantis", "nobody", "moon"],
        ),
    ],
)
def test_faults_are_told_with_file_and_field(file, changes, messages):
    scenario, source = load_scenario(file(**changes))
    with pytest.raises(ConfigError) as raised:
        make_plan(scenario, source)
    told = str(raised.value)
    for message in messages:
        assert message in told
    assert all(line.startswith(source) for line in told.splitlines())


def test_what_is_run_can_be_run_again(file):
    for name in [*names(Scenario.FOLDER), file()]:
        scenario, source = load_scenario(name)
        assert check(yaml.safe_load(to_yaml(scenario)), Scenario, source) == scenario


def test_paths_in_a_file_are_relative_to_it_and_those_set_to_the_current_directory(
    tmp_path, scenario_data, monkeypatch
):
    mine, here = tmp_path / "mine", tmp_path / "here"
    for folder in (mine, here):
        folder.mkdir()
        (folder / "lab.yaml").write_text("version: 1\ntitle: lab\nsize: [5, 5]\nmarker_map: sub/walls.yaml\n")
    (mine / "path.yaml").touch()
    frame = {**scenario_data["frame"], "generators": [{"name": "radio_loss", "share": 0.1}]}
    controller = {"name": "follow_path", "path": "path.yaml", "other": "gone.yaml"}
    robots = [{"kind": "../mine/robot.yaml", "place": {"zone": "drop"}, "count": 1}]
    data = {**scenario_data, "arena": "lab.yaml", "robots": robots, "controller": controller, "frame": frame}
    (mine / "s.yaml").write_text(yaml.safe_dump(data))
    monkeypatch.chdir(here)
    scenario, _ = load_scenario("../mine/s.yaml")
    assert scenario == Scenario.load("../mine/s.yaml")
    assert scenario.arena == str(mine / "lab.yaml")
    assert scenario.robots[0].kind == str(mine / "robot.yaml")
    assert scenario.controller.parameters == {"path": str(mine / "path.yaml"), "other": "gone.yaml"}
    assert scenario.carrier_markers == "dots_carrier"
    assert Arena.load(scenario.arena).marker_map == str(mine / "sub" / "walls.yaml")
    assert load_scenario("../mine/s.yaml", ["arena=lab.yaml"])[0].arena == str(here / "lab.yaml")


def test_a_scenario_and_its_files_come_from_an_installed_package(tmp_path, scenario_data, monkeypatch):
    package = tmp_path / "their_lab"
    (package / "scenarios").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "lab.yaml").write_text("version: 1\ntitle: lab\nsize: [5, 5]\n")
    places = [{"count": 1, "place": {"zone": "anywhere"}}]
    data = {**scenario_data, "arena": "package://their_lab/lab.yaml", "robots": places, "carriers": []}
    (package / "scenarios" / "s.yaml").write_text(yaml.safe_dump(data))
    monkeypatch.syspath_prepend(tmp_path)
    plan = make_plan(*load_scenario("package://their_lab/scenarios/s.yaml"))
    assert plan.scene.arena.size == (5, 5)
    pack(plan.scenario, plan.source, tmp_path)
    assert yaml.safe_load((tmp_path / "scenario.yaml").read_text())["arena"] == "files/worlds/lab.yaml"


@pytest.mark.parametrize("name", ["path_following", "epuck2_50", "transport", "convoy"])
def test_a_packed_scenario_is_the_same_with_its_own_files(name, tmp_path):
    scenario, source = load_scenario(name)
    pack(scenario, source, tmp_path)
    packed, copy = load_scenario(str(tmp_path / "scenario.yaml"))
    before, after = make_plan(scenario, source), make_plan(packed, copy)
    assert (name_of(packed, copy), name_of(scenario, source)) == (name, name)
    assert after.scene.robots == before.scene.robots
    assert after.parameters == before.parameters
    for field in ("size", "walls", "zones", "floor"):
        assert getattr(after.scene.arena, field) == getattr(before.scene.arena, field)
    assert after.scene.arena.markers() == before.scene.arena.markers()
    # A packed one packs into the same.
    (tmp_path / "again").mkdir()
    pack(packed, copy, tmp_path / "again")
    assert (tmp_path / "again" / "scenario.yaml").read_text() == (tmp_path / "scenario.yaml").read_text()


def test_files_of_one_name_do_not_take_each_others_place(tmp_path, scenario_data):
    text = (share_dir() / "config" / "robots" / "dots.yaml").read_text()
    robots = []
    for k, folder in enumerate(("a", "b", "a")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "dots.yaml").write_text(f"# {folder}\n{text}")
        robots.append(
            {"kind": f"{folder}/dots.yaml", "name": f"r{k}_", "count": 1, "place": {"zone": "drop"}}
        )
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({**scenario_data, "robots": robots}))
    (tmp_path / "out").mkdir()
    pack(*load_scenario(str(tmp_path / "s.yaml")), tmp_path / "out")
    kinds = [
        group["kind"] for group in yaml.safe_load((tmp_path / "out" / "scenario.yaml").read_text())["robots"]
    ]
    assert kinds == ["files/robots/dots.yaml", "files/robots/dots_2.yaml", "files/robots/dots.yaml"]
    assert (tmp_path / "out" / kinds[1]).read_text().startswith("# b")


@pytest.mark.parametrize("name", names(Scenario.FOLDER))
def test_shipped_scenarios_are_right(name):
    make_plan(*load_scenario(name))


@pytest.mark.parametrize(
    "name", ["intralogistics", "intralogistics_20", "fault_under_carrier", "aggregation", "dispersion"]
)
def test_shipped_scenarios_fit_for_any_seed(name):
    scenario, _ = load_scenario(name)
    for seed in range(900, 910):
        make_scene(scenario, seed)


def test_the_tree_of_a_controller():
    assert root_of("reference", [], "dots").children
    assert root_of("go_to_goal", ["goal=[1, 0, 0]"], "dots").children
    with pytest.raises(ConfigError, match="no behaviour tree"):
        root_of("fake_controllers:Drives", [], "dots")
    with pytest.raises(ConfigError, match="goal"):
        root_of("go_to_goal", ["goal=3"], "dots")


def test_a_fault_within_a_list_does_not_make_the_list_too_short(file):
    with pytest.raises(ConfigError) as told:
        load_scenario(file(robots=[{"count": "two", "place": {"zone": "drop"}}]), [])
    assert "robots.0.count" in str(told.value)
    assert "at least 1 item" not in str(told.value)
    with pytest.raises(ConfigError, match="robots: Tuple should have at least 1 item"):
        load_scenario(file(robots=[]), [])


def test_a_plan_knows_which_parts_are_real():
    assert make_plan(*load_scenario("remote_motors")).real_time_only == ""
    plan = make_plan(*load_scenario("remote_motors", ["robots.0.device.0.lockstep=false"]))
    assert plan.real == ("robots.0.device.0 (remote)",)
    assert "remote_motors.yaml: robots.0.device.0 (remote): real parts" in plan.real_time_only
    assert "--speed 1" in plan.real_time_only


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "robots.0.device.0.name=lidar",
            r"robots\.0\.device\.0: no device 'lidar': there are remote",
        ),
        ("robots.0.device.0.wings=2", r"robots\.0\.device\.0: device remote: wings: unknown field"),
        ("robots.0.device.0.rate=fast", r"device remote: rate: Input should be a valid number"),
    ],
)
def test_faults_of_devices_are_found_before_anything_is_opened(change, said):
    with pytest.raises(ConfigError, match=said):
        make_plan(*load_scenario("remote_motors", [change]))
