"""How fast a job asks: the limits of its provider, or those that the job was given."""

from __future__ import annotations

from streamfold import ChatModel
from streamfold.limits import MemoryLimitStore, RateLimiter, check_number, provider_limiter
from streamfold.middleware import get_model_info


class Pacing:
    """The limiter of a job, and the model that waits for it.

    Where no rate is configured, requests to a provider begin slowly, and the rate is searched for.

    Args:
        model: who is asked.
        rpm, tpm: requests and tokens per minute instead of those of the provider's settings.

    Raises:
        ConfigError: a limit is not above 0.
    """

    def __init__(self, model: ChatModel, rpm: float | None = None, tpm: float | None = None) -> None:
        check_number("rpm", rpm)
        check_number("tpm", tpm)
        self._asked = model
        self._rpm, self._tpm = rpm, tpm
        self._made: tuple[RateLimiter, ChatModel] | None = None

    @property
    def limiter(self) -> RateLimiter:
        """What each request waits for. Raises ConfigError if the provider's key is missing."""
        return self._make()[0]

    @property
    def model(self) -> ChatModel:
        """The model, whose requests wait for that too. Raises ConfigError as `limiter`."""
        return self._make()[1]

    def _make(self) -> tuple[RateLimiter, ChatModel]:
        if self._made is None:
            model = self._asked
            facts = get_model_info(model)
            if facts is None or facts.direct is None:
                limiter = RateLimiter("job", rpm=self._rpm, tpm=self._tpm, store=MemoryLimitStore())
            else:
                direct = facts.direct
                own = direct.limiter
                if own is None or self._rpm is not None or self._tpm is not None:
                    store = MemoryLimitStore() if own is None else own.store
                    own = provider_limiter(direct.profile, rpm=self._rpm, tpm=self._tpm, store=store)
                limiter, model = own, direct.with_limiter(own, patient=False)
            self._made = limiter, model
        return self._made
