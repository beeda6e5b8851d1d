"""The AI SDK's UI message stream: what `useChat` sends, and what it reads.

from streamfold_integrations import aisdk

@app.post("/api/chat")
async def chat(request: Request) -> StreamingResponse:
    asked = aisdk.read_request(await request.json())
    return StreamingResponse(aisdk.stream(asked.run(model, [get_weather])), headers=aisdk.HEADERS)
"""

from ..ui import Decision, ExternalResult, error_text
from .reading import ChatRequest, read_messages, read_request
from .writing import HEADERS, UIMessageWriter, stream

__all__ = [
    "HEADERS",
    "ChatRequest",
    "Decision",
    "ExternalResult",
    "UIMessageWriter",
    "error_text",
    "read_messages",
    "read_request",
    "stream",
]
