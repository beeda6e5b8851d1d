"""A web page that shows the gateway's latest responses while they stream, each in the inspector's timeline.

    from streamfold_gateway import gateway
    from streamfold_lab.live import LivePage

    page = LivePage()
    app = page.around(gateway(hooks=page.hooks))

`streamfold serve --ui` serves the same page. `LivePage` consists of hooks for the gateway's providers, and of an ASGI
app around the gateway's app. While no browser has the page open, the hooks only store the bytes of each response.
"""

from __future__ import annotations

from .page import LivePage

__all__ = ["LivePage"]
