"""Adapts request options that a model, its endpoint or its API doesn't support. streamfold clamps an unsupported
option's value, emulates the option, or leaves it out. Each of these changes produces a warning. If leaving an option
out would change the meaning of the request, streamfold raises ConfigError. With `unsupported_options = "strict"`,
streamfold raises ConfigError instead of each warning. The table in docs/guides/options.md shows what happens to each
option.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..types import ReplyWarning
from .model_facts import EFFORTS, Family
from .options import NO_OPTIONS, Options, ReasoningEffort

if TYPE_CHECKING:
    from ..types import WarningCode
    from .request import Request


# Without one of the dispensable options, the answer still serves its purpose.
_DISPENSABLE = ("temperature", "top_p", "seed", "parallel_tool_calls", "reasoning_effort", "compact_threshold")
_ESSENTIAL = ("max_output_tokens", "stop", "response_format")


@dataclass(frozen=True, slots=True)
class OptionRules:
    """The options that an endpoint accepts, regardless of the model.

    Attributes:
        chat: True for Chat Completions. Some models accept fewer options there than on the Responses API.
        sampling: True if `temperature` and `top_p` are accepted.
        seed: True if a seed is accepted.
        stops: the maximum number of stop texts in a request, or None if there is no maximum.
        stop_bytes: the maximum length of each stop text in bytes.
        blank_stops: True if the endpoint accepts a stop text that contains only white space.
        parallel_calls: True if a request can turn parallel tool calls off.
        efforts: True if a request can contain an effort level. With False, requests can only turn thinking on or off.
        switch: True if a request can turn thinking on and off.
        budgets: True if a request can contain a maximum number of thinking tokens.
        least_output_tokens: the smallest value that `max_output_tokens` may have.
    """

    chat: bool = False
    sampling: bool = True
    seed: bool = True
    stops: int | None = None
    stop_bytes: int | None = None
    blank_stops: bool = True
    parallel_calls: bool = True
    efforts: bool = True
    switch: bool = False
    budgets: bool = False
    least_output_tokens: int = 1


@dataclass(frozen=True, slots=True)
class _FitContext:
    model: str
    family: Family
    rules: OptionRules
    tools: bool
    warnings: list[ReplyWarning] = field(default_factory=list)

    def say(self, code: WarningCode, detail: str) -> None:
        self.warnings.append(ReplyWarning(code, f"{self.model} {detail}"))


def fit_options(
    options: Options, family: Family, rules: OptionRules, *, model: str = "", tools: bool = False
) -> tuple[Options, list[ReplyWarning]]:
    """Adapts options to a model at an endpoint. Returns the adapted options, and a warning for each change.

    `fit_sampling` adapts `temperature` and `top_p`.

    Args:
        family: the facts about the model. If the facts don't say whether the model supports an option, streamfold sends
            the option.
        rules: the options that the endpoint accepts.
        model: the model's name, for warnings and error messages.
        tools: True if the request has tools.

    Raises:
        ConfigError: leaving out an unsupported option would change the meaning of the request. Also raised for every
            change if `unsupported_options` is "strict".
    """
    if options is NO_OPTIONS and not tools:
        return options, []
    fitting = _FitContext(model or "the model", family, rules, tools)
    for step in _STEPS:
        options = step(options, fitting)
    refuse_if_strict(options, fitting.warnings)
    return options, fitting.warnings


def fit_sampling(
    options: Options, family: Family, rules: OptionRules, *, model: str = ""
) -> tuple[Options, list[ReplyWarning]]:
    """Adapts `temperature` and `top_p`. Call this function after all other changes, because some models accept these
    options only without thinking, and an adapter may turn thinking off."""
    if options.temperature is None and options.top_p is None:
        return options, []
    fitting = _FitContext(model or "the model", family, rules, tools=False)
    options = _sampling(options, fitting)
    refuse_if_strict(options, fitting.warnings)
    return options, fitting.warnings


def report_unsent_options(request: Request, sends: Collection[str], adapter: str) -> list[ReplyWarning]:
    """Returns a warning for each option in the request that the adapter doesn't support.

    Args:
        sends: the options that the adapter supports; see `Adapter.sends`.

    Raises:
        ConfigError: leaving out an option would change the meaning of the request, or `unsupported_options` is
            "strict".
    """
    warnings = []
    for name in (*_DISPENSABLE, *_ESSENTIAL):
        if name in sends or getattr(request.options, name) is None:
            continue
        if name == "parallel_tool_calls" and not request.tools:
            continue  # without tools, the option has no effect
        if name in _ESSENTIAL:
            raise _not_sent(name, adapter)
        detail = f"{name} was not sent: the adapter {adapter!r} doesn't support it"
        warnings.append(ReplyWarning("option_dropped", detail))
    if request.tools and "tools" not in sends:
        raise _not_sent("tools", adapter)
    if request.tools and "tool_choice" not in sends and request.tool_choice not in ("auto", "none"):
        detail = f"tool_choice was not sent: the adapter {adapter!r} doesn't support it, so the server uses 'auto'"
        warnings.append(ReplyWarning("forced_choice_dropped", detail))
    refuse_if_strict(request.options, warnings)
    return warnings


def _not_sent(name: str, adapter: str) -> ConfigError:
    return ConfigError(
        f"{name} isn't supported by the adapter {adapter!r}, and ignoring it would change the result: remove {name}"
        " or use another adapter"
    )


def refuse_if_strict(options: Options, changes: list[ReplyWarning]) -> None:
    if changes and options.unsupported_options == "strict":
        raise ConfigError(f'{changes[0].detail} (an error, because unsupported_options is "strict")')


def nearest_effort(wanted: ReasoningEffort, levels: tuple[ReasoningEffort, ...]) -> ReasoningEffort:
    """Returns the requested effort level if the model supports it. Otherwise, returns the next higher supported level,
    or else the highest supported level.

    >>> nearest_effort("medium", ("none", "low", "high")), nearest_effort("max", ("low", "high"))
    ('high', 'high')
    """
    known = [level for level in EFFORTS if level in levels and level != "none"]
    return next((level for level in known if EFFORTS.index(level) >= EFFORTS.index(wanted)), known[-1])


# --- reasoning_effort -------------------------------------------------------------------------------------------------


def _check_tools_with_reasoning(options: Options, fitting: _FitContext) -> Options:
    # Chat Completions doesn't support tools for some models, or only while the model doesn't think:
    # https://github.com/openai/openai-openapi/issues/541
    family, model, asked = fitting.family, fitting.model, options.reasoning_effort
    if not (fitting.rules.chat and fitting.tools):
        return options
    instead = 'use the Responses API: provider "openai-responses", or api = "responses"'
    if family.tools_on_chat == "no" or (family.apis is not None and "chat" not in family.apis):
        raise ConfigError(f"{model} doesn't support tools on Chat Completions: {instead}")
    if family.tools_on_chat != "effort_none" or asked == "none" or "reasoning_effort" in options.extra_body:
        return options
    if asked is not None:
        raise ConfigError(
            f"{model} doesn't support tools together with reasoning_effort={asked!r} on Chat Completions: {instead}"
        )
    if family.default_effort == "none":
        return options
    fitting.say(
        "option_changed", ("supports tools on Chat Completions only without thinking: reasoning_effort='none' was sent")
    )
    return replace(options, reasoning_effort="none")


def _effort(options: Options, fitting: _FitContext) -> Options:
    family, rules, wanted = fitting.family, fitting.rules, options.reasoning_effort
    if wanted is None:
        return options
    if family.capabilities.reasoning == "no":
        fitting.say("option_dropped", "doesn't support reasoning: reasoning_effort was not sent")
        return replace(options, reasoning_effort=None)
    if family.budget is not None:
        if fitting.rules.budgets and options.reasoning_effort == "none" and fitting.family.thinking == "always":
            fitting.say(
                "option_changed", "can't stop thinking: for reasoning_effort='none', the smallest budget was sent"
            )
        return options
    levels = (family.efforts_on_chat if rules.chat else None) or family.efforts
    levels = levels if rules.efforts else ()
    if wanted == "none":
        return _no_thinking(options, levels, fitting)
    if levels is None:
        return options
    if levels:
        return _with_level(options, nearest_effort(wanted, levels), fitting)
    if rules.switch:
        fitting.say(
            "option_changed", (f"doesn't support effort levels: thinking was turned on for reasoning_effort={wanted!r}")
        )
        return options
    fitting.say("option_dropped", f"doesn't support effort levels: reasoning_effort={wanted!r} was not sent")
    return replace(options, reasoning_effort=None)


def _no_thinking(options: Options, levels: tuple[ReasoningEffort, ...] | None, fitting: _FitContext) -> Options:
    family = fitting.family
    if family.thinking != "always" or (levels and "none" in levels):
        return options
    if levels:
        return _with_level(options, nearest_effort("minimal", levels), fitting)
    fitting.say("option_dropped", "always thinks: reasoning_effort='none' was not sent")
    return replace(options, reasoning_effort=None)


def _with_level(options: Options, level: ReasoningEffort, fitting: _FitContext) -> Options:
    wanted = options.reasoning_effort
    if level == wanted:
        return options
    why = "always thinks" if wanted == "none" else "doesn't support the level"
    fitting.say("option_changed", f"{why}: for reasoning_effort={wanted!r}, {level!r} was sent")
    return replace(options, reasoning_effort=level)


# --- sampling ---------------------------------------------------------------------------------------------------------


def _sampling(options: Options, fitting: _FitContext) -> Options:
    both = {"temperature": options.temperature, "top_p": options.top_p}
    given = {name: value for name, value in both.items() if value is not None}
    if (why := _fixed(options, fitting)) is not None:
        at_one = fitting.family.sampling not in ("no", "ignored") and fitting.rules.sampling  # 1 is the default
        if lost := [name for name, value in given.items() if value != 1 or not at_one]:
            fitting.say("option_dropped", f"{why}: {' and '.join(lost)} not sent")
        return replace(options, temperature=None, top_p=None)
    if fitting.family.sampling == "one_of" and len(given) == 2:
        name = "temperature" if given["temperature"] == 1 else "top_p"
        if given[name] != 1:
            fitting.say("option_dropped", "supports either temperature or top_p: top_p was not sent")
        dropped: dict[str, Any] = {name: None}
        options = replace(options, **dropped)
    most, temperature = fitting.family.temperature_max, options.temperature
    if most is None or temperature is None or not (temperature < 0 or temperature > most):
        return options
    sent = most if temperature > most else 0.0
    said = f"supports temperatures from 0 to {most:g}: for temperature={temperature}, {sent:g} was sent"
    fitting.say("option_changed", said)
    return replace(options, temperature=sent)


def _fixed(options: Options, fitting: _FitContext) -> str | None:
    family = fitting.family
    if family.sampling in ("no", "default") or not fitting.rules.sampling:
        return "doesn't support sampling options"
    if family.sampling == "ignored":
        return "ignores sampling options"
    if family.samples_while_thinking is False and is_reasoning_enabled(options, family) is not False:
        return "doesn't support sampling options while it thinks (reasoning_effort='none' turns thinking off)"
    return None


def _seed(options: Options, fitting: _FitContext) -> Options:
    if options.seed is None or fitting.rules.seed:
        return options
    fitting.say("option_dropped", f"doesn't support a seed: seed={options.seed} was not sent")
    return replace(options, seed=None)


# --- the end of the answer --------------------------------------------------------------------------------------------


def _limit(options: Options, fitting: _FitContext) -> Options:
    # The limit is never left out, because it bounds the cost.
    asked, most = options.max_output_tokens, fitting.family.max_output_tokens
    if asked is None:
        return options
    sent = max(fitting.rules.least_output_tokens, asked if most is None else min(asked, most))
    if sent == asked:
        return options
    bound = "at least" if sent > asked else "at most"
    fitting.say(
        "option_changed", f"supports {bound} {sent} output tokens: for max_output_tokens={asked}, {sent} was sent"
    )
    return replace(options, max_output_tokens=sent)


def _stop(options: Options, fitting: _FitContext) -> Options:
    """Moves stop texts from `stop` to `cut_at` if the request can't contain them. streamfold then ends the answer at
    these texts itself.
    """
    if options.stop is None:
        return options
    rules = fitting.rules
    texts = list(dict.fromkeys(options.stop_texts))
    most = 0 if fitting.family.stop == "no" else rules.stops
    sent = [text for text in texts if text and _can_be_sent(text, rules)][:most]
    cut = tuple(text for text in texts if text and text not in sent)
    if cut:
        where = ", ".join(map(repr, cut))
        fitting.say("option_emulated", f"doesn't support the stop texts {where}: streamfold ends the answer there")
    if len(sent) == len(texts):
        return options
    if "" in texts:
        fitting.say("option_dropped", "can't stop at an empty text")
    return replace(options, stop=sent or None, cut_at=cut or None)


def _can_be_sent(text: str, rules: OptionRules) -> bool:
    fits = rules.stop_bytes is None or len(text.encode("utf-8", "replace")) <= rules.stop_bytes
    return fits and (rules.blank_stops or bool(text.strip()))


def _parallel(options: Options, fitting: _FitContext) -> Options:
    wanted = options.parallel_tool_calls
    if wanted is None:
        return options
    if not fitting.tools and "tools" not in options.extra_body:
        return replace(options, parallel_tool_calls=None)  # has no effect, and OpenAI refuses it
    if fitting.family.capabilities.parallel_calls == "no":
        fitting.say("option_dropped", "makes only one tool call per answer: parallel_tool_calls was not sent")
    elif fitting.rules.parallel_calls:
        return options
    elif not wanted:
        fitting.say("option_dropped", "may make several tool calls per answer: parallel_tool_calls=False was not sent")
    return replace(options, parallel_tool_calls=None)


_STEPS: tuple[Callable[[Options, _FitContext], Options], ...] = (
    _check_tools_with_reasoning, _effort, _seed, _limit, _stop, _parallel
)  # fmt: skip


def is_reasoning_enabled(options: Options, family: Family) -> bool | None:
    """Returns True if the model thinks before it answers a request with these options, or None if unknown.

    >>> is_reasoning_enabled(Options(), Family(thinking="asked"))
    False
    >>> is_reasoning_enabled(Options(reasoning_effort="low"), Family())
    True
    >>> is_reasoning_enabled(Options(extra_body={"thinking": {"type": "disabled"}}), Family(thinking="default"))
    False
    """
    if (said := _explicit_setting(options.extra_body)) is not None:
        return said
    if family.thinking in ("never", "always"):
        return family.thinking == "always"
    effort = options.reasoning_effort or family.default_effort
    if effort is not None:
        return effort != "none"
    return None if family.thinking is None else family.thinking == "default"


def _explicit_setting(body: Mapping[str, Any]) -> bool | None:
    """Returns True if the caller's `extra_body` enables thinking, False if it disables thinking, or None if it does
    neither. Recognizes the reasoning fields of all APIs."""
    for name, off in (("reasoning_effort", "none"), ("enable_thinking", False)):
        if name in body:
            return bool(body[name] != off)
    for name, member, off in (
        ("thinking", "type", "disabled"),
        ("reasoning", "enabled", False),
        ("reasoning", "effort", "none"),
        ("chat_template_kwargs", "thinking", False),
        ("chat_template_kwargs", "enable_thinking", False),
    ):
        if isinstance(own := body.get(name), Mapping) and member in own:
            return bool(own[member] != off)
    return None
