import pytest
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.frame import Stand
from swarmbed_experiments.frame.agreement import Agreed, AgreedParameters
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.scenarios import load_scenario


@pytest.fixture
def judged(stage):
    """What an acceptor makes of what two robots say at some time."""
    made = stage()
    agreed = Agreed(AgreedParameters(seconds=2.0), made.setting)

    def judge(time, *doing):
        return agreed.judge(made.look(time, doing=doing), over=False)

    judge.setting, judge.agreed = made.setting, agreed
    return judge


def test_robots_that_say_the_same_for_long_enough_agree(judged):
    assert judged(0.1, "a", "b").reason == "1 of 2 robots say 'a' after 0.1 s"
    assert judged(0.2, "b", "b").stand is Stand.OPEN
    assert judged(2.1, "b", "b").stand is Stand.OPEN
    assert judged.agreed.metrics() == {"completion_seconds": None}
    done = judged(2.2, "b", "b")
    assert (done.stand, done.reason) == (Stand.ACCEPTED, "all robots have said 'b' since 0.2 s")
    assert judged.agreed.metrics() == {"completion_seconds": 0.2}


def test_a_change_of_mind_begins_anew(judged):
    judged(0.2, "b", "b")
    judged(1.0, "b", "c")
    assert judged(2.5, "b", "b").stand is Stand.OPEN
    assert judged(4.0, "c", "c").stand is Stand.OPEN
    assert judged(5.9, "c", "c").stand is Stand.OPEN
    assert judged(6.0, "c", "c").stand is Stand.ACCEPTED


def test_the_dead_have_no_voice(judged):
    judged.setting.dead.add("dots1")
    judged(1.0, "dead", "b")
    assert judged(3.0, "dead", "b").stand is Stand.ACCEPTED
    judged.setting.dead.add("dots2")
    assert judged(4.0, "dead", "dead").stand is Stand.OPEN


def test_programs_that_say_nothing_are_named(judged):
    with pytest.raises(RunError, match="does not say what each robot does"):
        judged(1.0)


@pytest.mark.parametrize("frame", ["[]", "[{name: robot_death, count: 10, after: 10}]"])
def test_robots_elect_a_leader(frame):
    """The scenario as it comes, and with half of the robots falling silent."""
    run = Run(*load_scenario("leader_election", [f"frame.generators={frame}"]))
    summary = run.go()
    run.close()
    assert summary["verdict"] == "accepted", summary["reason"]
    assert summary["metrics"]["completion_seconds"] > 0.5
    assert summary["refused"] == {}
