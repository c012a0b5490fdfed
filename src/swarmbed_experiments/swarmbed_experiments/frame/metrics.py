"""The metrics that runs, and the parts of this package's frames, return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarmbed_core.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

SENSES = ("proximity", "light", "ground", "tof", "encoders", "camera", "imu", "battery")
"""Names that `readings` records, each also with `_times` and `_poses`."""
METRICS: Mapping[str, Metric] = {
    "completion_seconds": Metric("done after", "s", 0),
    "carriers_retrieved": Metric("carriers retrieved", "", 1),
    "items": Metric("items delivered", "", 2),
    "seconds_per_item": Metric("round trip with an item, mean", "s", 3),
    "convoy_error": Metric("error of the convoy, mean", "m", 4),
    "formation_error_max": Metric("formation error, worst", "m", 5),
    "goal_error": Metric("distance from the goal", "m", 6),
    "escaped_seconds": Metric("drop zone left after", "s", 20),
    "formation_turn_max": Metric("formation turned by at most", "rad", 21),
    "convoy_error_worst": Metric("error of the convoy, worst robot", "m", 22),
    "convoy_speed": Metric("speed of the convoy", "m/s", 23),
    "jam_robots": Metric("robots in the worst jam", "", 31),
    "jam_seconds": Metric("worst jam after", "s"),
    "tracked": Metric("tracked robots", "", 32),
    "tracked_losses": Metric("losses of tracked robots", "", 33),
    "tracked_lost_seconds": Metric("tracked robots lost for", "s", 34),
    "tellings": Metric("tellings accepted"),
    "tellings_blocked": Metric("tellings blocked"),
    "tellings_refused": Metric("tellings rejected"),
    "localisation_error_mean": Metric("localisation error, mean", "m", 35),
    "localisation_error_max": Metric("localisation error, worst", "m", 36),
    "collisions": Metric("collisions between robots", "", 40),
    "max_approach_speed": Metric("fastest approach of two robots", "m/s", 41),
    "distance_per_robot": Metric("distance per robot", "m", 42),
    "energy_wh": Metric("energy, all robots", "Wh", 43),
    "messages": Metric("messages sent", "", 44),
    "messages_lost": Metric("messages lost", "", 45),
    "messages_heard": Metric("messages received"),
    "carriers": Metric("carriers"),
    "lifts": Metric("carriers lifted, times"),
    "contacts_with_carriers": Metric("contacts with carriers"),
    "contacts_with_walls": Metric("contacts with walls and obstacles"),
    "max_contact_speed": Metric("fastest contact", "m/s"),
    "max_speed": Metric("fastest robot", "m/s"),
    "distances": Metric("distance of each robot", "m"),
    "convoy_errors": Metric("error of the convoy over time", "m"),
    "convoy_error_along": Metric("error of the convoy along its length", "m"),
    "items_by_robot": Metric("items of each robot"),
    "items_when": Metric("when items were delivered", "s"),
    "with_route_when": Metric("when robots got a route", "s"),
    "slow_robots": Metric("robots standing still, each minute"),
    "jam_poses": Metric("where robots stood in the worst jam"),
    "sim_seconds": Metric("simulated time", "s"),
    "wall_seconds": Metric("computed in", "s"),
    "cpu_seconds": Metric("CPU time", "s"),
    "real_time_factor": Metric("times real time"),
    **{f"{sense}{what}": Metric(f"{sense}{what}") for sense in SENSES for what in ("", "_times", "_poses")},
}
