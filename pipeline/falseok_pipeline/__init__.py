"""From spooled events to one verdict a request: sources, validation, the store and its views."""
