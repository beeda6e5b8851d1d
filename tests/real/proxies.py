"""nginx, HAProxy and Caddy before a server, as people have them there: started for one test, on loopback."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import Process

from processes import free_port

NGINX = """\
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  gzip on; gzip_types text/event-stream; gzip_min_length 1; gzip_proxied any;
  server {{
    listen 127.0.0.1:{port} {tls};
    location / {{
      proxy_pass http://127.0.0.1:{upstream}; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_read_timeout {timeout}s;
    }}
  }}
}}
"""

HAPROXY = """\
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server {timeout}s
frontend here
  bind 127.0.0.1:{port} {tls}
  default_backend there
backend there
  option abortonclose
  filter compression
  compression algo gzip
  compression type text/event-stream
  server there 127.0.0.1:{upstream}
"""

CADDY = """\
{{
  admin off
  auto_https off
  storage file_system {folder}
}}
{scheme}://127.0.0.1:{port} {{
  bind 127.0.0.1
  {tls}
  encode gzip {{
    minimum_length 1
    match header Content-Type text/event-stream*
  }}
  reverse_proxy 127.0.0.1:{upstream} {{
    transport http {{
      response_header_timeout {timeout}s
      read_timeout {timeout}s
    }}
  }}
}}
"""

CONFIGS = {"nginx": NGINX, "haproxy": HAPROXY, "caddy": CADDY}
TLS = {
    "nginx": "ssl http2; ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem",
    "haproxy": "ssl crt {folder}/both.pem alpn h2,http/1.1",
    "caddy": "tls {folder}/cert.pem {folder}/key.pem",
}
COMMANDS = {
    "nginx": ["-p", "{folder}", "-e", "{folder}/error.log", "-c", "{folder}/config"],
    "haproxy": ["-db", "-f", "{folder}/config"],
    "caddy": ["run", "--config", "{folder}/config", "--adapter", "caddyfile"],
}


def program(kind: str) -> str | None:
    """The program that STREAMFOLD_NGINX and the like name; None if it is not there."""
    return os.environ.get(f"STREAMFOLD_{kind.upper()}")


@asynccontextmanager
async def proxying(
    kind: str, upstream: int, folder: Path, *, tls: bool = False, timeout: int = 30
) -> AsyncIterator[str]:
    """A proxy before the server on that port; gives its base URL.

    Args:
        tls: with HTTP/2, and the certificate that is in the folder.
        timeout: seconds for which it waits for the server.
    """
    port, scheme = free_port(), "https" if tls else "http"
    secure = TLS[kind].format(folder=folder) if tls else ""
    config = CONFIGS[kind].format(
        folder=folder, port=port, upstream=upstream, timeout=timeout, scheme=scheme, tls=secure
    )
    async with running_proxy(kind, config, port, folder):
        yield f"{scheme}://127.0.0.1:{port}/v1"


@asynccontextmanager
async def running_proxy(kind: str, config: str, port: int, folder: Path) -> AsyncIterator[None]:
    """A proxy with this configuration, which listens on this port."""
    (folder / "config").write_text(config, "utf-8")
    command = [str(program(kind)), *(word.format(folder=folder) for word in COMMANDS[kind])]
    env = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / "log").open("wb") as log:
        process = await anyio.open_process(command, env=env, stdin=None, stdout=log, stderr=log)
        async with process:
            try:
                await _listening(port, process, folder)
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    if process.returncode is None:
                        process.kill()
                    await process.wait()


async def _listening(port: int, process: Process, folder: Path) -> None:
    with anyio.fail_after(30):
        while True:
            try:
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                return
            except OSError:
                if process.returncode is not None:
                    raise AssertionError(f"it ended: {(folder / 'log').read_text('utf-8')}") from None
                await anyio.sleep(0.02)
