"""Pictures: what happened is in them, at the right place, and nothing else breaks them."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import EllipseCollection, PolyCollection
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_experiments.frame import Event
from swarmbed_experiments.pictures import plots
from swarmbed_experiments.runs.track import Track

SUMMARY = {
    "scenario": "fetch",
    "title": "Fetch $them_all",
    "world": "planar",
    "controller": "reference",
    "seed": 3,
    "verdict": "accepted",
    "sim_seconds": 20.0,
    "metrics": {"carriers_retrieved": 2},
}


def a_run(robots=3, carriers=2, samples=200, kind="dots", arena="dots_arena"):
    """Robots that drive along x to the right, the first ones with a carrier from the middle of the run on."""
    place = {"area": {"x_min": -2.3, "x_max": 2.3, "y_min": -2.3, "y_max": 2.3}}
    scene = make_scene(
        Scenario.model_validate(
            {
                "version": 1,
                "title": "drawn",
                "arena": arena,
                "time_limit": 60,
                "controller": {"name": "none"},
                "robots": [{"kind": kind, "count": robots, "place": {**place, "gap": 0.01}}],
                "carriers": [{"count": carriers, "place": place}] if carriers else [],
                "obstacles": [
                    {"shape": "box", "size": [0.4, 0.2], "pose": [0.5, 1.5, 0.3]},
                    {"shape": "cylinder", "radius": 0.1, "pose": [0.5, -1.5, 0]},
                ],
            }
        )
    )
    times = np.arange(1, samples + 1) / 10
    poses = np.zeros((samples, robots, 3))
    poses[:] = [placement.pose for placement in scene.robots]
    poses[:, :, 0] += np.linspace(0.0, 0.5, samples)[:, None]
    carrier_poses = np.zeros((samples, carriers, 3))
    carried_by = np.full((samples, carriers), -1)
    doing = np.zeros((samples, robots), dtype=np.int64)
    half = samples // 2
    events = [Event(3.0, "contact", "dots1", "dots1 and wall"), Event(4.0, "robot_death", "dots2", "dies")]
    for c, placement in enumerate(scene.carriers):
        carrier_poses[:, c] = placement.pose
        carrier_poses[half:, c] = poses[half:, c]
        carried_by[half:-10, c] = c
        doing[half:, c] = 1
        events.append(Event(float(times[-10]), "retrieved", placement.name, "there"))
    track = Track(
        robots=tuple(placement.name for placement in scene.robots),
        carriers=tuple(placement.name for placement in scene.carriers),
        times=times,
        poses=poses,
        doing=doing,
        deeds=("explore", "take to drop zone", "never done"),
        carrier_poses=carrier_poses,
        carried_by=carried_by,
        events=tuple(events),
    )
    return scene, track


def test_tracks_show_who_went_where_with_what(tmp_path, figures, is_drawn):
    scene, track = a_run()
    plots.draw_tracks(tmp_path / "tracks.png", scene, track, SUMMARY)
    assert is_drawn(tmp_path / "tracks.png")
    (axes,) = figures[0].axes
    names = figures.labels(0)
    assert names == [
        "search zone", "drop zone", "obstacle", "dots1", "dots2", "dots3", "start", "carrying",
        "carrier at the start", "carrier at the end", "contact (1)",
    ]  # fmt: skip
    # The ids at the start and at the end.
    assert sorted(figures.texts(axes)) == ["100", "100", "101", "101"]
    assert axes.get_title() == "Fetch $them_all\nreference, planar, seed 3: accepted after 20.0 s"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x (m)", "y (m)")
    assert axes.get_aspect() == 1.0
    thick = [line for line in axes.get_lines() if line.get_linewidth() > 3]
    assert len(thick) == 2
    for r, line in enumerate(thick):
        np.testing.assert_allclose(line.get_xdata()[1:], track.poses[100:-10, r, 0])
    (mark,) = (line for line in axes.get_lines() if line.get_marker() == "X")
    assert mark.get_xydata()[0] == pytest.approx(track.poses[29, 0, :2])


def test_a_track_starts_where_the_robot_was_put(tmp_path, figures):
    scene, track = a_run(robots=1, carriers=0)
    plots.draw_tracks(tmp_path / "tracks.png", scene, track, SUMMARY)
    path = max(figures[0].axes[0].get_lines(), key=lambda line: len(line.get_xdata()))
    assert tuple(path.get_xydata()[0]) == pytest.approx(scene.robots[0].pose[:2])
    assert len(path.get_xdata()) == 201
    assert "carrying" not in figures.labels(0)


def test_twenty_robots_can_be_told_apart(tmp_path, figures):
    scene, track = a_run(robots=20, carriers=1)
    plots.draw_tracks(tmp_path / "tracks.png", scene, track, SUMMARY)
    legend = figures[0].axes[0].get_legend()
    looks = {
        (handle.get_color(), str(handle._dash_pattern))
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
        if text.get_text().startswith("dots")
    }
    assert len(looks) == 20


def test_carriers_that_nobody_moved_are_drawn_once(tmp_path, figures):
    scene, track = a_run()
    still = replace(track, carrier_poses=np.array([[item.pose for item in scene.carriers]] * 200))
    plots.draw_tracks(tmp_path / "tracks.png", scene, still, SUMMARY)
    assert sorted(figures.texts(figures[0].axes[0])) == ["100", "101"]


def test_a_crowd_is_a_density(tmp_path, figures, is_drawn):
    scene, track = a_run(robots=60, carriers=0, samples=20)
    plots.draw_tracks(tmp_path / "tracks.png", scene, track, SUMMARY)
    assert is_drawn(tmp_path / "tracks.png")
    axes, scale = figures[0].axes
    assert "60 robots at the end" in figures.labels(0)
    assert "dots1" not in figures.labels(0)
    assert scale.get_ylabel() == "robot-seconds spent there"
    (mesh,) = (item for item in axes.collections if item.colorbar)
    (bodies,) = (item for item in axes.collections if isinstance(item, EllipseCollection))
    np.testing.assert_allclose(bodies.get_offsets(), track.poses[-1, :, :2])
    inside = int((np.abs(track.poses[..., :2]) <= 2.5).all(axis=2).sum())
    assert float(mesh.get_array().sum()) == pytest.approx(0.1 * inside)


def test_thousands_can_be_drawn(tmp_path, is_drawn):
    rng = np.random.default_rng(1)
    scene, track = a_run(robots=30, carriers=0, samples=3)
    many = replace(
        scene, robots=tuple(replace(scene.robots[0], name=f"dots{k}") for k in range(2000)), crowd=True
    )
    names = tuple(item.name for item in many.robots)
    poses = rng.uniform(-2.4, 2.4, (3, 2000, 3))
    crowd = replace(
        track, robots=names, poses=poses, doing=np.zeros((3, 2000), int), carried_by=np.zeros((3, 0), int)
    )
    plots.draw_tracks(tmp_path / "tracks.png", many, crowd, SUMMARY)
    assert is_drawn(tmp_path / "tracks.png")


@pytest.mark.parametrize("kind", ["pioneer3dx", "epuck2"])
def test_robots_of_any_shape_in_an_open_arena(tmp_path, kind, figures):
    scene, track = a_run(robots=2, carriers=0, kind=kind, arena="empty")
    plots.draw_tracks(tmp_path / "tracks.png", scene, track, SUMMARY)
    (axes,) = figures[0].axes
    assert axes.get_xlim()[0] < track.poses[..., 0].min() < track.poses[..., 0].max() < axes.get_xlim()[1]
    assert "search zone" not in figures.labels(0)


def test_a_run_of_one_sample_can_be_drawn(tmp_path, is_drawn):
    scene, track = a_run(samples=20)
    one = replace(
        track,
        times=track.times[:1],
        poses=track.poses[:1],
        doing=track.doing[:1],
        carrier_poses=track.carrier_poses[:1],
        carried_by=track.carried_by[:1],
        events=(),
    )
    plots.draw_tracks(tmp_path / "tracks.png", scene, one, SUMMARY)
    plots.draw_timeline(tmp_path / "timeline.png", scene, one, SUMMARY)
    crowd_scene, crowd = a_run(robots=40, carriers=0, samples=1)
    plots.draw_tracks(tmp_path / "crowd.png", crowd_scene, crowd, SUMMARY)
    assert is_drawn(tmp_path / "crowd.png")


def bars(axes):
    """Return colour -> [(from, to)] of the bars on a timeline."""
    found = {}
    for item in axes.collections:
        if isinstance(item, PolyCollection):
            for path in item.get_paths():
                box = path.get_extents()
                colour = mpl.colors.to_hex(item.get_facecolor()[0])
                found.setdefault(colour, []).append((round(box.x0, 6), round(box.x1, 6)))
    return found


def test_the_timeline_shows_who_did_what_when(tmp_path, figures, is_drawn):
    scene, track = a_run()
    plots.draw_timeline(tmp_path / "timeline.png", scene, track, SUMMARY)
    assert is_drawn(tmp_path / "timeline.png")
    rows, count = figures[0].axes
    assert [label.get_text() for label in rows.get_yticklabels()] == ["dots1", "dots2", "dots3"]
    colours = plots._deed_colours(track)
    assert list(colours) == ["explore", "take to drop zone"]
    drawn = bars(rows)
    assert sorted(drawn[colours["explore"].lower()]) == [(0.0, 10.0), (0.0, 10.0), (0.0, 20.0)]
    assert drawn[colours["take to drop zone"].lower()] == [(10.0, 20.0)] * 2
    assert drawn[plots.INK] == [(10.0, 19.0)] * 2
    stars = next(line for line in rows.get_lines() if line.get_marker() == "*")
    assert stars.get_xydata().tolist() == [[pytest.approx(19.1), 0], [pytest.approx(19.1), 1]]
    assert count.get_ylabel() == "carriers\nretrieved"
    assert count.get_xlabel() == "time (s)"
    assert figures.labels(0) == [
        "explore", "take to drop zone", "carrying", "contact", "carrier delivered", "robot death\n4 s: dots2",
    ]  # fmt: skip


def test_what_is_done_rarely_shares_a_colour(tmp_path, figures):
    scene, track = a_run(robots=2, carriers=0)
    deeds = tuple(f"deed {k}" for k in range(30))
    doing = np.minimum(np.arange(200) // 4, 29)[:, None].repeat(2, axis=1)
    many = replace(track, deeds=(*deeds, "dead"), doing=doing)
    many.doing[-10:, 1] = 30
    plots.draw_timeline(tmp_path / "timeline.png", scene, many, SUMMARY)
    names = figures.labels(0)
    assert len([name for name in names if name.startswith("deed")]) == len(plots.DEEDS) - 1
    assert "deed 29" in names
    assert "other" in names
    assert "dead" in names
    assert bars(figures[0].axes[0])[plots.INK] == [(19.0, 20.0)]


def test_what_programs_say_is_no_formula_and_is_shortened(tmp_path, figures, is_drawn):
    scene, track = a_run()
    deeds = ("a $x_{ b$", "word " * 30)
    plots.draw_timeline(tmp_path / "timeline.png", scene, replace(track, deeds=deeds), SUMMARY)
    assert is_drawn(tmp_path / "timeline.png")
    assert figures.labels(0)[:2] == ["a $x_{ b$", ("word " * 6)[:29] + "…"]


def test_carriers_are_counted_on_the_timeline_where_they_were_counted(tmp_path, figures):
    scene, track = a_run()
    plots.draw_timeline(tmp_path / "timeline.png", scene, track, {**SUMMARY, "metrics": {}})
    (axes,) = figures[0].axes
    assert axes.get_xlabel() == "time (s)"


def test_many_robots_have_shares_on_the_timeline(tmp_path, figures):
    scene, track = a_run(robots=40, carriers=0, samples=50)
    doing = track.doing.copy()
    doing[25:, :10] = 1
    plots.draw_timeline(tmp_path / "timeline.png", scene, replace(track, doing=doing), SUMMARY)
    (axes,) = figures[0].axes
    assert axes.get_ylabel() == "robots"
    assert axes.get_ylim() == (0, 40)
    assert figures.labels(0)[:2] == ["explore", "take to drop zone"]


def test_costs_have_a_line_for_each_kind_and_one_for_real_time(tmp_path, figures, is_drawn):
    rows = [
        {"what": what, "robots": n, "ms_per_second": cost * n, "mb": 80 + n}
        for what, cost in (("mujoco", 6.0), ("planar crowd", 0.1))
        for n in (1000, 1, 30)
    ]
    plots.draw_cost(tmp_path / "cost.png", rows)
    assert is_drawn(tmp_path / "cost.png")
    assert figures.labels(0) == ["mujoco", "planar crowd", "real time"]
    time, memory = figures[0].axes
    assert time.get_lines()[0].get_xdata().tolist() == [1, 30, 1000]
    assert memory.get_ylabel() == "memory (MB)"
    plots.draw_cost(tmp_path / "cost.png", [{"what": "x", "robots": 1, "ms_per_second": 2.0}])
    assert len(figures[1].axes) == 1
