"""Custom resources: what a CustomResourceDefinition says of them, and whether an object keeps to it.

Pure functions over documents. A definition's schema is read once (`schema`), an object is checked against it in the
words of the API server (`values`), and fields it does not have are found (`unknown_fields`).
Not here: rules of `x-kubernetes-validations`, serving custom resources.
"""
