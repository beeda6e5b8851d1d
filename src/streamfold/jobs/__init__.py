"""Jobs over many rows: each has one answer, which is kept in a ledger, and a job that died goes on where it was."""

from .answers import *
from .asking import *
from .columns import *
from .commits import *
from .errors import *
from .job import *
from .ledger import *
from .live import *
from .output import *
from .pace import *
from .provider_batches import *
from .rows import *
from .schema import *
from .settings import *
from .start import *
from .tables import *
from .work import *
