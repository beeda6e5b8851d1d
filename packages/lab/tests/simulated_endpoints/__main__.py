"""Serves one endpoint until interrupted: `python -m simulated_endpoints NAME [PORT]`; without a name, lists them."""

from __future__ import annotations

import sys
import time

from simulated_endpoints.honest import HONEST, MORE_HONEST, by_name
from simulated_endpoints.serving import Endpoint, serving
from simulated_endpoints.unfaithful import MORE_UNFAITHFUL, UNFAITHFUL


def main(arguments: list[str]) -> int:
    known = by_name([Endpoint, *HONEST, *MORE_HONEST, *UNFAITHFUL, *MORE_UNFAITHFUL])
    if not arguments or arguments[0] not in known:
        for name, kind in known.items():
            sys.stdout.write(f"{name:26} {kind.does} {kind.report}\n")
        return 2
    with serving(known[arguments[0]](), port=int(arguments[1]) if len(arguments) > 1 else 0) as url:
        sys.stdout.write(f"{url}/v1\n")
        sys.stdout.flush()
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(0)
