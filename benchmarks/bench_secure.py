"""What TLS and a proxy add to an answer, and whether the ratio to the bare loop stays what it is without them.

Four routes to the same server: plain, TLS, an HTTP proxy, and TLS in a tunnel through that proxy. On each the bare
httpx loop and streamfold, over both of its transports, stream a short answer and a long one, each in a process of its
own with connections that are kept. Printed are the least CPU time of an answer, and the ratios to the loop.

    python benchmarks/bench_secure.py [ROUNDS]      needs the command `openssl`, for a certificate
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import environments
from payloads import payload
from replay import Connection, Pacer

CONTESTANTS = ("floor", "streamfold", "streamfold-aiohttp")
ROUTES = {
    "plain": ("http", ""),
    "TLS": ("https", ""),
    "proxy": ("http", "HTTP"),
    "TLS through proxy": ("https", "HTTPS"),
}
SIZES = {5: 300, 400: 20}  # events of an answer, and how many answers are measured
PIECE = 2**16  # bytes


async def serve(certificate: str, key: str) -> None:
    """Serves the answers with and without TLS, and a proxy. Prints the three ports."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    loop, answers = asyncio.get_running_loop(), partial(Connection, Pacer())
    servers = [
        await loop.create_server(answers, "127.0.0.1", 0),
        await loop.create_server(answers, "127.0.0.1", 0, ssl=context),
        await asyncio.start_server(tunnel, "127.0.0.1", 0),
    ]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carries one connection through the proxy, which takes CONNECT and whole URLs."""
    head = await reader.readuntil(b"\r\n\r\n")
    method, target, _ = head.split(b" ", 2)
    authority = target if method == b"CONNECT" else target.split(b"/")[2]
    host, _, port = authority.decode().rpartition(":")
    their_reader, their_writer = await asyncio.open_connection(host, int(port))
    origin = b""
    if method == b"CONNECT":
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
    else:
        origin = b" http://" + authority
        their_writer.write(head.replace(origin, b" ", 1))
    await asyncio.gather(copy(reader, their_writer, origin), copy(their_reader, writer))


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, origin: bytes = b"") -> None:
    """Copies what comes; of requests with a whole URL the origin is left out."""
    with suppress(OSError):
        while data := await reader.read(PIECE):
            writer.write(data.replace(origin, b" ", 1) if origin else data)
            await writer.drain()
    writer.close()


async def ask(name: str, base: str) -> None:
    """Streams the answers, and prints the seconds of CPU for one of each size."""
    prepare = import_module(f"contestants.{name.replace('-', '_')}").prepare
    for size, count in SIZES.items():
        answer = payload("chat-text", size)
        stream = prepare(f"{base}/{answer.name}/one/{size}/v1", answer.api, None)
        for _ in range(5):
            text, *_ = await stream()
            assert text == answer.text
        began = process_time()
        for _ in range(count):
            await stream()
        print((process_time() - began) / count)


def measure(name: str, route: str, ports: list[str], certificate: Path) -> list[float]:
    """Microseconds for an answer of each size."""
    scheme, through = ROUTES[route]
    variables = {**environments.clean_environment(), "SSL_CERT_FILE": str(certificate)}
    if through:
        variables[f"{through}_PROXY"] = f"http://127.0.0.1:{ports[2]}"
    words = [sys.executable, __file__, "--ask", name, f"{scheme}://127.0.0.1:{ports[scheme == 'https']}"]
    out = subprocess.run(words, stdout=subprocess.PIPE, env=variables, text=True, check=True).stdout
    return [float(line) * 1e6 for line in out.split()]


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(*sys.argv[2:]))
        return
    if sys.argv[1:2] == ["--ask"]:
        asyncio.run(ask(*sys.argv[2:]))
        return
    least: dict[tuple[str, str], list[float]] = {}
    with TemporaryDirectory() as folder:
        certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        made = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-nodes"]
        files = ["-keyout", str(key), "-out", str(certificate)]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", *made, *files], check=True, capture_output=True
        )
        words = [sys.executable, __file__, "--serve", str(certificate), str(key)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdin
            assert server.stdout
            ports = server.stdout.readline().split()
            for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 7):
                for route in ROUTES:
                    for name in CONTESTANTS:
                        took = measure(name, route, ports, certificate)
                        least[route, name] = [
                            min(pair) for pair in zip(took, least.get((route, name), took), strict=True)
                        ]
            server.stdin.close()
    for place, size in enumerate(SIZES):
        print(f"an answer of {size} events")
        for route in ROUTES:
            floor = least[route, CONTESTANTS[0]][place]
            of = ", ".join(f"{name} {least[route, name][place] / floor:.2f}" for name in CONTESTANTS[1:])
            print(f"  {route:18s} floor {floor:6.0f} us; of it {of}")


if __name__ == "__main__":
    main()
