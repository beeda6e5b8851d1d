"""A page that shows the last answers of the gateway's providers while they stream, each in the inspector's timeline.

    from streamfold_gateway import gateway
    from streamfold_lab.live import LivePage

    page = LivePage()
    app = page.around(gateway(hooks=page.hooks))

`streamfold serve --ui` does the same. Nothing else knows of this folder: it has hooks for providers, and an ASGI
app around the gateway's.
While no page is open, the bytes of each answer are kept, and nothing else is done with them.
"""

from __future__ import annotations

from .page import LivePage

__all__ = ["LivePage"]
