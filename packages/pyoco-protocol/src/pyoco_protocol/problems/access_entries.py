"""Failures at the door: who may call, from where, how much, and who may speak to the broker."""

from typing import Final

from pyoco_protocol.problems.entries import entry, texts

ACCESS: Final = (
    entry(
        "0130",
        texts("The API key may not do this", "このAPI keyには許可されていない操作です"),
        texts(
            "Use a key with the scope named in `detail`, or ask an operator for one.",
            "`detail` に示されたscopeを持つkeyを使うか、運用者に発行を依頼してください。",
        ),
    ),
)
