"""The OpenAPI documents, version 2 and 3."""
