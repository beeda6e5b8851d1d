"""What is called: models, providers, streams, fallbacks and the tool loop."""

from .answer import *
from .approvals import *
from .arguments import *
from .base_model import *
from .batches import *
from .connections import *
from .databases import *
from .extract import *
from .failover import *
from .fallback import *
from .hooks import *
from .journal import *
from .limits import *
from .memory import *
from .middleware import *
from .misuse import *
from .model import *
from .partial import *
from .preview import *
from .provider import *
from .run_state import *
from .stream import *
from .tool_loop import *
from .tool_results import *
from .tool_run import *
from .watching import *
