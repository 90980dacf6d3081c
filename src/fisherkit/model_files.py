"""Models in files that are safe to open: the public name of `fisherkit.models.files`."""

from fisherkit.models import ModelFileError
from fisherkit.models.files import ModelFile, VersionWarning, load, read_metadata, save

__all__ = ["ModelFile", "ModelFileError", "VersionWarning", "load", "read_metadata", "save"]
