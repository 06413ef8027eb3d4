"""Claims about when certificate requests go."""

from datetime import timedelta

import pytest

from tests.certificate_documents import LEAF, NOW, b64, condition, conditions, pod_request, request
from weir.controllers.compat.certificates import CertificateCleaner, PodCertificateCleaner
from weir.controllers.runtime.controller import Delete, WakeAt
from weir.controllers.runtime.listers import Listers
from weir.gates import Gates
from weir.objects.kinds import CERTIFICATE_SIGNING_REQUESTS as REQUESTS
from weir.objects.kinds import POD_CERTIFICATE_REQUESTS as POD_REQUESTS
from weir.objects.times import format_time

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


def decided(*types, certificate=""):
    found = {
        **request("a"),
        **conditions(*(condition(type, lastUpdateTime=format_time(NOW)) for type in types)),
    }
    found["metadata"] |= {"uid": "u", "creationTimestamp": format_time(NOW)}
    if certificate:
        found["status"]["certificate"] = b64(certificate)
    return found


def after(controller, document, passed):
    (key,) = controller.changed(REQUESTS, None, document)
    return list(controller.reconcile(key, Listers.of([document]), NOW + passed))


@pytest.mark.parametrize(
    "document, lives",
    [
        (decided(), 24 * HOUR),
        (decided("Denied"), HOUR),
        (decided("Approved", "Failed"), HOUR),
        (decided("Approved"), 24 * HOUR),
        (decided("Approved", certificate=LEAF), HOUR),
    ],
)
def test_a_request_goes_when_nobody_needs_it(document, lives):
    (waits,) = after(CertificateCleaner(Gates()), document, lives)
    assert isinstance(waits, WakeAt) and waits.at == NOW + lives + SECOND
    assert after(CertificateCleaner(Gates()), document, lives + SECOND) == [Delete(REQUESTS, "a", uid="u")]


def test_other_conditions_keep_it():
    assert after(CertificateCleaner(Gates()), decided("Odd"), 1000 * HOUR) == []


def test_a_pod_s_request_goes_after_a_quarter_of_an_hour():
    document = pod_request("a")
    document["metadata"] |= {"namespace": "default", "uid": "u", "creationTimestamp": format_time(NOW)}
    cleaner = PodCertificateCleaner(Gates())
    (waits,) = after(cleaner, document, timedelta(minutes=14))
    assert waits.at == NOW + timedelta(minutes=15)
    gone = [Delete(POD_REQUESTS, "a", "default", "u")]
    assert after(cleaner, document, timedelta(minutes=15)) == gone
