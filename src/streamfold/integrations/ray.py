"""Rows of a Ray Dataset: the code is in `streamfold.jobs.ray`. Needs the extra `ray`."""

from ..jobs.ray import Ask, AskStoppedError, ask

__all__ = ["Ask", "AskStoppedError", "ask"]
