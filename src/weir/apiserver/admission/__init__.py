"""Admission: what is added to, and refused of, every write. `chain` has the order, one file per plugin."""

from weir.apiserver.admission.attributes import Attributes, Reader
from weir.apiserver.admission.chain import Chain, Settings

__all__ = ["Attributes", "Chain", "Reader", "Settings"]
