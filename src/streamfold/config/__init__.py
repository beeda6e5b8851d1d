"""Configuration: the settings of providers, the catalogue, and `streamfold.toml`."""

from .catalogue import catalogue_folder, provider_files
from .endpoint_models import prices_in
from .file import Config, load_profile, load_profiles, read_config, read_profile, read_settings
from .gateway import GatewayOptions, GatewaySettings, KeyOptions, KeySettings
from .gc_tuning import collect_rarely
from .inspection import Value, capability_values, effective_values, key_state
from .problems import config_problems
from .profile import Profile
from .rate_limits import RateLimitSettings
from .search_path import places
from .store_settings import store_place, store_url
from .toml_positions import key_lines, spelled
from .toml_tables import (
    Count,
    PositiveCount,
    Seconds,
    StrictTable,
    allowed,
    as_table,
    check_members,
    mistakes_in,
    read_table,
)
from .trust import trust_file
from .typed_dicts import BatchesConfig, CapabilitiesConfig, LimitsConfig, ModelConfig, ProviderConfig, RateLimitsConfig
from .validators import read_prices, set_variable, timeouts_over, variable_is_set, variable_value, variable_values
