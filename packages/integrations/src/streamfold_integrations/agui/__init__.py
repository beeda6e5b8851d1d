"""AG-UI: the agent-user interaction protocol of CopilotKit and others.

from streamfold_integrations import agui

@app.post("/agent")
async def agent(request: Request) -> StreamingResponse:
    asked = agui.read_request(await request.json())
    run = asked.run(model, [get_weather], external=asked.tools)
    return StreamingResponse(agui.stream(run, asked), headers=agui.HEADERS)
"""

from ..ui import Decision, ExternalResult, error_text
from .reading import AgentRequest, read_messages, read_request
from .writing import HEADERS, AGUIWriter, stream

__all__ = [
    "HEADERS",
    "AGUIWriter",
    "AgentRequest",
    "Decision",
    "ExternalResult",
    "error_text",
    "read_messages",
    "read_request",
    "stream",
]
