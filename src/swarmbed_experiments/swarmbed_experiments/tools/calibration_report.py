"""Results of a camera calibration: YAML files, pictures, and an HTML page (DOTS paper, III-A4b).

A camera's YAML file has the format of those in `config/cameras`. The page shows for each camera its
intrinsics with standard deviations, a picture of the residuals, and the data that was not used. It needs no
other file.
"""

from __future__ import annotations

import base64
import html
import math
from typing import TYPE_CHECKING

import numpy as np
import yaml
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from swarmbed_core.calibration import INTRINSICS, MOUNTING, CalibrationResult
from swarmbed_core.calibration_target import coverage

from swarmbed_experiments.errors import RunError, unwritable
from swarmbed_experiments.files import write_text
from swarmbed_experiments.pictures.drawing import ALARM, DPI, GREY, INK, PALETTE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.axes import Axes
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.health import Health

PAGE = "report.html"
GOOD, DOUBTFUL, FAILED = "good", "doubtful", "failed"
COLOURS = {GOOD: "#117733", DOUBTFUL: "#B06000", FAILED: "#C02020"}
ARROWS_MOST = 1500
"""Most residuals drawn as arrows: more could not be told apart."""
BINS = 12

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 1100px; margin: 2em auto }
table { border-collapse: collapse; margin: 1em 0 }
td, th { padding: .25em .9em .25em 0; text-align: left; border-bottom: 1px solid #ddd; vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums }
img { width: 100% }
h2 { margin-top: 2em; border-top: 2px solid #222; padding-top: .5em }
.verdict { font-weight: 600 }
"""


def write_report(
    directory: Path,
    outcomes: Mapping[str, CalibrationResult | str],
    refused: Mapping[str, Health] | None = None,
    *,
    title: str = "Calibration of cameras",
) -> Path:
    """Write the files of a calibration; return the page.

    Args:
        directory: where to write; created if missing.
        outcomes: the result of each camera, or the reason why it failed.
        refused: counts of rejected pictures, by camera.
        title: title of the page.

    Raises:
        RunError: a file cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{directory}: cannot be made ({error.strerror})"
        raise RunError(message) from None
    sections = []
    for name, outcome in outcomes.items():
        lines = [] if refused is None or name not in refused else _refusals(refused[name])
        if isinstance(outcome, CalibrationResult):
            write_text(directory / f"{name}.yaml", _yaml(outcome))
            picture = directory / f"{name}.png"
            draw_residuals(picture, outcome)
            sections.append(_section(outcome, picture, lines))
        else:
            sections.append(_failure(name, outcome, lines))
    page = directory / PAGE
    write_text(page, _page(title, outcomes, sections))
    return page


def verdict(outcome: CalibrationResult | str) -> str:
    """Return `good`, `doubtful` or `failed`."""
    if not isinstance(outcome, CalibrationResult):
        return FAILED
    return DOUBTFUL if outcome.doubts else GOOD


def draw_residuals(file: Path, result: CalibrationResult) -> None:
    """Draw the residuals over the image, the coverage of the image, and the residuals by radius.

    Args:
        file: PNG file to write.
        result: the calibration.

    Raises:
        RunError: the picture cannot be written.
    """
    pixels = np.vstack([fit.pixels for fit in result.fits])
    residuals = np.vstack([fit.residuals for fit in result.fits])
    figure = Figure(figsize=(15.0, 4.7), layout="constrained")
    arrows, cells, radii = figure.subplots(1, 3)
    _draw_arrows(arrows, result, pixels, residuals)
    _draw_coverage(cells, result, pixels)
    _draw_radii(radii, result, pixels, residuals)
    count = f"{len(result.fits)} views, {len(pixels)} corners, {result.rms:.2f} px off (rms)"
    figure.suptitle(f"{result.name}: {count}", parse_math=False)
    try:
        figure.savefig(file, dpi=DPI)
    except OSError as error:
        raise unwritable(file, error) from None


def _draw_arrows(axes: Axes, result: CalibrationResult, pixels: FloatArray, residuals: FloatArray) -> None:
    """Draw residuals as arrows at their places in the image."""
    some = slice(None, None, math.ceil(len(pixels) / ARROWS_MOST))
    # A typical arrow (rms) is 4 % of the image's width, or less: the scale is rounded down.
    scale = _round(0.04 * result.calibration.width / max(result.rms, 1e-6))
    axes.quiver(
        *pixels[some].T,
        *residuals[some].T,
        angles="xy",
        scale_units="xy",
        scale=1 / scale,
        width=0.002,
        color=PALETTE[0],
    )
    camera = result.calibration
    axes.plot(camera.cx, camera.cy, "+", color=ALARM, markersize=12, markeredgewidth=2)
    axes.annotate(
        "principal point",
        (camera.cx, camera.cy),
        (8, -14),
        textcoords="offset points",
        color=ALARM,
        fontsize="small",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85},
    )
    _image_axes(axes, result)
    axes.set_title(f"residuals, {scale:g} times as long", fontsize="medium")


def _draw_coverage(axes: Axes, result: CalibrationResult, pixels: FloatArray) -> None:
    """Draw how many corners were in each cell of the image."""
    camera = result.calibration
    counts = coverage(pixels, camera.width, camera.height)
    shades = LinearSegmentedColormap.from_list("corners", ["#FFFFFF", "#BCD4E6", PALETTE[0]])
    axes.imshow(
        np.sqrt(counts),
        cmap=shades,
        extent=(-0.5, camera.width - 0.5, camera.height - 0.5, -0.5),
        aspect="equal",
    )
    rows, columns = counts.shape
    dark = 0.75 * math.sqrt(float(counts.max()))
    for row in range(rows):
        for column in range(columns):
            number = int(counts[row, column])
            axes.text(
                (column + 0.5) * camera.width / columns,
                (row + 0.5) * camera.height / rows,
                str(number) if number else "–",
                ha="center",
                va="center",
                fontsize="small",
                color="white" if math.sqrt(number) > dark else INK if number else GREY,
            )
    _image_axes(axes, result)
    axes.set_title(f"corners by place: {result.coverage:.0%} of the image", fontsize="medium")


def _draw_radii(axes: Axes, result: CalibrationResult, pixels: FloatArray, residuals: FloatArray) -> None:
    """Draw residuals by distance from the principal point, along the radius and across it."""
    camera = result.calibration
    away = pixels - np.array([camera.cx, camera.cy])
    radius = np.hypot(*away.T)
    unit = away / np.maximum(radius, 1e-9)[:, None]
    along = (residuals * unit).sum(axis=1)
    across = residuals[:, 1] * unit[:, 0] - residuals[:, 0] * unit[:, 1]
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    edges = np.linspace(0.0, float(radius.max()) + 1e-9, BINS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    bins = np.clip(np.searchsorted(edges, radius, side="right") - 1, 0, BINS - 1)
    axes.plot(radius, along, ".", color=PALETTE[4], markersize=2, alpha=0.5)
    for values, colour, label in ((along, PALETTE[0], "along the radius"), (across, PALETTE[1], "across it")):
        means = np.array([values[bins == k].mean() if (bins == k).any() else np.nan for k in range(BINS)])
        spread = np.array([values[bins == k].std() if (bins == k).any() else np.nan for k in range(BINS)])
        axes.errorbar(
            middle + (4 if colour == PALETTE[1] else 0),
            means,
            spread,
            fmt="o-",
            color=colour,
            markersize=4,
            linewidth=1.3,
            capsize=2,
            label=label,
        )
    limit = max(4.0 * result.corner_px, 0.05)
    axes.set_ylim(-limit, limit)
    axes.set_xlabel("distance from the principal point (px)")
    axes.set_ylabel("residual (px), mean and standard deviation")
    axes.set_title("residuals by radius", fontsize="medium")
    axes.legend(frameon=False, fontsize="small", loc="upper left", ncols=2)
    axes.spines[["top", "right"]].set_visible(False)


def _image_axes(axes: Axes, result: CalibrationResult) -> None:
    """Set axes up for an image: pixels, v downwards."""
    camera = result.calibration
    axes.set_xlim(-0.5, camera.width - 0.5)
    axes.set_ylim(camera.height - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.set_xlabel("u (px)")
    axes.set_ylabel("v (px)")


def _round(value: float) -> float:
    """Return the largest of 1, 2 or 5 times a power of ten that is not above a positive value."""
    power = 10.0 ** math.floor(math.log10(value))
    return max(step for step in (1.0, 2.0, 5.0) if step <= value / power * (1 + 1e-9)) * power


def _yaml(result: CalibrationResult) -> str:
    """Return the text of a camera's file, in the format of `config/cameras`."""
    data = result.calibration.model_dump()
    data["distortion"] = [round(value, 8) for value in data["distortion"]]
    data["unsure"] = [[float(f"{value:.3g}") for value in way] for way in data["unsure"]]
    numbers = {key: round(value, 4) if isinstance(value, float) else value for key, value in data.items()}
    sigma = ", ".join(f"{name} {value:.2g}" for name, value in zip(INTRINSICS, result.sigma, strict=True))
    doubts = "".join(f"# doubtful: {doubt}\n" for doubt in result.doubts)
    head = (
        f"# {result.name}: {len(result.fits)} views, corners {result.rms:.2f} px off (rms); distortion is\n"
        f"# k1, k2, p1, p2, k3.\n# Standard deviations: {sigma}\n"
        "# unsure: independent deviations of the lens from these values, of one standard deviation each:\n"
        "# fx, fy, cx, cy, k1, k2, p1, p2, k3. Robots take them into account in their poses.\n"
        f"{doubts}"
    )
    return head + yaml.safe_dump(numbers, sort_keys=False, default_flow_style=None)


def _refusals(health: Health) -> list[str]:
    """Return one line for each reason of rejection: count, reason, latest case."""
    return [
        f"{count} × {reason}, the latest: {health.latest[reason]}" for reason, count in health.counts.items()
    ]


def _section(result: CalibrationResult, picture: Path, refused: list[str]) -> str:
    """Return the section of a calibrated camera as HTML."""
    numbers = [
        result.calibration.fx,
        result.calibration.fy,
        result.calibration.cx,
        result.calibration.cy,
        *result.calibration.distortion,
    ]
    lens = "".join(
        _row(name, *((f"{v:.2f}", f"{s:.2f}", "px") if k < 4 else (f"{v:.5f}", f"{s:.5f}", "")))
        for k, (name, v, s) in enumerate(zip(INTRINSICS, numbers, result.sigma, strict=True))
    )
    units = [(1000.0, "mm")] * 3 + [(math.degrees(1.0), "deg")] * 3
    mount = "".join(
        _row(name, f"{v * factor:.2f}", f"{s * factor:.2f}", unit)
        for name, v, s, (factor, unit) in zip(
            MOUNTING, result.mounting, result.mounting_sigma, units, strict=True
        )
    )
    image = base64.b64encode(_read(picture)).decode("ascii")
    notes = [f"view dropped: {reason}" for _, reason in result.dropped]
    if result.corners_dropped:
        notes.append(f"{result.corners_dropped} single corners dropped as outliers")
    head = "<tr><th>number</th><th>value</th><th>standard deviation</th><th></th></tr>"
    return (
        f"<h2>{html.escape(result.name)}: {_badge(verdict(result))}</h2>"
        + _list(list(result.doubts))
        + f'<img alt="residuals of {html.escape(result.name)}" src="data:image/png;base64,{image}">'
        + f"<h3>Intrinsics</h3><table>{head}{lens}</table>"
        + f"<h3>Mounting, relative to the spec</h3><table>{head}{mount}</table>"
        + _views(result)
        + (f"<h3>Not used</h3>{_list(notes + refused)}" if notes + refused else "")
    )


def _views(result: CalibrationResult) -> str:
    """Return the table of the views as HTML."""
    rows = ""
    for number, fit in enumerate(result.fits, 1):
        shift = fit.pose_map - fit.view.pose_map
        x, y, yaw = fit.view.pose_map
        cells = (
            *(str(number), f"{x:.2f}, {y:.2f} m, {math.degrees(yaw):.0f}°", str(len(fit.ids))),
            *(f"{fit.rms:.2f} px", f"{1000 * math.hypot(shift[0], shift[1]):.0f} mm"),
            f"{math.degrees(shift[2]):+.2f}°",
        )
        rows += "<tr>" + "".join(f'<td class="number">{cell}</td>' for cell in cells) + "</tr>"
    head = "".join(
        f"<th>{text}</th>" for text in ("view", "estimated pose", "corners", "rms", "shifted by", "turned by")
    )
    return (
        f"<details><summary>{len(result.fits)} views</summary><table><tr>{head}</tr>{rows}</table></details>"
    )


def _failure(name: str, reason: str, refused: list[str]) -> str:
    """Return the section of a camera that was not calibrated as HTML."""
    return f"<h2>{html.escape(name)}: {_badge(FAILED)}</h2><p>{html.escape(reason)}</p>{_list(refused)}"


def _page(title: str, outcomes: Mapping[str, CalibrationResult | str], sections: list[str]) -> str:
    """Return the whole page as HTML."""
    rows = ""
    for name, outcome in outcomes.items():
        cells = f"<td>{html.escape(name)}</td><td>{_badge(verdict(outcome))}</td>"
        if isinstance(outcome, CalibrationResult):
            lens, sigma = outcome.calibration, outcome.sigma
            for value, known in zip((lens.fx, lens.fy, lens.cx, lens.cy), sigma, strict=False):
                cells += f'<td class="number">{value:.2f} ± {known:.2f}</td>'
            cells += f'<td class="number">{outcome.rms:.2f}</td><td class="number">{len(outcome.fits)}</td>'
            cells += f'<td class="number">{outcome.coverage:.0%}</td>'
        else:
            cells += f'<td colspan="7">{html.escape(outcome)}</td>'
        rows += f"<tr>{cells}</tr>"
    columns = ("camera", "verdict", "fx", "fy", "cx", "cy", "rms (px)", "views", "covered")
    head = "".join(f"<th>{column}</th>" for column in columns)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<h1>{html.escape(title)}</h1><table><tr>{head}</tr>{rows}</table>"
        f"{''.join(sections)}</body></html>\n"
    )


def _badge(word: str) -> str:
    return f'<span class="verdict" style="color: {COLOURS[word]}">{word}</span>'


def _row(name: str, value: str, sigma: str, unit: str) -> str:
    """Return a table row with a number, its standard deviation and its unit as HTML."""
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in (value, sigma))
    return f"<tr><td>{name}</td>{numbers}<td>{unit}</td></tr>"


def _list(lines: list[str]) -> str:
    """Return lines as an HTML list; nothing without lines."""
    return f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in lines)}</ul>" if lines else ""


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        message = f"{file}: cannot be read ({error.strerror})"
        raise RunError(message) from None
