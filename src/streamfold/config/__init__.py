"""The configuration: the settings of providers, the catalogue of providers, and `streamfold.toml`.

By means of the public names, other packages read their own tables in `streamfold.toml`:

    class ReportSettings(PackageTable):
        every: Seconds = 60.0
        models: Names = ("*",)

Provisional: a minor version may change or remove a name without a deprecation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import allowed_values_hint, did_you_mean
from ..public_names import import_later, set_public_module
from ..urls import shown_url, variable_names
from .catalogue import catalogue_folder, provider_files
from .endpoint import EndpointHeaders, ResolvedEndpoint, URLs
from .environment import set_variable, variable_is_set, variable_value
from .file import Config, load_profile, load_profiles, read_config, read_profile, read_settings
from .history_facts import learned_rules
from .model_facts import prices_in, read_prices
from .package_tables import PackageTable
from .profile import Profile, ProviderConfig, timeouts_over
from .search_path import search_locations, trust_file
from .store_settings import RateLimitSettings, StoreName, is_shared_store, store_place, store_url
from .tables import (
    Count,
    Flag,
    Names,
    PositiveCount,
    PositiveNumber,
    Seconds,
    StrictTable,
    Table,
    check_members,
    read_table,
    table_field,
    validated_by,
    validation_errors,
)
from .toml_positions import KeyPath, key_lines, toml_path

if TYPE_CHECKING:
    from .gc_tuning import tune_gc_for_server
    from .inspection import (
        Budget,
        EffectiveValue,
        abilities,
        capability_values,
        config_problems,
        configured_budgets,
        describe_key,
        effective_values,
        retiring_models,
        stores_in_process,
    )

__all__ = [
    "Config",
    "Count",
    "Flag",
    "KeyPath",
    "Names",
    "PackageTable",
    "PositiveCount",
    "PositiveNumber",
    "RateLimitSettings",
    "Seconds",
    "StoreName",
    "StrictTable",
    "Table",
    "allowed_values_hint",
    "config_problems",
    "did_you_mean",
    "is_shared_store",
    "key_lines",
    "read_config",
    "read_profile",
    "read_settings",
    "set_variable",
    "shown_url",
    "store_place",
    "store_url",
    "toml_path",
    "tune_gc_for_server",
    "validated_by",
    "variable_is_set",
    "variable_names",
    "variable_value",
]

_LATER = {  # imported when they are used: requests need neither
    ".gc_tuning": ("tune_gc_for_server",),
    ".inspection": (
        "Budget",
        "EffectiveValue",
        "abilities",
        "capability_values",
        "config_problems",
        "configured_budgets",
        "describe_key",
        "effective_values",
        "retiring_models",
        "stores_in_process",
    ),
}

set_public_module(__name__, [globals().get(name) for name in __all__])

set_public_module("streamfold.types", [Profile])


def __getattr__(name: str) -> Any:
    return import_later(__name__, name, _LATER)
