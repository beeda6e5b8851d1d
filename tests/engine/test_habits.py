"""Whatever habits a server has, what it says is what is handed out: calls once, whole, and never after a cut."""

from __future__ import annotations

import os
from random import Random

import scale
from folding import bytewise, random_cut
from server_habits import Said, make
from streamfold import Reply, StreamDecoder, StreamError
from tables import each_row

STREAMS = int(os.environ.get("STREAMFOLD_STREAMS", 0)) or scale.pick(5000, 400)
SHARES = 20


def read(said: Said, pieces: list[bytes]) -> Reply | StreamError:
    decoder = StreamDecoder(said.wire)
    try:
        for piece in pieces:
            decoder.feed(piece)
        decoder.close()
    except StreamError as error:
        return error
    return decoder.reply


def problem(said: Said, seed: int) -> str | None:
    """What is wrong with the answer to a stream; None if nothing is."""
    whole = read(said, [said.body])
    if isinstance(whole, StreamError):
        return None if said.broken else f"{type(whole).__name__}: {whole}"
    made = [(call.name, call.arguments) for call in whole.tool_calls]
    meant = [] if said.cut else said.calls
    if said.lost:
        wrong = [call for call in whole.tool_calls if not call.error and (call.name, call.arguments) not in meant]
        return f"{wrong} would run" if wrong else None
    if made != meant and (said.ordered or sorted(made, key=repr) != sorted(meant, key=repr)):
        return f"{made} instead of {meant}, warnings {whole.warnings}"
    if said.broken:
        return "it broke off, and no error was raised"
    if len({call.id for call in whole.tool_calls}) < len(made):
        return "two calls have one id"
    rng = Random(seed)
    cuts = [random_cut(said.body, rng), *([bytewise(said.body)] if seed % 16 == 0 else [])]
    return None if all(read(said, pieces) == whole for pieces in cuts) else "the answer depends on the cut"


@each_row("share", range(SHARES))
def test_a_server_with_random_habits(share: int) -> None:
    """Each stream folds to the calls that the server meant, at any cut."""
    for seed in range(share, STREAMS, SHARES):
        said = make(seed)
        wrong = problem(said, seed)
        assert wrong is None, f"seed {seed}: {wrong}\n{said.wire} {said.habits}\n{said.body.decode()}"
