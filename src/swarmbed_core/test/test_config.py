"""Files are found, and what is wrong with one is told by file, field and remedy."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError, model_validator
from swarmbed_core.config import MOST_FAULTS, Part, anchored, check, find, load, share_dir
from swarmbed_core.errors import ConfigError
from swarmbed_core.safe_yaml import parse

from swarmbed_core import config

if TYPE_CHECKING:
    from collections.abc import Iterator

property_test = settings(deadline=None, max_examples=150, derandomize=True)


class Wheel(Part):
    """A piece for the tests."""

    radius: float
    ticks: int = 1


class Cart(Part):
    """A piece with pieces."""

    wheels: tuple[Wheel, ...]
    name: str = "cart"


@pytest.fixture
def fresh_share_dir() -> Iterator[None]:
    """Forget where config/ is, before and after."""
    share_dir.cache_clear()
    yield
    share_dir.cache_clear()


# Where files are.


@pytest.mark.usefixtures("fresh_share_dir")
def test_the_source_tree_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWARMBED_SHARE", raising=False)
    assert (share_dir() / "config" / "robots" / "dots.yaml").is_file()
    assert find("dots", "config/robots") == share_dir() / "config" / "robots" / "dots.yaml"


@pytest.mark.usefixtures("fresh_share_dir")
def test_the_environment_names_another_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    monkeypatch.setenv("SWARMBED_SHARE", str(tmp_path))
    assert share_dir() == tmp_path


@pytest.mark.usefixtures("fresh_share_dir")
def test_an_environment_that_names_nothing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWARMBED_SHARE", str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match=r"SWARMBED_SHARE=.*gone.*no config/"):
        share_dir()


@pytest.mark.usefixtures("fresh_share_dir")
def test_an_installed_workspace_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    share = tmp_path / "prefix" / "share" / "swarmbed_bringup"
    (share / "config" / "robots").mkdir(parents=True)
    monkeypatch.delenv("SWARMBED_SHARE", raising=False)
    monkeypatch.setattr(config, "__file__", str(tmp_path / "site-packages" / "swarmbed_core" / "config.py"))
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"{tmp_path / 'other'}:{tmp_path / 'prefix'}")
    assert share_dir() == share


@pytest.mark.usefixtures("fresh_share_dir")
@pytest.mark.parametrize("prefixes", ["", "/nowhere"])
def test_a_lost_config_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, prefixes: str) -> None:
    monkeypatch.delenv("SWARMBED_SHARE", raising=False)
    monkeypatch.setenv("AMENT_PREFIX_PATH", prefixes)
    monkeypatch.setattr(config, "__file__", str(tmp_path / "config.py"))
    with pytest.raises(ConfigError, match=r"scripts/env\.sh"):
        share_dir()


def test_a_path_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("x: 1\n")
    assert find(str(path), "config/robots") == path
    monkeypatch.chdir(tmp_path)
    assert find("mine.yaml", "config/robots") == Path("mine.yaml")


@pytest.mark.parametrize("name", ["gone.yaml", "some/where", "gone.yml", "/" + "a" * 300])
def test_a_path_to_nothing_is_told(name: str) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        find(name, "config/robots")


@pytest.mark.parametrize("name", ["dotz", "", "..", "a\0b", "a" * 300])
def test_an_unknown_name_lists_the_known(name: str) -> None:
    with pytest.raises(ConfigError, match=r"is not in config/robots: there are .*dots.*epuck2"):
        find(name, "config/robots")
    with pytest.raises(ConfigError, match="there are none"):
        find(name, "config/nothing")


@pytest.mark.parametrize("kind", ["ROS", "pip"])
def test_files_of_installed_packages_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "ROS":
        folder = tmp_path / "share" / "their_lab"
        monkeypatch.setenv("AMENT_PREFIX_PATH", f"{tmp_path / 'other'}:{tmp_path}")
    else:
        folder = tmp_path / "their_lab"
        monkeypatch.syspath_prepend(tmp_path)
    (folder / "arenas").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "arenas" / "lab.yaml").touch()
    assert find("package://their_lab/arenas/lab.yaml", "worlds") == folder / "arenas" / "lab.yaml"
    with pytest.raises(ConfigError, match=r"package://their_lab/no\.yaml: no such file in .*their_lab"):
        find("package://their_lab/no.yaml", "worlds")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("package://nobodys/x.yaml", "no package 'nobodys' found; install it"),
        ("package://nobodys", "write package://PACKAGE/FILE"),
        ("package://../x.yaml", "write package://PACKAGE/FILE"),
    ],
)
def test_a_package_that_is_not_there_is_told(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find(name, "worlds")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("dots", "dots"),
        ("package://p/x.yaml", "package://p/x.yaml"),
        ("/else/where.yaml", "/else/where.yaml"),
        ("x.yaml", "/base/x.yaml"),
        ("../sub/x.yml", "/sub/x.yml"),
        ("sub/x", "/base/sub/x"),
    ],
)
def test_relative_paths_are_relative_to_their_file(name: str, meant: str) -> None:
    assert anchored(name, Path("/base")) == meant


def test_names_are_those_of_the_files() -> None:
    names = config.names("config/robots")
    assert names == sorted(names)
    assert {"dots", "epuck2", "pera_swarm", "pioneer3dx", "convoy_car"} <= set(names)
    assert config.names("config/nothing") == []


# What is in them.


def load_text(tmp_path: Path, text: str) -> Cart:
    path = tmp_path / "cart.yaml"
    path.write_text(text)
    return load(path, Cart)


def test_a_good_file_loads(tmp_path: Path) -> None:
    cart = load_text(tmp_path, "name: mine\nwheels: [{radius: 0.5}, {radius: 1, ticks: 3}]\n")
    assert cart == Cart(name="mine", wheels=(Wheel(radius=0.5), Wheel(radius=1.0, ticks=3)))


def test_parts_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Wheel(radius=1.0).radius = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wheels: [", "not valid YAML"),
        ("", "expected a mapping of fields, found NoneType"),
        ("- 1", "expected a mapping of fields, found list"),
        ("just words", "expected a mapping of fields, found str"),
        ("name: x", r"cart\.yaml: wheels: missing"),
        ("wheels: []\ncolour: red", r"cart\.yaml: colour: unknown field"),
        ("wheels: []\n1: 2", r"cart\.yaml: 1: Keys should be strings"),
        ("wheels: [{radius: 1}, {radius: far}]", r"wheels\.1\.radius: .*valid number.*found 'far'"),
        ("wheels: [{radius: .nan}]", r"wheels\.0\.radius: .*finite.*found nan"),
        ("wheels: [{radius: .inf}]", r"wheels\.0\.radius: .*finite"),
        ("wheels: [{radius: 1, ticks: 1.5}]", r"wheels\.0\.ticks: .*integer"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        load_text(tmp_path, text)
    assert "cart.yaml" in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_every_fault_is_listed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(tmp_path, "wheels: [{}, {radius: x, spokes: 3}]\nname: 7\n")
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    assert all(line.startswith(str(tmp_path / "cart.yaml")) for line in lines)


def test_long_values_are_shortened(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"found 'xxx.*\.\.\.") as caught:
        load_text(tmp_path, f"wheels: [{{radius: {'x' * 5000}}}]\n")
    assert len(str(caught.value)) < 400


def test_a_thousand_faults_are_counted_not_listed(tmp_path: Path) -> None:
    fields = ", ".join(f"x{i}: 1" for i in range(1000))
    with pytest.raises(ConfigError, match="and 981 more faults") as caught:
        load_text(tmp_path, f"{{{fields}}}")
    assert len(str(caught.value).splitlines()) == MOST_FAULTS + 1


def test_long_names_of_fields_are_shortened(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown field") as caught:
        load_text(tmp_path, f"{{wheels: [], ? {'x' * 5000} : 1}}")
    assert len(str(caught.value)) < 400


class Rows(Part):
    """Rows that are never empty."""

    rows: tuple[Annotated[tuple[Wheel, ...], Field(min_length=1)], ...]


def test_many_lists_that_are_too_short_take_no_time() -> None:
    started = time.process_time()
    with pytest.raises(ConfigError, match=r"rows\.0: .*at least 1 item"):
        check({"rows": [[]] * 30_000}, Rows, "x.yaml")
    assert time.process_time() - started < 10, "it was minutes"


class OddError(Exception):
    """An error whose text is one too."""

    def __str__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (KeyError("gone"), "Raises: KeyError: 'gone'"),
        (SystemExit(3), "Raises: SystemExit: 3"),
        (GeneratorExit(), "Raises: GeneratorExit"),
        (
            OddError(),
            r"Raises: OddError: \(its message cannot be shown: str\(\) .*ZeroDivisionError",
        ),
    ],
)
def test_whatever_a_users_model_raises_is_a_fault(raised: BaseException, said: str) -> None:
    class Raises(Part):
        @model_validator(mode="before")
        @classmethod
        def _fails(cls, _: object) -> object:
            raise raised

    with pytest.raises(ConfigError, match=f"x\\.yaml: cannot be checked by .*{said}"):
        check({}, Raises, "x.yaml")


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cart\.yaml: cannot be read"):
        load(tmp_path / "cart.yaml", Cart)


class Pair(Part):
    """A piece whose fields have to fit each other."""

    low: float
    high: float

    @model_validator(mode="after")
    def _rises(self) -> Pair:
        if self.low > self.high:
            message = "low must not be above high"
            raise ValueError(message)
        return self


def test_a_fault_of_no_single_field_is_the_whole_files() -> None:
    with pytest.raises(ConfigError, match=r"x\.yaml: \(whole file\): .*low must not be above high"):
        check({"low": 2.0, "high": 1.0}, Pair, "x.yaml")


@property_test
@given(st.text(max_size=60))
def test_no_text_does_worse_than_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        check(parse(text, "random.yaml"), Cart, "random.yaml")


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@property_test
@given(st.one_of(json_like, st.dictionaries(st.sampled_from(["wheels", "name", "x"]), json_like)))
def test_no_data_does_worse_than_a_config_error(data: object) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(check(data, Cart, "random.yaml"), Cart)


class _Switch(Part):
    lit: bool
    size: float = 1.0
    name: str = ""


@pytest.mark.parametrize("field", ["size: yes", "name: true"])
def test_yes_and_no_are_no_numbers_and_no_texts(tmp_path, field):
    file = tmp_path / "switch.yaml"
    file.write_text(f"lit: yes\n{field}\n")
    with pytest.raises(ConfigError, match=r"(size|name): .*yes and no"):
        load(file, _Switch)
    file.write_text("lit: yes\n")
    assert load(file, _Switch).lit
