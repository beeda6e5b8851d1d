"""Finds the folder that contains the data about providers, models and errors."""

from __future__ import annotations

from pathlib import Path


def catalogue_folder() -> Path:
    """Returns the folder with the provider files, which is inside the installed package, or beside `src` in a checkout.

    Raises:
        FileNotFoundError: the installation lacks the folder.
    """
    here = Path(__file__).resolve().parent
    for folder in (here / "providers", here.parent.parent / "providers"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"the provider files are missing from {here}: install streamfold again")
