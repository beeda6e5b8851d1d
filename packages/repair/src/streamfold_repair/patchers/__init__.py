"""Stream patchers, one for each API. A patcher is a serializer that also writes those fields of the server's events
that no delta contains.
"""
