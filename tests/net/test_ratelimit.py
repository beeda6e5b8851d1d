"""Rate limits and retry times in response headers: one value for every vendor's spelling."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from folding import DONE, fin, text
from servers import Connection, answer, serving
from streamfold import RateLimitError
from streamfold.net import read_rate_limit
from streamfold.types import RateLimit, RateLimitWindow


def read(*lines: str) -> RateLimit | None:
    return read_rate_limit([tuple(line.split(": ", 1)) for line in lines])  # type: ignore[misc]


def test_openai_and_groq() -> None:
    """Requests and tokens, with durations in their spelling."""
    found = read(
        "x-ratelimit-limit-requests: 500",
        "x-ratelimit-remaining-requests: 499",
        "x-ratelimit-reset-requests: 120ms",
        "X-RateLimit-Limit-Tokens: 30000",
        "x-ratelimit-remaining-tokens: 29990",
        "x-ratelimit-reset-tokens: 6m0.5s",
    )
    assert found is not None
    assert found.requests == RateLimitWindow("requests", 500, 499, 0.12)
    assert found.tokens == RateLimitWindow("tokens", 30000, 29990, 360.5)
    assert (found.input_tokens, found.retry_after) == (None, None)


def test_anthropic() -> None:
    """Input and output tokens apart; the reset is a point in time."""
    soon = (datetime.now(UTC) + timedelta(seconds=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = read(
        "anthropic-ratelimit-requests-limit: 50",
        "anthropic-ratelimit-requests-remaining: 0",
        f"anthropic-ratelimit-requests-reset: {soon}",
        "anthropic-ratelimit-input-tokens-limit: 40000",
        "anthropic-ratelimit-output-tokens-remaining: 7999",
        "retry-after: 12",
    )
    assert found is not None
    assert found.requests is not None
    assert (found.requests.limit, found.requests.remaining) == (50, 0)
    assert found.requests.reset_after is not None
    assert 25 < found.requests.reset_after <= 30
    assert found.input_tokens == RateLimitWindow("input_tokens", 40000)
    assert found.output_tokens == RateLimitWindow("output_tokens", None, 7999)
    assert found.retry_after == 12


def test_windows_of_several_lengths() -> None:
    """Where a vendor counts by minute and by day, both are there, and the shorter one is first."""
    found = read(
        "x-ratelimit-limit-requests-day: 14400",
        "x-ratelimit-limit-req-minute: 30",
        "x-ratelimit-reset-requests-day: 33011.382867",
    )
    assert found is not None
    assert found.windows == (
        RateLimitWindow("requests", 30, period=60),
        RateLimitWindow("requests", 14400, reset_after=33011.382867, period=86400),
    )
    assert found.requests == found.windows[0]


def test_names_without_a_resource_count_requests() -> None:
    """As OpenRouter writes them, with a timestamp in milliseconds, and the older drafts of the IETF."""
    in_a_minute = int((datetime.now(UTC) + timedelta(seconds=60)).timestamp() * 1000)
    found = read("X-RateLimit-Limit: 20", "X-RateLimit-Remaining: 19", f"X-RateLimit-Reset: {in_a_minute}")
    assert found is not None
    assert found.requests is not None
    assert 50 < (found.requests.reset_after or 0) <= 60
    assert read("RateLimit-Limit: 100, 100;w=60", "ratelimit-remaining: 50", "ratelimit-reset: 7") == RateLimit(
        (RateLimitWindow("requests", 100, 50, 7),)
    )


def test_the_structured_fields_of_the_draft() -> None:
    """`RateLimit` and `RateLimit-Policy` are one window."""
    assert read('RateLimit: "default";r=50;t=30', 'RateLimit-Policy: "default";q=100;w=60') == RateLimit(
        (RateLimitWindow("requests", 100, 50, 30),)
    )


def test_numbers_that_mean_nothing_are_ignored() -> None:
    """Azure sends -1 and 0 where it has no limit to tell."""
    assert read("x-ratelimit-limit-requests: 0", "x-ratelimit-remaining-requests: 0") is None
    assert read("x-ratelimit-limit-tokens: -1", "x-ratelimit-remaining-tokens: -1") is None
    assert read("content-type: text/plain", "x-ratelimit-limit-images: 5", "x-ratelimit-limit-tokens: many") is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "x-ratelimit-reset-tokens",
                    "ratelimit",
                    "x-ratelimit-limit-requests",
                    "anthropic-ratelimit-tokens-reset",
                    "retry-after",
                    "retry-after-ms",
                    "ratelimit-limit",
                ]
            ),
            st.text(max_size=30),
        )
    )
)
def test_any_text_is_read_or_ignored(headers: list[tuple[str, str]]) -> None:
    """No header value raises, and every number is finite and not negative."""
    found = read_rate_limit(headers)
    for window in found.windows if found else ():
        for number in (window.limit, window.remaining, window.reset_after):
            assert number is None or 0 <= number < float("inf")


@pytest.mark.transports
async def test_on_replies_and_errors() -> None:
    """`reply.rate_limit` and `error.rate_limit` have what the headers of their response said."""

    async def script(peer: Connection) -> None:
        await peer.request()
        await peer.send(answer("200 OK", text("Hi") + fin("stop") + DONE, "x-ratelimit-remaining-requests: 7"))
        await peer.request()
        await peer.send(answer("429 Slow down", b"", "x-ratelimit-remaining-requests: 0", "retry-after: 3"))

    async with serving(script) as server, server.provider() as provider:
        with anyio.fail_after(10):
            reply = await provider.chat("Hello")
            with pytest.raises(RateLimitError) as caught:
                await provider.chat("Hello")
    assert reply.rate_limit == RateLimit((RateLimitWindow("requests", remaining=7),))
    assert caught.value.rate_limit == RateLimit((RateLimitWindow("requests", remaining=0),), 3.0)
    assert caught.value.retry_after == 3.0
