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
    entry(
        "0133",
        texts("There is no such API key", "該当するAPI keyがありません"),
        texts(
            "Check the key id; `pyoco-server-admin api-key list` shows all there are.",
            "key idを確認してください。`pyoco-server-admin api-key list` で一覧を表示できます。",
        ),
        retryable=False,
    ),
    entry(
        "0134",
        texts("The API key cannot be changed so", "このAPI keyはそのように変更できません"),
        texts(
            "The key stays as it is. `pyoco-server-admin api-key create` makes a new one.",
            "keyは変更されていません。"
            "新しいkeyは `pyoco-server-admin api-key create` で発行できます。",
        ),
        retryable=False,
    ),
    entry(
        "0135",
        texts(
            "The gateway is not called by this name",
            "この名前でgatewayを呼び出すことはできません",
        ),
        texts(
            "Use the address that the gateway listens on, or add the name to PYOCO_ALLOWED_HOSTS.",
            "gatewayの待ち受けアドレスを使うか、PYOCO_ALLOWED_HOSTSに名前を追加してください。",
        ),
    ),
    entry(
        "0136",
        texts(
            "Pages of other sites may not change anything here",
            "他サイトのページからは変更できません",
        ),
        texts(
            "Call the API from a program, or from a page that this gateway serves. Names in "
            "PYOCO_ALLOWED_HOSTS count as its own.",
            "プログラム、またはこのgatewayが配信するページから呼び出してください。"
            "PYOCO_ALLOWED_HOSTSの名前は自サイトとして扱われます。",
        ),
        retryable=False,
    ),
    entry(
        "0137",
        texts("The answer took too long", "応答が時間内に得られませんでした"),
        texts(
            "What was asked for may have been done: look first, then try again. An idempotency "
            "key makes that safe for submissions.",
            "要求は処理された可能性があります。状態を確認してから再試行してください。"
            "runの投入ではidempotency keyを使うと安全です。",
        ),
    ),
    entry(
        "0138",
        texts("The request arrived too slowly", "リクエストの受信が遅すぎます"),
        texts(
            "Send it again over a faster connection, or raise PYOCO_HTTP_BODY_TIMEOUT_SEC or "
            "PYOCO_HTTP_HEADER_TIMEOUT_SEC.",
            "より速い接続で再送するか、PYOCO_HTTP_BODY_TIMEOUT_SECまたは"
            "PYOCO_HTTP_HEADER_TIMEOUT_SECを増やしてください。",
        ),
    ),
    entry(
        "0139",
        texts("The headers are too large", "ヘッダーが大きすぎます"),
        texts(
            "Send fewer or shorter headers, or raise PYOCO_HTTP_MAX_HEADERS or "
            "PYOCO_HTTP_MAX_HEADER_BYTES.",
            "ヘッダーを減らすか短くするか、PYOCO_HTTP_MAX_HEADERSまたは"
            "PYOCO_HTTP_MAX_HEADER_BYTESを増やしてください。",
        ),
    ),
    entry(
        "0140",
        texts("NATS does not permit this to us", "NATSがこの操作を許可していません"),
        texts(
            "An operator must give our NATS user the subject that the log names; "
            "`pyoco-server-admin nats-config` writes what is needed.",
            "ログに示されたsubjectの権限をNATSのユーザーに与えてください。"
            "`pyoco-server-admin nats-config` が必要な設定を出力します。",
        ),
    ),
    entry(
        "0141",
        texts(
            "The job is not signed by a gateway we trust",
            "信頼するgatewayの署名がないジョブです",
        ),
        texts(
            "Give gateways and workers the same PYOCO_JOB_SIGNING_KEY; "
            "if they have it, find out who else writes to the queue.",
            "gatewayとworkerに同じ PYOCO_JOB_SIGNING_KEY を設定してください。"
            "設定済みの場合は、キューに書き込んだ者を調べてください。",
        ),
    ),
    entry(
        "0142",
        texts("NATS refused our credentials", "NATSが認証情報を拒否しました"),
        texts(
            "Check PYOCO_NATS_USER and PYOCO_NATS_PASSWORD, or PYOCO_NATS_CREDS, "
            "against the users of the NATS server.",
            "PYOCO_NATS_USER と PYOCO_NATS_PASSWORD、または PYOCO_NATS_CREDS を"
            "NATSサーバーのユーザー設定と照合してください。",
        ),
    ),
    entry(
        "0143",
        texts("No trusted TLS connection to NATS", "NATSへの信頼できるTLS接続を確立できません"),
        texts(
            "Check PYOCO_NATS_URL and PYOCO_NATS_TLS_CA, and PYOCO_NATS_TLS_CERT where NATS asks "
            "for a certificate.",
            "PYOCO_NATS_URL と PYOCO_NATS_TLS_CA を確認してください。"
            "NATSが証明書を要求する場合は PYOCO_NATS_TLS_CERT も確認してください。",
        ),
    ),
)
