"""What a provider's own tools did in an answer: read from what the wire format kept of it (`Reply.extras`).

Nothing here is read while an answer streams, but for parts that are shown live. An answer keeps its items or blocks as
they came, because they may have to go back; what a tool did, what was cited and which files there are stands in them.
So a message that was stored says the same as the reply that it came with.
"""

from .extract import (
    PAUSED,
    call_order,
    citations_in,
    count_requests,
    files_in,
    hosted_kind,
    hosted_parts,
    is_paused,
    live_part,
    phases_in,
    text_in,
)
from .openai import PLAIN_ITEMS, arguments_text, item_part
from .parts import Citation, GeneratedFile, HostedPart
from .tools import (
    CodeExecution,
    CustomTool,
    FileSearch,
    HostedMcpServer,
    HostedTool,
    ServerTool,
    UrlContext,
    WebSearch,
)
