"""Anthropic's Messages API: requests and answers, both ways."""

from .decode import *
