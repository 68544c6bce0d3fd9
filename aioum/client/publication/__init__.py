"""Publishing evidence where others can get it, and getting what others published (PROTOCOL 7)."""

from aioum.client.publication.data_uri import DataUriPublisher
from aioum.client.publication.directory import DirectoryPublisher
from aioum.client.publication.exchange import Reach
from aioum.client.publication.fetching import (
    EvidenceUnavailable,
    FetchedEvidence,
    FetchPolicy,
    fetch_evidence,
)
from aioum.client.publication.kubo import KuboPublisher
from aioum.client.publication.pinning import PinningPublisher, UploadPublisher
from aioum.client.publication.published import (
    Placed,
    Published,
    Publisher,
    PublishFailed,
    publish_evidence,
)
from aioum.client.publication.service import read_token

__all__ = [
    "DataUriPublisher",
    "DirectoryPublisher",
    "EvidenceUnavailable",
    "FetchPolicy",
    "FetchedEvidence",
    "KuboPublisher",
    "PinningPublisher",
    "Placed",
    "PublishFailed",
    "Published",
    "Publisher",
    "Reach",
    "UploadPublisher",
    "fetch_evidence",
    "publish_evidence",
    "read_token",
]
