"""What README and docs/ show works: their programs run, their commands and files exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = [
    pytest.param(block, id=f"{page.name}-{i}")
    for page in PAGES
    for i, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    )
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_run_and_say_something(program, tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()
    assert "nan" not in result.stdout


def test_the_tutorial_can_be_followed(tmp_path):
    """Its files are saved and its commands run, one after the other, as a student does."""
    page = (ROOT / "docs" / "tutorial.md").read_text()
    blocks = re.findall(r"(?:as\s+`([\w.]+)`:\n\n)?^```(\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert [name for name, _, _ in blocks if name] == ["curious.py", "curious.yaml"]
    for name, kind, block in blocks:
        if name:
            (tmp_path / name).write_text(block)
        for command in block.splitlines() if kind == "sh" else ():
            result = subprocess.run(
                ["bash", "-c", command],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                timeout=100,
                check=False,
            )
            assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    assert (tmp_path / "reference.png").stat().st_size > 10_000
    assert list(tmp_path.glob("runs/curious-*/tracks.png"))
    assert (tmp_path / "sweeps/curious/sweep.json").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_scripts_exist(page):
    text = page.read_text()
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    scripts = re.findall(r"\b(scripts/[a-z_]+(?:\.sh)?)", text)
    assert len(text.splitlines()) > 5
    for link in links:
        assert (page.parent / link).exists(), link
    for script in scripts:
        assert (ROOT / script).exists(), script


def test_the_readme_is_a_page():
    assert len((ROOT / "README.md").read_text().splitlines()) < 100
