"""Stream patchers: serializers that also write what an event says beside its deltas, one for each API."""
