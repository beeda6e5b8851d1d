"""A model that answers without a key: it follows a script, in the wire format of Chat Completions."""

from __future__ import annotations

from typing import Any

from streamfold.testing import ScriptedProvider, SentRequest, call, fail, pause, say, think

__all__ = ["make_model"]


def make_model(delay: float = 0.03) -> ScriptedProvider:
    """Returns a model that reads the last question for a few words."""

    def slowly(text: str) -> list[Any]:
        return [step for word in text.split(" ") for step in (say(word + " "), pause(delay))]

    def answer(request: SentRequest) -> Any:
        last = request.messages[-1]
        question = str(last.content).lower()
        if last.role == "tool":
            return slowly("Then I leave it." if "denied" in question else "Done: here is what I found.")
        if "weather" in question:
            cities = [call("get_weather", city="Oslo"), call("get_weather", city="Bergen")]
            return [think("Two cities, so two calls."), say("I look it up. "), *cities]
        if "delete" in question:
            return [say("I would delete a note. "), call("delete_note", title="Shopping list")]
        if "break" in question:
            return [*slowly("I begin and then"), fail("the provider broke off")]
        return slowly("Ask me about the weather, or tell me to delete a note. I can also break off.")

    return ScriptedProvider(then=answer)
