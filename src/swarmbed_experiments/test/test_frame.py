"""Parts of frames are found by name and checked."""

import pytest
from swarmbed_core.errors import ConfigError
from swarmbed_core.plugins import ACCEPTORS, GENERATORS, TRANSDUCERS, known
from swarmbed_core.scenario import Named
from swarmbed_experiments.frame import find_part


@pytest.mark.parametrize("group", [GENERATORS, TRANSDUCERS, ACCEPTORS])
def test_all_there_are_can_be_made_but_for_what_they_need(group):
    needs = {"arrived": {"places": [[0, 0, 0]]}, "readings": {"sense": "tof"}}
    for name in known(group):
        made, parameters = find_part(group, Named(name=name, **needs.get(name, {})), "t")
        assert isinstance(parameters, made.Parameters)


def test_parameters_are_checked_under_their_name():
    with pytest.raises(ConfigError, match="t: generator radio_loss: share: Input should be less than"):
        find_part(GENERATORS, Named(name="radio_loss", share=2), "t")


def test_what_is_no_part_is_refused():
    with pytest.raises(ConfigError, match="generator 'fake_controllers:Nothing' is not a class with Param"):
        find_part(GENERATORS, Named(name="fake_controllers:Nothing"), "t")
