"""Names of images: which can be pulled."""

from __future__ import annotations

import pytest

from weir.simulation.kubelet.commands import is_missing, reference


@pytest.mark.parametrize(
    ("image", "missing"),
    [
        ("nginx", False),
        ("registry.example:5000/team/web:1.2", False),
        ("localhost/web", False),
        ("i", False),
        ("webserver:404", True),
        ("invalid.registry.k8s.io/invalid/alpine:3.1", True),
        ("registry.invalid/web", True),
        ("localhost/some-image-that-doesnt-exist", True),
        ("broken-image", True),
        ("example.com/invalid:1", False),
    ],
)
def test_images_that_do_not_exist_are_known_by_their_names(image, missing):
    assert reference(image) is not None
    assert is_missing(image) is missing


@pytest.mark.parametrize("image", ["!!!", "a b", "web:", "-web:1:2", "web@sha256:1"])
def test_what_is_no_name_of_an_image(image):
    assert reference(image) is None
