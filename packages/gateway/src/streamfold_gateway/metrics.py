"""Metrics of the gateway in Prometheus' text format. They need the extra `metrics`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request as HTTPRequest
from starlette.responses import Response

from streamfold import ConfigError
from streamfold.config import variable_is_set

from .request_log import TOKEN_COUNTS, RequestOutcome

if TYPE_CHECKING:
    from .auth import Authenticator

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which processes share their counts. prometheus-client looks for it when it is imported."""

_MAX_KEYS = 1000
_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0)


class Metrics:
    """Counts requests, tokens and costs, in memory or in a folder that several processes share.

    Only configured model names become metric labels. All other model names get the label "other", because clients may
    send any name.

    Args:
        names: the model names that the gateway serves.
        by_key: also count the requests, tokens and cost of each key, with the key's configured name as the label.

    Raises:
        ConfigError: the packages of the extra `metrics` aren't installed.
    """

    def __init__(self, names: Collection[str], *, by_key: bool = False) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        except ImportError as exc:
            raise ConfigError("metrics need an extra: pip install 'streamfold-gateway[metrics]'") from exc
        self._names = frozenset(names)
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        histogram = partial(Histogram, buckets=_SECONDS, registry=self._registry)
        by_provider = ["model", "provider"]
        self._requests = counter(
            "streamfold_requests", "Requests by outcome.", ["api", *by_provider, "outcome", "status"]
        )
        self._seconds = histogram("streamfold_request_seconds", "Duration of requests in seconds.", ["api", "model"])
        self._first = histogram(
            "streamfold_first_chunk_seconds", "Seconds until a provider's answer began.", by_provider
        )
        self._tokens = counter("streamfold_tokens", "Tokens, as counted by the providers.", [*by_provider, "kind"])
        self._cost = counter("streamfold_cost", "Known cost of responses.", [*by_provider, "currency"])
        self._estimated = counter(
            "streamfold_cost_estimated", "The estimated part of the cost.", [*by_provider, "currency"]
        )
        self._warnings = counter("streamfold_warnings", "Responses with this warning.", ["code"])
        self._attempts = counter("streamfold_failed_attempts", "Failed attempts.", ["provider"])
        self._by_key = by_key
        self._keys: set[str] = set()
        if by_key:
            self._key_requests = counter(
                "streamfold_key_requests", "Requests of a gateway key by outcome.", ["key", "outcome"]
            )
            self._key_tokens = counter("streamfold_key_tokens", "Tokens of a gateway key.", ["key", "kind"])
            self._key_cost = counter(
                "streamfold_key_cost", "Cost of the responses for a gateway key.", ["key", "currency"]
            )
        self._running = Gauge(
            "streamfold_requests_running", "Requests in flight.", registry=self._registry, multiprocess_mode="livesum"
        )

    def running(self, number: int) -> None:
        """Sets the number of requests in flight."""
        self._running.set(number)

    def observe(self, outcome: RequestOutcome) -> None:
        """Counts a request that has ended."""
        served = [name for name in (outcome.model, outcome.model.partition(":")[0]) if name in self._names]
        model, provider = served[0] if served else "other", outcome.provider or ""
        self._requests.labels(outcome.api, model, provider, outcome.how, str(outcome.status)).inc()
        self._seconds.labels(outcome.api, model).observe(outcome.seconds)
        if outcome.first is not None:
            self._first.labels(model, provider).observe(outcome.first)
        counts = {name.removesuffix("_tokens"): getattr(outcome.usage, name, None) or 0 for name in TOKEN_COUNTS}
        tokens = {kind: count for kind, count in counts.items() if count}
        for kind, count in tokens.items():
            self._tokens.labels(model, provider, kind).inc(count)
        if (cost := outcome.cost) is not None:
            for counter in [self._cost, *([self._estimated] if cost.estimated else [])]:
                counter.labels(model, provider, cost.currency).inc(float(cost.amount))
        if self._by_key:
            key = self._key(outcome.key)
            self._key_requests.labels(key, outcome.how).inc()
            for kind, count in tokens.items():
                self._key_tokens.labels(key, kind).inc(count)
            if cost is not None:
                self._key_cost.labels(key, cost.currency).inc(float(cost.amount))
        for code in outcome.warnings:
            self._warnings.labels(code).inc()
        for name in outcome.attempts:
            self._attempts.labels(name).inc()

    def endpoint(self, access: Authenticator) -> Callable[[HTTPRequest], Response]:
        """Returns the Starlette endpoint for `/metrics`. Clients need a key for it if they need one for the APIs."""
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        def metrics(request: HTTPRequest) -> Response:
            access.check(request.scope)
            registry = self._registry
            if variable_is_set(METRICS_FOLDER):  # adds up the counts of all processes, which are in files
                MultiProcessCollector(registry := CollectorRegistry())  # type: ignore[no-untyped-call]
            return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})

        return metrics

    def _key(self, name: str | None) -> str:
        """Returns the metric label for a key: its configured name, or "" for a key without a name. The first thousand
        keys have labels; the label of further keys is "other".
        """
        if name and len(self._keys) < _MAX_KEYS:
            self._keys.add(name)
        return name if name in self._keys else "other" if name else ""


def forget_dead_processes(folder: Path) -> None:
    """Removes the gauges of worker processes that were killed. Their counters stay."""
    from prometheus_client.multiprocess import mark_process_dead

    for file in folder.glob("gauge_live*.db"):
        pid = int(file.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]
