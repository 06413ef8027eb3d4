"""Admission control: `chain` has the order, with one module per plugin."""

from weir.apiserver.admission.attributes import Attributes, Reader
from weir.apiserver.admission.chain import Chain, Settings

__all__ = ["Attributes", "Chain", "Reader", "Settings"]
