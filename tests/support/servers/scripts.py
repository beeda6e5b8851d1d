"""Files of this repository that no package has, as modules: what writes its pages, and what its sessions run."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


def loaded(path: str) -> Any:
    """The module in this file of the repository."""
    spec = spec_from_file_location(f"loaded.{path.removesuffix('.py').replace('/', '_')}", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
