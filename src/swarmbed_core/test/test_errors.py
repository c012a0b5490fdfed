"""One family of errors, told apart by what a person has to mend."""

from __future__ import annotations

import inspect

import pytest
from swarmbed_core.errors import SwarmbedError

from swarmbed_core import errors

FAMILY = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]


def test_there_is_a_base_and_more_than_one_kind() -> None:
    assert SwarmbedError in FAMILY
    assert len(FAMILY) > 3


@pytest.mark.parametrize("kind", FAMILY)
def test_who_catches_the_base_catches_each(kind: type[Exception]) -> None:
    assert issubclass(kind, SwarmbedError)
