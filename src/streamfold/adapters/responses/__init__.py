"""OpenAI's Responses API: requests and answers, both ways."""

from .adapter import *
from .client_tools import *
from .emit import *
from .functions import *
from .overlay import *
from .parse import *
from .skeleton import *
