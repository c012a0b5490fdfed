"""World files that people open: written where they were asked for, and opened by Gazebo without complaint."""

import signal
import socket
import subprocess
from xml.etree import ElementTree as ET

import cv2
import pytest
from swarmbed_core.detector import Detector
from swarmbed_core.health import Health
from swarmbed_gazebo.place import find, missing
from swarmbed_gazebo.sdf import GAZEBO11, HARMONIC
from swarmbed_gazebo.server import CHATTER, COLOUR
from typer.testing import CliRunner

from swarmbed_experiments import cli

pytestmark = pytest.mark.slow

ABSENT = missing(GAZEBO11)
needs_gazebo11 = pytest.mark.skipif(bool(ABSENT), reason=ABSENT)
runner = CliRunner()


def test_a_file_and_its_pictures_come_where_they_were_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my").mkdir()
    words = [
        "sdf",
        "intralogistics",
        "--world-file",
        "my/hall.sdf",
        "--seed",
        "5",
        "--set",
        "robots.0.count=3",
    ]
    result = runner.invoke(cli.app, words)
    assert result.exit_code == 0, result.output
    assert "my/hall.sdf: 3 robots, 5 carriers; its textures are in my/textures" in result.output
    assert "open it: (cd my && gazebo hall.sdf) for Gazebo 11, gz sim my/hall.sdf" in result.output
    world = ET.parse(tmp_path / "my/hall.sdf").getroot()
    assert {uri.text for uri in world.iter("uri")} == {"textures"}
    assert world.find("world/plugin") is None
    for picture in world.iter("albedo_map"):
        assert (tmp_path / "my" / picture.text).is_file()


def test_for_gz_sim_alone_it_has_no_scripts_of_ogre(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(cli.app, ["sdf", "intralogistics", "--harmonic"])
    assert result.exit_code == 0, result.output
    world = ET.parse(tmp_path / "intralogistics.sdf").getroot()
    assert not list(world.iter("script"))
    assert list(world.iter("albedo_map"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--world-file", "x.yaml"], "use a name that ends in .sdf or .world"),
        (["--world-file", "nowhere/there/x.sdf"], None),
        (["--seed", "-1"], None),
    ],
)
def test_what_cannot_be_written_is_told(words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nowhere").touch()
    result = runner.invoke(cli.app, ["sdf", "intralogistics", *words])
    assert result.exit_code != 0
    assert told is None or told in str(result.exception)


@needs_gazebo11
def test_gazebo_opens_it_by_hand_without_a_complaint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert runner.invoke(cli.app, ["sdf", "intralogistics", "--world-file", "x.sdf"]).exit_code == 0
    place = find(GAZEBO11)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        made = place.environment(probe.getsockname()[1], tmp_path)
    server = subprocess.Popen(
        [place.server, "--verbose", "x.sdf"], env=made, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(6.0)
    server.send_signal(signal.SIGTERM)
    said = COLOUR.sub("", server.communicate()[0].decode())
    assert "Connected to gazebo master" in said
    told = [line for line in said.splitlines() if line and not CHATTER.search(line)]
    assert not [line for line in told if "Err" in line or "rror" in line]


@pytest.mark.skipif(bool(missing(HARMONIC)), reason=missing(HARMONIC))
@pytest.mark.parametrize("words", [[], ["--harmonic"]])
def test_gz_sim_opens_it_by_hand_without_a_complaint(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my").mkdir()
    made = ["sdf", "intralogistics", "--world-file", "my/x.sdf", *words]
    assert runner.invoke(cli.app, made).exit_code == 0
    place = find(HARMONIC)
    server = subprocess.Popen(
        place.command(1, tmp_path / "my" / "x.sdf"),
        env=place.environment(0, tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(6.0)
    server.send_signal(signal.SIGKILL)
    told = COLOUR.sub("", server.communicate()[0].decode()).splitlines()
    assert not [line for line in told if "Error Code" in line or "[Err]" in line]


@needs_gazebo11
def test_a_picture_shows_the_arena_with_its_codes(tmp_path):
    file = tmp_path / "x.png"
    result = runner.invoke(cli.app, ["sdf", "intralogistics", "--picture", str(file)])
    assert result.exit_code == 0, result.output
    assert list(tmp_path.iterdir()) == [file]
    image = cv2.imread(str(file), cv2.IMREAD_GRAYSCALE)
    assert image.shape == (800, 1200)
    # All that hang on the walls that one faces.
    found = set(Detector(1200, 800, Health()).detect(image).ids.tolist())
    assert len(found & set(range(12))) >= 5
    result = runner.invoke(cli.app, ["sdf", "intralogistics", "--picture", str(tmp_path / "no/x.png")])
    assert "picture cannot be written" in str(result.exception)
