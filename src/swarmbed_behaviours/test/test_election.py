import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from swarmbed_behaviours.election import Ballot, Candidate, Election, ElectionParameters, Message, talker_of
from swarmbed_core.device import RadioPacket
from swarmbed_core.errors import ConfigError
from swarmbed_core.leds import COLOURS
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld
from swarmbed_core.spec import RobotSpec


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.text(max_size=16))
def test_messages_survive_the_radio(rank, count, name):
    message = Message(Candidate(rank, name), count)
    assert Message.unpack(message.pack()) == message


@pytest.mark.parametrize("payload", [b"", b"short", b"12345678\xff\xfe"])
def test_what_others_send_is_no_message(payload):
    assert Message.unpack(payload) is None


def talk(ballots, links, ticks, start=0, silent=()):
    """Let robots tick: what each says is heard at the next tick by those that it is linked to."""
    said = {}
    for tick in range(start, start + ticks):
        heard = {i: [said[k] for k in links[i] if k in said] for i in range(len(ballots))}
        said = {i: ballot.update(tick / 10, heard[i]) for i, ballot in enumerate(ballots) if i not in silent}
    return [ballot.leader.name for ballot in ballots]


LINE = {0: [1], 1: [0, 2], 2: [1, 3], 3: [2, 4], 4: [3]}


def line(ranks=(5, 1, 4, 2, 3), patience=2.0):
    return [Ballot(Candidate(rank, f"r{i}"), patience) for i, rank in enumerate(ranks)]


def test_the_highest_rank_leads_also_those_that_do_not_hear_it():
    ballots = line()
    assert talk(ballots, LINE, 3) == ["r0", "r0", "r0", "r2", "r2"]
    assert talk(ballots, LINE, 10, start=3) == ["r0"] * 5
    # The leader's count comes all the way: nobody gives it up.
    assert talk(ballots, LINE, 100, start=13) == ["r0"] * 5


def test_of_equal_ranks_the_name_decides():
    assert talk(line(ranks=(7, 7, 7, 7, 7)), LINE, 20) == ["r4"] * 5


def test_a_silent_leader_is_replaced_and_old_news_does_not_bring_it_back():
    ballots = line()
    talk(ballots, LINE, 30)
    leaders = talk(ballots, LINE, 60, start=30, silent={0})
    assert leaders[1:] == ["r2"] * 4
    for leader in (ballot.leader for ballot in ballots[1:]):
        assert leader == ballots[2].me


def test_a_leader_that_speaks_again_leads_again():
    ballots = line()
    talk(ballots, LINE, 30)
    talk(ballots, LINE, 60, start=30, silent={0})
    assert talk(ballots, LINE, 20, start=90) == ["r0"] * 5


def test_robots_choose_the_radio_that_carries_most():
    assert talker_of(RobotSpec.load("dots"), "dots1").name == "ble"
    assert talker_of(RobotSpec.load("pera_swarm"), "robot1").name == "simple"


def test_robots_without_a_radio_for_it_are_refused():
    spec = RobotSpec.load("dots")
    with pytest.raises(ConfigError, match="has no radio"):
        talker_of(spec.model_copy(update={"radios": ()}), "dots1")
    with pytest.raises(ConfigError, match=r"sends at most 24 bytes, by .ble.; "):
        talker_of(spec, "a" * 20)


def test_a_robot_says_shows_and_does_what_it_believes(fake):
    program = Election(fake, ElectionParameters(), np.random.default_rng(1))
    program.tick()
    first = fake.commands[-1]
    assert program.doing == "leader dots1"
    assert Message.unpack(first.send["ble"]).leader.name == "dots1"
    assert first.leds == [COLOURS["green"]] * 16
    news = Message(Candidate(2**32 - 1, "dots9"), 4)
    heard = {"ble": (RadioPacket(0.1, "dots2", struct.pack("<I", 3)), RadioPacket(0.1, "dots3", news.pack()))}
    fake.senses = replace(fake.senses, time=0.1, heard=heard)
    program.tick()
    assert program.doing == "leader dots9"
    assert Message.unpack(fake.commands[-1].send["ble"]) == news
    assert fake.commands[-1].leds == [COLOURS["off"]] * 16


def test_whole_robots_agree_by_radio():
    # A metre apart in a line: the radio of a Pera-Swarm robot reaches 0.6 m, that of a convoy car 1.5 m.
    world = MemoryWorld.of(["convoy_car"] * 4, seed=3)
    swarm = LocalSwarm(world)
    seeds = np.random.SeedSequence(3).spawn(4)
    programs = [
        Election(robot, ElectionParameters(), np.random.default_rng(seed))
        for robot, seed in zip(swarm.robots, seeds, strict=True)
    ]
    for _ in range(20):
        for program in programs:
            program.tick()
        swarm.run(0.1)
    highest = max(program.ballot.me for program in programs)
    assert [program.doing for program in programs] == [f"leader {highest.name}"] * 4
    assert all(robot.sense().refused == {} for robot in swarm.robots)
