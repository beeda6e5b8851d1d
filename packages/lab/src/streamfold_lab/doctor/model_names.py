"""Compares the model name in a response with the requested model name."""

from __future__ import annotations

import re

# Words for the size of a model, and words for quantized weights. They distinguish models with similar names.
_SIZES = re.compile(
    r"\d+(\.\d+)?[bm]|a\d+b|mini|nano|micro|tiny|small|medium|large|lite|light|flash|air|pro|max|plus|turbo|opus|sonnet|haiku"
    r"|distill(ed)?|draft"
)
_COARSER = re.compile(r"awq|gptq|gguf|bnb|(nv|mx)?fp[468]|int[2-8]|w\d+a\d+|i?q\d(_\w+)*|[2-8]-?bit|quant(ized)?")
_REVISION = re.compile(
    r"v?\d+(\.\d+)*|latest|preview|exp|experimental|beta|stable|default|instruct|chat|it|hf|snapshot"
)


def words(name: str) -> list[str]:
    """Returns the words of a model name in lower case, without the model's owner: `Org/Model-2B:free` becomes model,
    2b, free.
    """
    bare = name.lower().rpartition("/")[2].partition("@")[0]
    return [word for word in re.split(r"[-_:\s]+", bare) if word]


def is_other_model(asked: str, named: str) -> bool:
    """Returns whether the model name in a response belongs to a different model than the requested one.

    The function ignores the model's owner, upper and lower case, dates, and words such as "latest". A requested name
    without digits may be an alias, and matches nearly any name.

    >>> is_other_model("sim-1", "sim-labs/Sim-1-2026-08-06"), is_other_model("gpt-5", "gpt-5-mini")
    (False, True)
    """
    wanted, found = words(asked), words(named)
    if not wanted or not found or "".join(wanted) == "".join(found):
        return False
    added = [word for word in found if word not in wanted]
    if any(_COARSER.fullmatch(word) for word in added):
        return True
    if not re.search(r"\d", asked):
        return False
    if not set(wanted) & set(found):
        return "".join(wanted) not in "".join(found) and "".join(found) not in "".join(wanted)
    if any(_SIZES.fullmatch(word) for word in added):
        return True
    lost = [word for word in wanted if word not in found and not _REVISION.fullmatch(word)]
    return bool(lost) and any(not _REVISION.fullmatch(word) for word in added)
