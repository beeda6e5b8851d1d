"""What the scenes offer to clients for Python: two tools that note their calls, and a type of structured output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from answering import Heard
from pydantic import BaseModel

__all__ = ["City", "tools"]


class City(BaseModel):
    """A city."""

    name: str
    population: int


def tools(heard: Heard) -> list[Callable[..., str]]:
    """The functions; most clients make their schemas from the annotations, so these must not be strings."""

    def get_weather(city: Any) -> str:
        """The weather."""
        heard.calls.append(["get_weather", {"city": city}])
        return f"{city}: 18 degrees"

    def get_time() -> str:
        """The time."""
        heard.calls.append(["get_time", {}])
        return "12:00"

    get_weather.__annotations__ = {"city": str, "return": str}
    get_time.__annotations__ = {"return": str}
    return [get_weather, get_time]
