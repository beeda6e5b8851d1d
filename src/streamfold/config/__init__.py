"""Configuration: the settings of providers, the catalogue, and `streamfold.toml`."""

from .catalogue import catalogue_folder, provider_files
from .checks import read_prices, set_variable, timeouts_over, variable_is_set, variable_value, variable_values
from .endpoint_models import prices_in
from .file import Config, load_profile, load_profiles, read_config, read_profile, read_settings
from .gateway import GatewayOptions, GatewaySettings, KeyOptions, KeySettings
from .lines import key_lines, spelled
from .places import places
from .problems import config_problems
from .process import collect_rarely
from .profile import Profile
from .rate_limits import RateLimitSettings
from .show import Value, capability_values, effective_values, key_state
from .stores import store_place, store_url
from .tables import (
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
from .typed import BatchesConfig, CapabilitiesConfig, LimitsConfig, ModelConfig, ProviderConfig, RateLimitsConfig
