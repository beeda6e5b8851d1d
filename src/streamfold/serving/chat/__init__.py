"""Chat Completions for clients: parses requests, serializes answers."""

from .serializer import ChatSerializer
