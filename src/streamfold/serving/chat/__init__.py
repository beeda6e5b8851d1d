"""Parses the requests and serializes the responses of a server that offers Chat Completions."""

from .serializer import ChatSerializer
