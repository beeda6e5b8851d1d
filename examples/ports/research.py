"""Research in rounds: a query, a search, a summary, the gap in it, the next query; then a report with its sources.

Ported from a program on LangChain and LangGraph; docs/guides/ports.md says what became of it. Searching is yours:
`search` takes a query and returns sources. `python research.py "How do cells repair DNA?"` searches the Wikipedia.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx
from pydantic import BaseModel, Field

from streamfold import ChatModel, InvalidReplyError, Provider, extract, system, user

_LONGEST = 4000  # characters of a source


class Query(BaseModel):
    """A search that helps with the topic."""

    query: str = Field(description="what to type into the search engine")
    rationale: str = Field(description="why it helps, in one sentence")


class Gap(BaseModel):
    """What is still missing, and the search that would find it."""

    gap: str = Field(description="what the summary does not say yet")
    query: str = Field(description="a search for that, which is understood without the summary")


@dataclass(frozen=True)
class Source:
    """A page that was found."""

    title: str
    url: str
    text: str


@dataclass
class Research:
    """The state of a search for a topic.

    Attributes:
        model: asked for queries, summaries and gaps.
        search: finds pages for a query.
        rounds: how often to search.
        summary: what is known so far.
        sources: each page once, by its address.
    """

    model: ChatModel
    search: Callable[[str], Awaitable[list[Source]]]
    rounds: int = 3
    summary: str = ""
    sources: dict[str, Source] = field(default_factory=dict[str, Source])

    async def run(self, topic: str) -> str:
        """Returns the report."""
        query = await self._query(topic)
        for number in range(1, self.rounds + 1):
            found = await self.search(query)
            self.sources |= {source.url: source for source in found}
            await self._summarize(topic, found)
            if number < self.rounds:
                query = await self._next(topic)
        listed = "\n".join(f"- {source.title}: {source.url}" for source in self.sources.values())
        return f"## {topic}\n\n{self.summary}\n\n### Sources\n\n{listed}"

    async def _query(self, topic: str) -> str:
        return await self._asked(
            topic, Query, f"Today is {datetime.now(UTC):%Y-%m-%d}. Write a web search about: {topic}"
        )

    async def _next(self, topic: str) -> str:
        return await self._asked(topic, Gap, f"This is known about {topic}:\n\n{self.summary}\n\nWhat is missing?")

    async def _asked(self, topic: str, form: type[Query] | type[Gap], question: str) -> str:
        try:
            return (await extract(self.model, form, question, temperature=0)).query
        except InvalidReplyError:  # a small model that does not keep to a form
            return f"more about {topic}"

    async def _summarize(self, topic: str, found: list[Source]) -> None:
        pages = "\n\n".join(f"<page title={source.title!r}>\n{source.text[:_LONGEST]}\n</page>" for source in found)
        known = f"<summary>\n{self.summary}\n</summary>\n\n" if self.summary else ""
        asked = f"{known}{pages}\n\nWrite {'the summary anew, with what is new' if known else 'a summary'}: {topic}"
        rules = "You summarize for a report. Keep to the pages, name no source, and begin with the summary itself."
        reply = await self.model.chat([system(rules), user(asked)], temperature=0)
        self.summary = reply.text  # what the model thought is in `reply.reasoning`


async def wikipedia(query: str) -> list[Source]:
    """Searches the English Wikipedia."""
    asked = {"action": "query", "generator": "search", "gsrsearch": query, "gsrlimit": "3", "prop": "extracts|info"}
    more = {"explaintext": "1", "exlimit": "3", "inprop": "url", "format": "json", "formatversion": "2"}
    async with httpx.AsyncClient(headers={"user-agent": "research example"}) as client:
        answer = await client.get("https://en.wikipedia.org/w/api.php", params={**asked, **more})
    pages = answer.raise_for_status().json().get("query", {}).get("pages", [])
    return [Source(page["title"], page["fullurl"], page.get("extract", "")) for page in pages]


async def main(topic: str) -> None:
    async with Provider.from_config() as provider:
        print(await Research(provider, wikipedia).run(topic))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
