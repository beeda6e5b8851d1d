"""The picture of the results: what a chunk costs, as a multiple of the floor, by API, library and delivery.

python plot.py RESULTS.json TARGET.svg
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import matplotlib as mpl
from environments import FLOOR
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from report import TITLES, lines

OURS = ("streamfold", "streamfold-aiohttp")
APIS = {  # what everybody reads
    "Chat Completions": ("chat-text", "chat-calls"),
    "Responses": ("responses-text", "responses-calls"),
}
COLOURS = {"one": "#3b6ea5", "bulk": "#9dbbd8", "live": "#d9a441"}
BAR = 0.26


def ratios(found: dict[str, Any], payloads: Collection[str]) -> dict[str, dict[str, float]]:
    """For each contestant and delivery, the geometric mean over these answers, if it got them right."""
    kept: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines(found):
        if line.payload in payloads and line.contestant != FLOOR and line.result == "right" and line.ratio:
            kept[line.contestant][line.delivery].append(line.ratio)
    return {name: {delivery: geometric_mean(values) for delivery, values in of.items()} for name, of in kept.items()}


def draw(found: dict[str, Any], target: Path) -> None:
    panels = {api: ratios(found, payloads) for api, payloads in APIS.items()}
    first = next(iter(panels.values()))
    names = sorted(first, key=lambda name: first[name].get("one", 0), reverse=True)
    most = max(max(of.values()) for means in panels.values() for of in means.values())
    figure = Figure(figsize=(10, 1.2 + 0.58 * len(names)))
    for axes, (api, means) in zip(figure.subplots(1, len(panels), sharey=True), panels.items(), strict=True):
        draw_panel(axes, names, means)
        axes.set_title(api, fontsize=10)
        axes.set_xlim(0.1, 2 * most)
        axes.set_yticks(range(len(names)), names)
        for label in axes.get_yticklabels():
            label.set_fontweight("bold" if label.get_text() in OURS else "normal")
    figure.supxlabel("CPU time per chunk, as a multiple of httpx and from_json alone (log, less is better)", fontsize=9)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    figure.savefig(target, metadata={"Date": None})


def draw_panel(axes: Axes, names: list[str], means: dict[str, dict[str, float]]) -> None:
    for place, (delivery, colour) in enumerate(COLOURS.items()):
        rows = [(at, means[name][delivery]) for at, name in enumerate(names) if delivery in means.get(name, {})]
        bars = axes.barh(
            [at + (1 - place) * BAR for at, _ in rows],
            [ratio for _, ratio in rows],
            BAR,
            color=colour,
            label=TITLES[delivery],
        )
        axes.bar_label(bars, [f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}" for _, ratio in rows], padding=3, size=8)
    axes.axvline(1, color="#666666", linewidth=1)
    axes.set_xscale("log")
    axes.set_ylim(-0.5, len(names) - 0.4)
    ticks = (0.2, 0.5, 1, 2, 5, 10, 20, 50)
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    mpl.rcParams["svg.fonttype"] = "none"  # text stays text: small, and sharp in every theme
    mpl.rcParams["svg.hashsalt"] = "streamfold"  # the same results make the same file
    draw(json.loads(Path(sys.argv[1]).read_text("utf-8")), Path(sys.argv[2]))
