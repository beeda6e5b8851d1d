"""Tests a model server: sends probes, lists findings, and writes a configuration and an HTML report."""

from __future__ import annotations

from .budget import DEFAULT_BUDGET, Budget
from .diagnosis import AUTO, Doctor, PlannedRequest, find_apis, plan, read_target
from .export import Change, cards_from, cards_to_dict, compare_cards, read_cards
from .listing import ServedModel, read_models, served_models
from .page import render_card
from .probes import NOT_EXAMINED
from .profile import write_profile
from .values import Finding, ProbeResponse, ReportCard
