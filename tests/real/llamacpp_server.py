"""Runs llama.cpp's HTTP server, as the package xllamacpp carries it, on loopback until its input ends."""

from __future__ import annotations

import sys

import xllamacpp


def serve(model: str) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"] if isinstance(params.hostnames, list) else "127.0.0.1"
    params.port = 0
    params.n_parallel = 4
    params.n_ctx = 8192
    params.use_jinja = True
    params.sampling.seed = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.ui = False
    params.offline = True
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    del server


if __name__ == "__main__":
    serve(sys.argv[1])
