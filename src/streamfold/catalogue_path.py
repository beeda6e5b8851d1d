"""Finds the folder that contains the data files about providers, models and errors."""

from __future__ import annotations

from pathlib import Path


def catalogue_folder() -> Path:
    """Returns the path of the folder with the providers' data files. The folder is inside the installed package, or
    next to `src` in a checkout.

    Raises:
        FileNotFoundError: the installation doesn't contain the folder.
    """
    here = Path(__file__).resolve().parent
    for folder in (here / "providers", here.parent.parent / "providers"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"the provider files are missing from {here}: install streamfold again")
