"""The configuration: the settings of providers, the catalogue of providers, and `streamfold.toml`.

Other packages can define a table in `streamfold.toml` with a subclass of `PackageTable`:

    class ReportSettings(PackageTable):
        every: Seconds = 60.0
        models: Names = ("*",)

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..errors import allowed_values_hint, did_you_mean
from ..public_names import set_public_module
from ..urls import shown_url, variable_names
from .catalogue import catalogue_folder, provider_files
from .endpoint import EndpointHeaders, ResolvedEndpoint, URLs
from .environment import set_variable, variable_is_set, variable_value
from .file import Config, PackageTable, load_profile, load_profiles, read_config, read_profile, read_settings
from .gc_tuning import tune_gc_for_server
from .history_facts import learned_rules
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
from .model_facts import prices_in, read_prices
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

set_public_module(__name__, [globals()[name] for name in __all__])

set_public_module("streamfold.types", [Profile])
