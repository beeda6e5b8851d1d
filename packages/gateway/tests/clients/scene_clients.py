"""The clients that play the scenes, and how each can play them."""

from __future__ import annotations

__all__ = ["SCENE_CLIENTS", "TASKS", "modes"]

APIS = ("chat", "responses", "messages", "gemini")
# Program, environment, arguments, and the APIs that the client speaks.
SCENE_CLIENTS: dict[str, tuple[str, str, list[str], tuple[str, ...]]] = {
    "ai-sdk-5": ("scenes_ai_sdk.mjs", "ai-sdk-5", [], APIS),
    "ai-sdk-6": ("scenes_ai_sdk.mjs", "ai-sdk-6", [], APIS),
    "ai-sdk-7": ("scenes_ai_sdk.mjs", "ai-sdk-7", [], APIS),
    "openai-js": ("scenes_openai.mjs", "openai-node", [], ("chat", "responses")),
    "autogen": ("scenes_autogen.py", "autogen", [], ("chat", "messages")),
    "agno": ("scenes_agno.py", "agno", [], APIS),
    "openai-agents": ("scenes_agents.py", "openai-agents", [], ("chat", "responses")),
    "instructor": ("scenes_instructor.py", "instructor", [], APIS),
}
# What a client is asked to do in a scene; "text" in all others.
TASKS = {
    "call": "tools",
    "parallel": "tools",
    "reasoned-call": "tools",
    "no-arguments": "tools",
    "cut": "tools",
    "structured": "object",
}
# AutoGen has no structured output on the Messages API; instructor has several calls on two APIs only.
UNABLE = {("autogen", "messages", "object"), ("instructor", "responses", "tools"), ("instructor", "gemini", "tools")}


def modes(client: str, api: str, scene: str) -> list[bool]:
    """Returns whether the answers of a scene are streamed: True and False, as far as the client can."""
    task = TASKS.get(scene, "text")
    if (client, api, task) in UNABLE:
        return []
    streamed = [] if client == "instructor" and task != "object" else [True]
    return streamed if scene == "failed" else [*streamed, False]
