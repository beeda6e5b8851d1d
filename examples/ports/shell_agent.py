"""An agent that works in a shell: one command a turn, until it says that it is done, or a limit ends it.

Ported from a program on LiteLLM; docs/guides/ports.md says what became of it.
`python shell_agent.py "Count the lines of all Python files here"`
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from streamfold import ChatModel, ContextLengthError, Message, system, user
from streamfold.sync import Provider

DONE = "TASK_IS_DONE"
RULES = f"""You work on a task in a shell. Answer with a short thought and exactly one command, in a block of bash:

```bash
ls
```

You are shown what it printed. When the task is done, run a command whose first line of output is {DONE}; what it prints
after that is your result."""
AGAIN = "Give exactly one command in a block of bash; there were {number}."
_COMMAND = re.compile(r"```bash\s*\n(.*?)\n```", re.DOTALL)


@dataclass
class ShellAgent:
    """Runs the loop.

    Attributes:
        most_steps, most_cost: what ends it; an answer without a known price counts as nothing.
        seconds: for each command.
        record: a file that gets the conversation after each step.
    """

    model: Provider | ChatModel
    folder: Path = Path()
    most_steps: int = 50
    most_cost: Decimal = Decimal(3)
    seconds: float = 30.0
    record: Path | None = None
    messages: list[Message] = field(default_factory=list[Message])
    cost: Decimal = Decimal(0)

    def run(self, task: str) -> tuple[str, str]:
        """Works on a task. Returns how it ended ("done", "steps", "cost", "context") and the result."""
        provider = Provider(self.model) if not isinstance(self.model, Provider) else self.model
        self.messages = [system(RULES), user(f"The task: {task}")]
        for _ in range(self.most_steps):
            if self.cost >= self.most_cost:
                return "cost", ""
            try:
                reply = provider.chat(self.messages)  # asks again by itself where that may help
            except ContextLengthError:
                return "context", ""
            self.cost += reply.cost.amount if reply.cost else 0
            self.messages.append(reply.message)  # with what its provider wants back of its thoughts
            found = _COMMAND.findall(reply.text)
            if len(found) != 1:
                self._say(AGAIN.format(number=len(found)))
                continue
            status, printed = self._execute(found[0])
            first, _, rest = printed.lstrip().partition("\n")
            if status == 0 and first.strip() == DONE:
                self._say(printed)
                return "done", rest
            self._say(f"<status>{status}</status>\n<output>\n{printed}</output>")
        return "steps", ""

    def _execute(self, command: str) -> tuple[int | str, str]:
        try:
            ended = subprocess.run(  # noqa: S602  # a shell is what the agent is for: give it a container
                command,
                shell=True,
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self.seconds,
                text=True,
                errors="replace",
            )
        except subprocess.TimeoutExpired as expired:
            printed = expired.output or b""
            return "it took too long and was ended", printed if isinstance(printed, str) else printed.decode()
        return ended.returncode, ended.stdout

    def _say(self, text: str) -> None:
        self.messages.append(user(text))
        if self.record is not None:
            self.record.write_text(json.dumps([message.to_dict() for message in self.messages], indent=2))


if __name__ == "__main__":
    with Provider.from_config() as provider:
        print(*ShellAgent(provider).run(sys.argv[1]))
