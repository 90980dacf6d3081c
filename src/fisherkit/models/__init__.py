"""Models in files that are safe to open, and as ONNX graphs."""

from fisherkit.models.archives import ModelFileError
from fisherkit.models.checks import Metadata
from fisherkit.models.files import ModelFile
