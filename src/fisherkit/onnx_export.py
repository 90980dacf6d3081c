"""Classifiers as ONNX graphs: the public name of `fisherkit.models.onnx`."""

from fisherkit.models.onnx import ExportError, to_onnx

__all__ = ["ExportError", "to_onnx"]
