"""Validation of a definition's `spec.conversion`.

Spec: upstream's rules of apiextensions.k8s.io/v1, in its words and order.
"""

from __future__ import annotations

from typing import Final

from weir.validate.field import Document, Enum, Errors, forbidden, invalid, not_supported, required
from weir.validate.webhooks import validate_client_service, validate_client_url
from weir.values.names import check_dns1035_label

_REVIEWS: Final = ("v1", "v1beta1")


def validate_conversion(spec: Document, old: Document | None) -> Errors:
    """Yield what is wrong with `spec.conversion` of a definition whose stored spec is *old*."""
    conversion = spec.get("conversion")
    if conversion is None:
        return
    strategy, client = conversion.get("strategy") or "", conversion.get("webhookClientConfig")
    reviews, at = conversion.get("conversionReviewVersions") or [], "spec.conversion"
    if strategy != "None" and spec.get("preserveUnknownFields"):
        detail = "must be None if spec.preserveUnknownFields is true"
        yield invalid(f"{at}.strategy", Enum(strategy), detail)
    if not strategy:
        yield required(f"{at}.strategy")
    elif strategy not in ("None", "Webhook"):
        yield not_supported(f"{at}.strategy", strategy, ("None", "Webhook"))
    if strategy != "Webhook":
        for name, value in (("webhookClientConfig", client), ("conversionReviewVersions", reviews)):
            if value:
                yield forbidden(f"{at}.{name}", "should not be set when strategy is not set to Webhook")
        return
    place = f"{at}.webhookClientConfig"
    if client is None:
        yield required(place, "required when strategy is set to Webhook")
    elif (client.get("url") is None) == (client.get("service") is None):
        yield required(place, "exactly one of url or service is required")
    elif client.get("url") is not None:
        yield from validate_client_url(client["url"], f"{place}.url")
    else:
        yield from validate_client_service(client["service"], f"{place}.service")
    were = ((old or {}).get("conversion") or {}).get("conversionReviewVersions") or []
    known = not were or any(version in _REVIEWS for version in were)
    yield from _validate_reviews(reviews, f"{at}.conversionReviewVersions", known)


def _validate_reviews(reviews: list[str], at: str, must_be_known: bool) -> Errors:
    if not reviews:
        yield required(at)
        return
    seen: set[str] = set()
    for i, version in enumerate(reviews):
        if version in seen:
            yield invalid(f"{at}[{i}]", version, "duplicate version")
            continue
        seen.add(version)
        for message in check_dns1035_label(version):
            yield invalid(f"{at}[{i}]", version, message)
    if must_be_known and not seen & {*_REVIEWS}:
        yield invalid(at, reviews, f"must include at least one of {', '.join(_REVIEWS)}")
