"""Key records of the earlier server, as the admin command of `pyoco-server` 0.5.1 stored them."""

import json
from typing import Final

# The secret of this key has 43 characters of base64, as the keys of this server.
KEY_ID: Final = "5a1fc0029e942311e99ff054"
KEY: Final = f"pyoco_{KEY_ID}.ma6dCL2S_RSBgAjr7mzOjkLZXSIkz-x-Z9oxG8sAPQM"
REVOKED_ID: Final = "c8079e1f2ae9e526ccbe1fb9"

_RECORD: Final = {
    "key_id": KEY_ID,
    "tenant_id": "acme",
    "kdf": "pbkdf2_hmac_sha256",
    "iterations": 200000,
    "salt_b64": "w4Dko0iBvm8vyCJuWap6Jg",
    "hash_b64": "JMzfIpw-Qangd_UsyA1xWa2WWkdXgnrdDl846uici0I",
    "created_at": 1795011847.1601632,
    "revoked_at": None,
}

# Values by key of the bucket.
RECORDS: Final = {
    f"api_keys.{KEY_ID}": json.dumps(_RECORD).encode(),
    f"api_keys.{REVOKED_ID}": json.dumps(
        {**_RECORD, "key_id": REVOKED_ID, "tenant_id": "gone", "revoked_at": 1795011848.2539835}
    ).encode(),
}
