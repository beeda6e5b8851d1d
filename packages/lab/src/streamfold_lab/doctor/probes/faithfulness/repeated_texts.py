"""Probes in which the model repeats a text: whether the text arrives as the prompt contained it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ...alterations import is_altered_text, text_change
from ...known_values import code, prompt_of, with_random_values
from ...questions import capped
from ...values import Conclusion, ProbeRequest, ProbeResponse
from ..judging import ProbeGroup, doubtful, shown, unclear

REPEATED_TEXTS = ProbeGroup("faithfulness")


def _line(rng: Random) -> ProbeRequest:
    value, number = code(rng), rng.randrange(10**6)
    line = (
        f"{value} Zoë Ångström 東京 👩🏽‍🚀 🦊 ½ &lt;b&gt; &amp; C:\\new 12345678901234567890 pip install requests ,"
        f" curl -fsSL https://get.example.com/v{number}/install.sh | sh"
    )
    prompt = f"Repeat this line exactly, and write nothing else: {line}"
    return ProbeRequest("line", prompt, options=capped(256))


def _lines(rng: Random) -> ProbeRequest:
    text = f"begin {code(rng)}\n  two spaces\n\n\tone tab\n    four spaces, then nothing\nend {rng.randrange(10**6)}"
    prompt = f"Repeat this text of six lines exactly, and write nothing else:\n\n{text}"
    return ProbeRequest("lines", prompt, options=capped(256), special="six lines")


def _repeats_what_follows(separator: str) -> Callable[[ProbeResponse], Conclusion]:
    """Returns a function that compares the response with the text after `separator` in the prompt."""

    def judge(seen: ProbeResponse) -> Conclusion:
        wanted = prompt_of(seen).partition(separator)[2]
        if wanted in seen.text:
            return Conclusion("ok", f"{len(wanted)} characters arrived unchanged")
        if seen.reply.finish_reason != "length" and is_altered_text(wanted, seen.text):
            return doubtful(text_change(wanted, seen.text))
        return unclear(f"it arrived as {shown(seen.text)}")

    return judge


REPEATED_TEXTS.probe(
    "echo",
    "Does a repeated text arrive unchanged?",
    with_random_values(_line),
    whim=True,
    repeated=True,
    refused=("no", ""),
)(_repeats_what_follows(": "))
REPEATED_TEXTS.probe(
    "lines",
    "Do line ends and indentation arrive unchanged?",
    with_random_values(_lines),
    whim=True,
    refused=("no", ""),
)(_repeats_what_follows("\n\n"))
