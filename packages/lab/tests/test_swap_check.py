"""`streamfold swap-check`: what several providers would be sent, and what was changed for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import Done, start
from commands import run as run_in
from streamfold import Message, image, user
from streamfold.errors import ConfigError
from streamfold_lab.commands.compare_providers import read_conversation

PNG = b"\x89PNG\r\n\x1a\n"

# --- files ------------------------------------------------------------------------------------------------------------


def test_both_forms_of_a_conversation_are_read() -> None:
    """What `to_dict` writes, and dicts of Chat Completions, in one file if need be."""
    entry = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}, "index": 0}
    chat = {"role": "assistant", "content": None, "tool_calls": [entry]}
    read = read_conversation(
        [user("Hi", image(PNG)).to_dict(), chat, {"role": "tool", "tool_call_id": "a", "content": "x"}], "it"
    )
    assert read["messages"] == [user("Hi", image(PNG)), chat, Message("tool", "x", tool_call_id="a")]
    whole = read_conversation({"messages": [{"role": "user", "content": "Hi"}], "options": {"seed": 1}}, "it")
    assert whole == {"messages": [user("Hi")], "tools": [], "tool_choice": "auto", "seed": 1}


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ("Hi", "the conversation must be a list of messages, or an object with messages"),
        ({"message": []},
         ("the conversation: unknown key 'message' (did you mean 'messages'?). Allowed: messages, tools, tool_choice,"
          " options")),
        ({"messages": {}}, "the conversation: messages must be a list"),
        ({"messages": [], "options": []}, "the conversation: options must be an object"),
        ([], "messages is empty: add a message"),
        ([{"role": "user", "content": [{"part": "text"}]}],
         'messages[0].content[0].part must be "text", "image", "file", "audio" or "dict", not \'text\''),
        ([{"role": "usr", "content": "Hi"}],
         ("messages[0].role: unknown role 'usr' (did you mean 'user'?). Allowed: system, developer, user,"
          " assistant, tool, function")),
        ([5], "messages[0] must be a Message or a dict with a role, not a number: 5"),
    ],
)  # fmt: skip
def test_files_that_hold_no_conversation(data: Any, wanted: str) -> None:
    """What is wrong, where, and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        read_conversation(data, "the conversation")
    assert str(caught.value) == wanted


# --- the command ------------------------------------------------------------------------------------------------------


def run(tmp_path: Path, data: Any, *words: str, apart: bool = False, **variables: str) -> Done:
    """Checks a conversation; `apart`: in a process of its own."""
    file = tmp_path / "conversation.json"
    file.write_text(json.dumps(data) if not isinstance(data, str) else data, "utf-8")
    return (start if apart else run_in)(tmp_path, "swap-check", *words, str(file), **variables)


def test_the_command_without_keys(tmp_path: Path) -> None:
    """It prints what would be sent, needs no key, and ends with 0 if nothing is lost."""
    data = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "No."},
    ]
    done = run(tmp_path, data, "-p", "openai:m", "-p", "kimi:m", apart=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "POST https://api.openai.com/v1/chat/completions\n" in done.stdout
    assert '"model": "m"' in done.stdout
    assert done.stdout.splitlines()[-2:] == [
        "openai:m: nothing is changed",
        "kimi:m: nothing is changed",
    ]


def test_the_command_tells_losses(tmp_path: Path) -> None:
    """Exit code 1, and the warning at the provider that it concerns."""
    data = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Yes?", "reasoning": "Hm."}]
    data.append({"role": "user", "content": "x" * 1000})
    done = run(tmp_path, data, "-p", "openai:gpt-5-mini", "-p", "kimi:kimi-k2.6")
    assert done.returncode == 1
    assert (
        "warning reasoning_dropped: messages[1]: the reasoning was not sent, because this provider doesn't accept it\n"
        in done.stdout
    )
    assert done.stdout.splitlines()[-2:] == ["openai:gpt-5-mini: 1 warning", "kimi:kimi-k2.6: nothing is changed"]
    assert "x" * 301 not in done.stdout


def test_the_command_as_json(tmp_path: Path) -> None:
    """One line for each provider, with the whole body."""
    done = run(tmp_path, {"messages": [{"role": "user", "content": "Hi."}], "options": {"seed": 3}}, "--json",
               "-p", "ollama:m", "-p", "openai-responses:m")  # fmt: skip
    first, second = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert first == {
        "provider": "ollama:m",
        "method": "POST",
        "url": "http://127.0.0.1:11434/v1/chat/completions",
        "fine": True,
        "error": None,
        "warnings": [],
        "headers": first["headers"],
        "body": {
            "model": "m", "messages": [{"role": "user", "content": "Hi."}], "stream": True,
            "stream_options": {"include_usage": True}, "seed": 3,
        },
    }  # fmt: skip
    assert second["error"] is None
    assert [warning["code"] for warning in second["warnings"]] == ["option_dropped"]
    assert ("seed" in second["body"], second["fine"], "Authorization" in first["headers"]) == (False, False, False)


def test_no_secret_is_shown(tmp_path: Path) -> None:
    """Neither a password in a URL, nor a key, nor what a variable stands for; unset variables stop nothing."""
    (tmp_path / "own.toml").write_text(
        '[providers.own]\nbase_url = "https://me:pa55word@x.test/v1?key=qu3ry"\napi_key = "sk-s3cret"\n'
        'model = "${OWN_MODEL}"\nheaders = { X-Team = "${NOWHERE}" }\n'
        '[providers.unset]\nbase_url = "https://${NOWHERE}/v1"\nmodel = "${NOWHERE}"\n',
        "utf-8",
    )
    words = ("-p", "own", "-p", "unset", "--config", str(tmp_path / "own.toml"))
    done = run(tmp_path, [{"role": "user", "content": "Hi."}], *words, OWN_MODEL="m0del-of-mine")
    assert (done.returncode, done.stderr) == (0, "")
    assert "POST https://***@x.test/v1/chat/completions?***\n" in done.stdout
    assert "POST https://${NOWHERE}/v1/chat/completions\n" in done.stdout
    assert '"model": "${OWN_MODEL}"' in done.stdout
    assert not any(word in done.stdout for word in ("pa55word", "qu3ry", "s3cret", "m0del"))


@pytest.mark.parametrize(
    ("data", "words", "wanted"),
    [
        ("[Hi]", ["-p", "ollama:m"], "error: CONVERSATION: not JSON: Expecting value: line 1 column 2 (char 1)"),
        ({"msgs": []}, ["-p", "ollama:m"],
         "error: CONVERSATION: unknown key 'msgs'. Allowed: messages, tools, tool_choice, options"),
        ([{"role": "user", "content": "Hi."}], ["-p", "openai"], 'error: no model for "openai": write "openai:MODEL"'),
        ([{"role": "user", "content": "Hi."}], ["-p", "kimmi:m"],
         "error: unknown provider 'kimmi' (did you mean 'kimi'?)"),
    ],
)  # fmt: skip
def test_bad_usage(tmp_path: Path, data: Any, words: list[str], wanted: str) -> None:
    """Exit code 2 and one line."""
    done = run(tmp_path, data, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.replace(str(tmp_path / "conversation.json"), "CONVERSATION").strip() == wanted


def test_no_provider_is_bad_usage(tmp_path: Path) -> None:
    """There must be something to compare."""
    done = run(tmp_path, [{"role": "user", "content": "Hi."}])
    assert done.returncode == 2
    assert "Missing option" in done.stderr
