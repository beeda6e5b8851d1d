"""Stream patchers, one for each API: serializers that also write the fields of events that no delta contains."""
