import base64
import hashlib
import json
from pathlib import Path

import pytest

from aioum.core.errors import ProofInvalid
from aioum.core.merkle import verify_consistency, verify_inclusion


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def test_public_inclusion_proofs_verify_or_fail_as_they_say(shared_vectors_dir: Path) -> None:
    files = sorted((shared_vectors_dir / "merkle" / "inclusion").rglob("*.json"))
    assert len(files) > 90
    for path in files:
        case = json.loads(path.read_text(encoding="utf-8"))
        leaf, root = (base64.b64decode(case.get(name) or "") for name in ("leafHash", "root"))
        siblings = [base64.b64decode(text or "") for text in case.get("proof") or []]
        arguments = (leaf, case.get("leafIdx", 0), case.get("treeSize", 0), siblings, root, node_hash)
        if case.get("wantErr", False):
            with pytest.raises(ProofInvalid):
                verify_inclusion(*arguments)
        else:
            verify_inclusion(*arguments)


def test_public_consistency_proofs_verify_or_fail_as_they_say(shared_vectors_dir: Path) -> None:
    files = sorted((shared_vectors_dir / "merkle" / "consistency").rglob("*.json"))
    assert len(files) > 90
    for path in files:
        case = json.loads(path.read_text(encoding="utf-8"))
        roots = [base64.b64decode(case.get(name) or "") for name in ("root1", "root2")]
        proof = [base64.b64decode(text or "") for text in case.get("proof") or []]
        arguments = (case.get("size1", 0), case.get("size2", 0), *roots, proof, node_hash)
        if case.get("wantErr", False):
            with pytest.raises(ProofInvalid):
                verify_consistency(*arguments)
        else:
            verify_consistency(*arguments)
