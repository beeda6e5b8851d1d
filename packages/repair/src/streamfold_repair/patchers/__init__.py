"""Stream patchers, one for each API: serializers that also write the members of events without a delta."""
