"""What a ledger holds, in SQL: what is known of each row, and apart from that the answers, which are a lot to read.

A job that goes on reads all of `row` and nothing of `answer`, so that it begins at once whatever the answers are.
"""

from __future__ import annotations

import json
from time import time
from typing import Any

from .answers import Answer, encoded

SENT, DONE, ERROR = 1, 2, 3  # the states of a row in memory; 0 for one that has none of them
FORMAT = "2"
TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS row (
    n INTEGER PRIMARY KEY, id TEXT NOT NULL, state TEXT NOT NULL, tries INTEGER NOT NULL, seconds REAL, at REAL,
    input_tokens INTEGER, output_tokens INTEGER, cost TEXT, currency TEXT, estimated INTEGER, batch TEXT
);
CREATE TABLE IF NOT EXISTS answer (n INTEGER PRIMARY KEY, line TEXT NOT NULL);
"""

MARK = (
    "INSERT INTO row (n, id, state, tries, at) VALUES (?, ?, 'sent', 1, ?)"
    " ON CONFLICT (n) DO UPDATE SET state = 'sent', tries = tries + 1, at = excluded.at"
)
UNMARK = "UPDATE row SET state = '', tries = tries - 1 WHERE n = ?"
END = (
    "INSERT INTO row (n, id, state, tries, seconds, at, input_tokens, output_tokens, cost, currency, estimated)"
    " VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (n) DO UPDATE SET state = excluded.state,"
    " seconds = excluded.seconds, at = excluded.at, input_tokens = excluded.input_tokens,"
    " output_tokens = excluded.output_tokens, cost = excluded.cost, currency = excluded.currency,"
    " estimated = excluded.estimated"
)
KEEP = "INSERT OR REPLACE INTO answer (n, line) VALUES (?, ?)"
STATES = (
    "SELECT n, CASE state WHEN 'sent' THEN 1 WHEN 'done' THEN 2 WHEN 'error' THEN 3 ELSE 0 END FROM row WHERE n < ?"
)
COUNTS = "SELECT total(state = 'sent'), total(state = 'done'), total(state = 'error') FROM row"
TOKENS = "SELECT sum(input_tokens), sum(output_tokens) FROM row"
COSTS = "SELECT cost, currency, estimated FROM row WHERE cost IS NOT NULL"
UNPRICED = "SELECT count(*) FROM row WHERE state = 'done' AND cost IS NULL"
ANSWERS = (
    "SELECT n, id, state, tries, seconds, line FROM row JOIN answer USING (n)"
    " WHERE n >= ? AND state IN ('done', 'error') ORDER BY n LIMIT ?"
)


def mark(number: int, name: str) -> tuple[Any, ...]:
    """Returns the values of MARK."""
    return (number, name, time())


def end(answer: Answer) -> tuple[Any, ...]:
    """Returns the values of END."""
    usage, cost = answer.usage, answer.cost
    priced = (f"{cost.amount:f}", cost.currency, cost.estimated) if cost else (None, None, None)
    state = "done" if answer.error is None else "error"
    tokens = (usage.input_tokens, usage.output_tokens)
    return (answer.number, answer.id, state, answer.seconds, time(), *tokens, *priced)


def keep(answer: Answer) -> tuple[Any, ...]:
    """Returns the values of KEEP."""
    members = answer.reply if answer.error is None else {"error": answer.error}
    return (answer.number, encoded(members or {}))


def read(found: tuple[Any, ...]) -> Answer:
    """Returns an answer of ANSWERS."""
    number, name, state, tries, seconds, line = found
    members = json.loads(line)
    reply, error = (members, None) if state == "done" else (None, members["error"])
    return Answer(name, number, reply, error, tries, seconds or 0.0)


def line_of(found: tuple[Any, ...]) -> str:
    """Returns an answer of ANSWERS as a line of the output, without reading it."""
    _, name, _, tries, seconds, line = found
    return f'{{"id":{encoded(name)},{line[1:-1]},"tries":{tries},"seconds":{round(seconds or 0.0, 3)}}}'
