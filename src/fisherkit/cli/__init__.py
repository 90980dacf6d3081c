"""The ``fisherkit`` command."""
