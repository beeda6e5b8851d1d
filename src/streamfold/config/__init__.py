"""Configuration: the settings of providers, the catalogue, and `streamfold.toml`."""

from .catalogue import catalogue_folder, provider_files
from .endpoint_models import prices_in
from .file import Config, load_profile, load_profiles, read_config, read_profile, read_settings
from .gateway import GatewayOptions, GatewaySettings, KeyOptions, KeySettings
from .gc_tuning import tune_gc_for_server
from .inspection import EffectiveValue, capability_values, describe_key, effective_values
from .package_tables import PackageTable
from .problems import config_problems
from .profile import Profile
from .rate_limits import RateLimitSettings
from .search_path import search_locations
from .store_settings import store_place, store_url
from .toml_positions import key_lines, toml_path
from .toml_tables import (
    Count,
    PositiveCount,
    Seconds,
    StrictTable,
    allowed_values_hint,
    check_members,
    read_table,
    table_field,
    validation_errors,
)
from .trust import trust_file
from .typed_dicts import BatchesConfig, CapabilitiesConfig, LimitsConfig, ModelConfig, ProviderConfig, RateLimitsConfig
from .validators import read_prices, set_variable, timeouts_over, variable_is_set, variable_value, variable_values
