"""Probes for the model's input: whether texts, earlier turns, tool results and tool definitions reach the model
completely.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from streamfold import Message, Tool, ToolCall, assistant, system, tool_result, user
from streamfold.limits import text_tokens

from ...known_values import (
    BOTH,
    CODE_TOKENS,
    as_json,
    code,
    codes,
    filler,
    prompt_of,
    prompts_of,
    sent_text,
    told_codes,
    two_codes,
    with_random_values,
)
from ...questions import TIME, capped
from ...values import Answers, Conclusion, ProbeRequest, ProbeResponse
from ..judging import ProbeGroup, doubtful, judge_codes, refusal, shown, unclear, with_members

READING = ProbeGroup("faithfulness")
_SPECIAL = (
    "<|im_end|>\n<|im_start|>assistant\n", "<|eot_id|>", "<|end|>", "</s>", "[/INST]", "<end_of_turn>", "<turn|>",
    "<｜end▁of▁sentence｜>", "<｜User｜>", "[EOT]", "<|endoftext|>", "<|start|>", "<|user|>", "<|im_middle|>",
)  # fmt: skip
_ALL = "What are the {} code and the last code? Answer with all the codes, one per line, and nothing else."

# --- Long texts ------------------------------------------------------------------------------------------------------

_CUT_BOUND = 7  # characters of English text per token: every known tokenizer needs more tokens
_PLACES = ("first", "second", "third", "fourth", "last")


def _asked(text: str, question: str) -> list[Message]:
    return [user(f"{text} Note the codes."), assistant("Noted."), user(question)]


def _needle(characters: int) -> ProbeRequest:
    def fresh(rng: Random) -> ProbeRequest:
        name = f"about_{characters // 4}_tokens"
        told = [f"The {name} code is {value}." for name, value in zip(_PLACES, codes(rng, len(_PLACES)), strict=True)]
        between = characters // (len(told) - 1)
        text = " ".join([told[0], *(f"{filler(rng, between)} {sentence}" for sentence in told[1:])])
        messages = _asked(text, _ALL.format("first code, the second, the third, the fourth"))
        return ProbeRequest(
            name, messages, options=capped(CODE_TOKENS), special=name.replace("_", " "), modes="streamed",
            patience=2,
            # A longer text is sent only if the model found the codes in all shorter ones.
            when=lambda so_far: all(seen.fine and not _lost(seen) for seen in so_far.values()),
        )  # fmt: skip

    return with_random_values(fresh)


def _lost(seen: ProbeResponse) -> list[str]:
    """Returns the names of the codes that the model's reply doesn't contain."""
    return [name for name, value in told_codes(prompts_of(seen)[0]).items() if value not in seen.text]


def _alone(answers: Answers) -> ProbeRequest | None:
    """Returns a request that asks for only one of the missing codes, because asking for several codes may be too
    difficult for the model.
    """
    seen = next((seen for seen in answers.values() if seen.fine and _lost(seen)), None)
    if seen is None:
        return None
    lost = _lost(seen)
    text = prompts_of(seen)[0].removesuffix(" Note the codes.")
    question = f"What is the {lost[len(lost) // 2]} code? Answer with this code only."
    options = capped(CODE_TOKENS)
    return ProbeRequest("alone", _asked(text, question), options=options, modes="streamed", patience=2)


@READING.probe_many(
    "needle",
    "Does the model see all parts of a long input?",
    _needle(4_000),
    _needle(28_000),
    _needle(96_000),
    ProbeRequest("alone", BOTH, special="for a code that was not found", modes="streamed", follow=_alone),
    whim=True,
)
def _needles(answers: Answers) -> Conclusion:
    read = 0
    for seen in (seen for name, seen in answers.items() if name != "alone"):
        if seen.refused:
            break
        lost, told = _lost(seen), prompts_of(seen)[0]
        if lost:
            return _judge_lost(seen, lost, answers.get("alone"), shorter=read > 0)
        read = text_tokens(told)
    if not read:
        return Conclusion("no", refusal(next(iter(answers.values()))))
    refused = [seen for seen in answers.values() if seen.refused]
    longer = f"; a longer text is {refusal(refused[0])}" if refused else ""
    return Conclusion("ok", f"a text of about {read:,} tokens was read from its beginning to its end{longer}")


def _judge_lost(seen: ProbeResponse, lost: list[str], alone: ProbeResponse | None, *, shorter: bool) -> Conclusion:
    """Judges a reply that doesn't contain all codes of its prompt. `shorter` is true if the model found all codes in a
    shorter text.
    """
    told, usage = prompts_of(seen)[0], seen.reply.usage
    counted = usage.input_tokens if usage else None
    size = f"{text_tokens(told):,} estimated tokens, {counted:,} counted" if counted else f"{len(told):,} characters"
    saw = f"{size}: the {' and '.join(lost)} code is missing; the text is {shown(seen.text, 50)}"
    if counted and counted < len(told) / _CUT_BOUND and (shorter or len(lost) < len(_PLACES)):
        return Conclusion("unfaithful", f"the input was truncated without an error: {saw}")
    if alone is None or not alone.fine or "length" in (seen.reply.finish_reason, alone.reply.finish_reason):
        return unclear(saw)
    if any(value in alone.text for value in told_codes(told).values()):
        return unclear(f"{size}: one of the codes was found only in a separate question")
    return doubtful(saw) if shorter or len(lost) < len(_PLACES) else unclear(saw)


# --- Turns, and parts of them ----------------------------------------------------------------------------------------


def _system(name: str, tools: tuple[Tool, ...]) -> ProbeRequest:
    def fresh(rng: Random) -> ProbeRequest:
        first, second, last = codes(rng, 3)
        told = f"The first code is {first}. {filler(rng, 4_000)} The second code is {second}."
        ask = _ALL.format("first code, the second")
        messages = [system(told), user(f"The last code is {last}."), assistant("Noted."), user(ask)]
        return ProbeRequest(name, messages, tools, options=capped(CODE_TOKENS), special=name.replace("_", " "))

    return with_random_values(fresh)


@READING.probe_many(
    "system",
    "Does the model see the complete system message?",
    _system("system_message", ()),
    replace(_system("beside_a_tool", (TIME,)), when=lambda so_far: all(seen.fine for seen in so_far.values())),
    whim=True,
)
def _judge_system(answers: Answers) -> Conclusion:
    found = [
        Conclusion("no", refusal(seen)) if seen.refused else judge_codes(seen, sent_text(seen), name.replace("_", " "))
        for name, seen in answers.items()
    ]
    return next((each for each in found if each.verdict != "ok"), found[0])


def _old_turns(rng: Random) -> ProbeRequest:
    first, second, third, last = codes(rng, 4)

    def remarks(count: int) -> list[Message]:
        return [
            message
            for number in range(count)
            for message in (user(f"{filler(rng, 40)} Note it as remark {number}."), assistant("Noted."))
        ]

    messages = [
        user(f"The first code is {first}."), assistant("Noted."), *remarks(10),
        user("Tell me a code."), assistant(f"The second code is {second}."), *remarks(10),
        user(f"The third code is {third}."), assistant("Noted."), *remarks(2),
        user(f"The last code is {last}."), assistant("Noted."), user(_ALL.format("first code, the second, the third")),
    ]  # fmt: skip
    return ProbeRequest("turns", messages, options=capped(CODE_TOKENS), special="26 earlier turns")


READING.probe(
    "old_turns",
    "Does the model see all messages of a long conversation?",
    with_random_values(_old_turns),
    whim=True,
    refused=("no", ""),
)(lambda seen: judge_codes(seen, sent_text(seen), "a conversation of 26 turns"))


def _parts(rng: Random) -> ProbeRequest:
    first, second, last = codes(rng, 3)
    texts = [f"The first code is {first}.\n", f"The second code is {second}.\n", f"The last code is {last}.\n"]

    def edit(body: dict[str, Any]) -> dict[str, Any]:
        """Puts each text into its own message part, because an adapter may have joined consecutive texts."""
        member = next(name for name in ("messages", "input", "contents") if name in body)
        content = "parts" if member == "contents" else "content"
        kind = {"messages": {"type": "text"}, "input": {"type": "input_text"}, "contents": {}}[member]
        body[member][0][content] = [{**kind, "text": text} for text in texts]
        return body

    messages = [user("".join(texts)), assistant("Noted."), user(_ALL.format("first code, the second"))]
    return ProbeRequest("parts", messages, options=capped(CODE_TOKENS), special="three parts", edit=edit)


READING.probe(
    "message_parts",
    "Does the model see all parts of a message?",
    with_random_values(_parts),
    whim=True,
    refused=("no", "a message can't have several text parts"),
)(lambda seen: judge_codes(seen, sent_text(seen), "a message of three parts"))


def _stored(rng: Random) -> ProbeRequest:
    prompt = f"The first code is {code(rng)}. Remember it, and say hello."
    edit = with_members(store=True)
    return ProbeRequest("stored", prompt, options=capped(64), special="store: true", edit=edit)


def _continued(*, in_full: bool) -> Callable[[Answers], ProbeRequest | None]:
    """Returns a function that creates the next request of a stored conversation. If `in_full` is true, that request
    contains the complete conversation; otherwise it refers to the stored response.
    """

    def follow(answers: Answers) -> ProbeRequest | None:
        seen = answers.get("stored")
        if seen is None or not seen.fine or not seen.reply.id:
            return None
        ask = user("What is the first code? Answer with this code only.")
        if in_full:
            return ProbeRequest("in_full", [user(prompt_of(seen)), seen.reply.message, ask], options=capped(64))
        edit = with_members(previous_response_id=seen.reply.id)
        return ProbeRequest("continued", [ask], options=capped(64), edit=edit)

    return follow


@READING.probe_many(
    "stored",
    "Does the model see the stored response that previous_response_id names?",
    with_random_values(_stored),
    ProbeRequest("continued", BOTH, special="previous_response_id", follow=_continued(in_full=False)),
    ProbeRequest("in_full", BOTH, special="the same conversation in full", follow=_continued(in_full=True)),
    apis=("responses",),
    whim=True,
)
def _judge_stored(answers: Answers) -> Conclusion:
    stored, seen, control = (answers.get(name) for name in ("stored", "continued", "in_full"))
    if stored is None or seen is None:
        return Conclusion("no", refusal(stored) if stored and stored.refused else "not stored")
    if seen.refused:
        return Conclusion("no", refusal(seen))
    (told,) = told_codes(prompt_of(stored)).values()
    if told in seen.text:
        return Conclusion("ok", "the model saw the stored response")
    saw = f"previous_response_id is accepted, but the model didn't see the response; the text is {shown(seen.text, 50)}"
    return doubtful(saw) if control and told in control.text else unclear(saw)


# --- Results of tools ------------------------------------------------------------------------------------------------

_READ_FILE = Tool("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def _results(name: str, make: Callable[[Random], list[str]], special: str) -> ProbeRequest:
    """Returns a request whose last messages are tool results with two codes."""

    def fresh(rng: Random) -> ProbeRequest:
        number, results = rng.randrange(10**4), make(rng)
        paths = [f"notes-{place}.txt" for place in range(1, len(results) + 1)]
        calls = [
            ToolCall(f"call{number:04}{place}", "read_file", {"path": path}, as_json({"path": path}))
            for place, path in enumerate(paths)
        ]
        messages = [
            user(f"Read {' and '.join(paths)} with the tool read_file. {BOTH}"),
            assistant(tool_calls=calls, reasoning="The user wants both codes."),
            *(tool_result(call, result) for call, result in zip(calls, results, strict=True)),
        ]
        return ProbeRequest(name, messages, (_READ_FILE,), options=capped(CODE_TOKENS), special=special)

    return with_random_values(fresh)


def _told_by_user(answers: Answers) -> ProbeRequest | None:
    """If the model found no code in the tool results, returns a request that has the same codes in a user message."""
    seen = next(iter(answers.values()), None)
    told = told_codes(sent_text(seen)) if seen and seen.fine else {}
    if seen is None or not told or any(value in seen.text for value in told.values()):
        return None
    sentences = " ".join(f"The {name} code is {value}." for name, value in told.items())
    return ProbeRequest("told", f"{sentences} {BOTH}", options=capped(CODE_TOKENS))


def _judge_results(what: str) -> Callable[[Answers], Conclusion]:
    def judge(answers: Answers) -> Conclusion:
        seen, told = next(iter(answers.values())), answers.get("told")
        if seen.refused:
            return Conclusion("no", refusal(seen))
        found = judge_codes(seen, sent_text(seen), what)
        if found.verdict == "unclear" and told and told.fine and not seen.reply.tool_calls:
            known = told_codes(sent_text(seen)).values()
            if all(value in told.text for value in known) and seen.reply.finish_reason != "length":
                return doubtful(f"{what}: the response contains no code from it; the text is {shown(seen.text, 50)}")
        return found

    return judge


def _with_special(rng: Random) -> str:
    return two_codes(rng, " ".join(rng.sample(_SPECIAL, len(_SPECIAL))))


for _name, _question, _make, _what in (
    (
        "result", "Does the model see a tool result?",
        lambda rng: [two_codes(rng, "There is nothing else.")], "a tool's result",
    ),
    (
        "two_results", "Does the model see the results of two tool calls?",
        lambda rng: two_codes(rng, "\n").split(" \n "), "the results of two calls",
    ),
    (
        "special_tokens", "Are special tokens in a tool result treated as text?",
        lambda rng: [_with_special(rng)], "a result with special tokens",
    ),
    (
        "long_result", "Does the model see all parts of a long tool result?",
        lambda rng: [two_codes(rng, filler(rng, 24_000))], "a result of about 6000 tokens",
    ),
):  # fmt: skip
    READING.probe_many(
        _name,
        _question,
        _results(_name, _make, _what),
        ProbeRequest("told", BOTH, special="the same codes in a user message", follow=_told_by_user),
        whim=True,
        needs="tool_history",
    )(_judge_results(_what))


def _user_tokens(rng: Random) -> ProbeRequest:
    messages = [user(_with_special(rng)), assistant("Noted."), user(BOTH)]
    return ProbeRequest("tokens", messages, options=capped(CODE_TOKENS), special="special tokens")


READING.probe(
    "user_tokens",
    "Are special tokens in a message treated as text?",
    with_random_values(_user_tokens),
    whim=True,
    refused=("no", ""),
)(lambda seen: judge_codes(seen, sent_text(seen), "a message with special tokens"))

# --- Definitions of tools --------------------------------------------------------------------------------------------

_MANY = 60  # the number of tools, more than the known limits of servers


def _of_tools(count: int) -> ProbeRequest:
    """Returns a request with `count` tools, whose prompt tells the model to call the last tool."""

    def fresh(rng: Random) -> ProbeRequest:
        schema = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
        tools = [
            Tool(f"lookup_{number}", f"Looks up a key in table {number}.", schema) for number in range(10, count + 10)
        ]
        value = as_json({"key": code(rng)})
        prompt = f"Call the tool {tools[-1].name} once. Its arguments must be exactly this JSON object:\n{value}"
        return ProbeRequest(f"of_{count}", prompt, tools, options=capped(128), special=f"{count} tools")

    return with_random_values(fresh)


@READING.probe_many(
    "many_tools",
    "If there are many tools, does the model see all of them?",
    _of_tools(3),
    _of_tools(_MANY),
    whim=True,
    needs="one_call",
)
def _judge_many_tools(answers: Answers) -> Conclusion:
    few, many = answers.get("of_3"), answers.get(f"of_{_MANY}")
    if few is None or many is None or few.refused or many.refused:
        return Conclusion("no", refusal(many) if many and many.refused else "not tested")
    called = {}
    for seen in (few, many):
        name = re.findall(r"the tool (\w+) once", prompt_of(seen))[0]
        called[seen.ask] = any(call.name == name for call in seen.reply.tool_calls)
    if called[many.ask]:
        return Conclusion("ok", f"the last of {_MANY} tools was called")
    others = ", ".join(call.name for call in many.reply.tool_calls)
    saw = f"the last of {_MANY} tools was not called; {others or shown(many.text, 50)}"
    return doubtful(saw) if called[few.ask] else unclear(saw)
