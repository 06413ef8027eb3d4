"""Custom resources: schemas, pruning, defaulting and validation.

Pure functions over documents. Serving custom resources is in weir.apiserver.compat.customresources.
"""
