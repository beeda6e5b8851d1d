"""Configuration: the settings of providers, the catalogue, and `streamfold.toml`.

What is public is the kit with which packages read tables of their own in `streamfold.toml`:

    class ReportSettings(PackageTable):
        every: Seconds = 60.0
        models: Names = ("*",)

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ..text import variable_names
from ..values import did_you_mean, set_public_module
from .catalogue import catalogue_folder, provider_files
from .endpoint_models import prices_in
from .environment import set_variable, variable_is_set, variable_value, variable_values
from .file import Config, load_profile, load_profiles, read_config, read_profile, read_settings
from .gateway import GatewayOptions, GatewaySettings, KeyOptions, KeySettings
from .gc_tuning import tune_gc_for_server
from .inspection import EffectiveValue, capability_values, describe_key, effective_values
from .package_tables import PackageTable
from .problems import config_problems
from .profile import Profile
from .quirks_and_prices import read_prices
from .rate_limits import RateLimitSettings
from .search_path import search_locations
from .store_settings import StoreName, store_place, store_url
from .toml_positions import KeyPath, key_lines, toml_path
from .toml_tables import (
    Count,
    Flag,
    Names,
    PositiveCount,
    PositiveNumber,
    Seconds,
    StrictTable,
    Table,
    allowed_values_hint,
    check_members,
    read_table,
    table_field,
    validated_by,
    validation_errors,
)
from .trust import trust_file
from .typed_dicts import BatchesConfig, CapabilitiesConfig, LimitsConfig, ModelConfig, ProviderConfig, RateLimitsConfig
from .validators import timeouts_over

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
    "did_you_mean",
    "read_config",
    "read_settings",
    "set_variable",
    "store_place",
    "store_url",
    "tune_gc_for_server",
    "validated_by",
    "variable_is_set",
    "variable_names",
    "variable_value",
]

set_public_module(__name__, [globals()[name] for name in __all__])
