"""What ends a job before its rows are done."""

from __future__ import annotations

from streamfold import StreamfoldError


class JobPausedError(StreamfoldError):
    """A job stopped asking: the key or the account is refused, the money is spent, or the ledger can't be written.

    What came before is in the ledger. The same job goes on where it was when it is started again.
    """
