"""Token counts of several answers."""

from __future__ import annotations

import pytest

from streamfold import Usage


def test_usages_add_up() -> None:
    """A count that one server did not send adds nothing; what nobody sent stays None; `raw` is dropped."""
    first = Usage(input_tokens=10, output_tokens=2, total_tokens=12, cached_tokens=4, raw={"prompt_tokens": 10})
    second = Usage(input_tokens=5, output_tokens=3, total_tokens=8, cache_write_tokens=1)
    both = first + second
    assert both == Usage(
        input_tokens=15, output_tokens=5, total_tokens=20, cached_tokens=4, reasoning_tokens=None, cache_write_tokens=1
    )
    assert both.raw == {}
    assert sum([first, second], Usage()) == both


def test_only_usages_add_up() -> None:
    """Anything else is a TypeError, as everywhere in Python."""
    with pytest.raises(TypeError):
        Usage(input_tokens=1) + 1  # type: ignore[operator]
