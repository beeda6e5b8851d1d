"""`streamfold lab any-cut`: tests whether a parser returns the same tool calls wherever a text is split, and whether a
server returns the same responses with and without streaming.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.text import Text

from streamfold import ConfigError, __version__
from streamfold.terminal import File, console, escape_control_characters, print_rows, print_status, reported_errors

from ..any_cut import Failure, as_markdown, as_piece_parser, check_parser, dialects, find_parser, load_vectors
from ..doctor import AUTO, Doctor, find_apis, read_target
from ..doctor.probes import PROBES

BROKEN = 3
UNFAITHFUL = 4
# The probes whose responses must be identical with and without streaming.
_ALIKE = ("answers", "one_call", "no_arguments", "numbers", "strings", "nesting", "commands", "two_calls", "echo")

lab = typer.Typer(help="Tests for the authors of parsers and servers.", no_args_is_help=True, rich_markup_mode=None)


@lab.callback()
def _group() -> None:
    """A group of commands."""


@lab.command("any-cut")
def any_cut(
    target: Annotated[str, typer.Argument(help="A parser, as module:Class, or the base URL of a server.")],
    vectors: Annotated[
        str | None,
        typer.Option(help=f"For a parser: the test texts of a format ({', '.join(dialects())}), or a JSON file."),
    ] = None,
    cut_tokens: Annotated[bool, typer.Option("--cut-tokens", help="For a parser: also split special tokens.")] = False,
    report: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write a bug report with examples to this Markdown file.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="For a server: the model.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="For a server: the environment variable with the API key.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="For a server: how often each request is sent.")] = 10,
    config: File = None,
) -> None:
    """Test a vLLM or SGLang parser with split texts, or compare a server's responses with and without streaming.

    The exit code is 0 if nothing differs, 3 if a parser fails, 4 if a server's responses differ, and 2 if the command
    is invalid.
    """
    with reported_errors():
        if target.startswith(("http://", "https://")):
            if anyio.run(_examine, target, model, api_key_env, repeats, config):
                raise typer.Exit(UNFAITHFUL)
            return
        if vectors is None:
            raise ConfigError(f"choose the test texts with --vectors: a JSON file, or one of {', '.join(dialects())}")
        texts = load_vectors(vectors)
        failures = check_parser(as_piece_parser(find_parser(target)), texts, cut_tokens=cut_tokens)
        if report:
            package = target.partition(".")[0].partition(":")[0]
            with suppress(PackageNotFoundError):
                package = f"{package} {version(package)}"
            versions = [package, f"streamfold-lab {__version__}"]
            report.write_text(as_markdown(target, versions, failures, len(texts)), "utf-8")
    if failures:
        print_rows(console(), ("text", "fails", "cuts", "expected", "found"), [_row(failure) for failure in failures])
    failed = len({failure.vector.name for failure in failures})
    print_status(f"{len(texts) - failed} of {len(texts)} texts give the same result for every split")
    if failures:
        raise typer.Exit(BROKEN)


def _row(failure: Failure) -> list[Text]:
    cells = [
        failure.vector.name, f"{failure.kind} {failure.mode}", f"{failure.cuts} of {failure.tried}",
        failure.wanted, failure.found,
    ]  # fmt: skip
    return [Text(escape_control_characters(cell if len(cell) < 120 else f"{cell[:117]}...")) for cell in cells]


async def _examine(target: str, model: str | None, key: str | None, repeats: int, config: Path | None) -> bool:
    """Sends the same requests to a server with and without streaming, and prints the findings. Returns whether the
    responses differ.
    """
    probes = [probe for probe in PROBES if probe.name in _ALIKE]
    differs = False
    for profile in await find_apis(read_target(target, config, model=model, api_key_env=key), AUTO):
        card, _ = await Doctor(probes=probes, repeats=repeats).run(profile)
        for finding in card.findings:
            differs = differs or finding.verdict in ("unfaithful", "fault")
            tally = f" ({finding.tally})" if finding.tally else ""
            saw = escape_control_characters(finding.saw)
            print_status(f"{profile.adapter} {finding.probe}: {finding.verdict}: {saw}{tally}")
    return differs
