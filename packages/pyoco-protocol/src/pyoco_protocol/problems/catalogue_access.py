"""Catalogue entries from 0130: API keys, origins and limits of requests, access to the broker."""

from typing import Final

from pyoco_protocol.problems.catalogue_entry import entry, texts

ACCESS_ENTRIES: Final = (
    entry(
        "0130",
        texts("The API key lacks the required scope", "API keyに必要なscopeがありません"),
        texts(
            "Use a key with the scope named in `detail`, or ask an operator for one.",
            "`detail` に示されたscopeを持つkeyを使うか、運用者に発行を依頼してください。",
        ),
    ),
    entry(
        "0133",
        texts("The API key was not found", "API keyが見つかりません"),
        texts(
            "Check the key id; `pyoco-server-admin api-key list` shows all keys.",
            "key idを確認してください。`pyoco-server-admin api-key list` で一覧を表示できます。",
        ),
        retryable=False,
    ),
    entry(
        "0134",
        texts("The API key cannot be changed", "API keyを変更できません"),
        texts(
            "The key is unchanged. `pyoco-server-admin api-key create` creates a new one.",
            "keyは変更されていません。"
            "新しいkeyは `pyoco-server-admin api-key create` で発行できます。",
        ),
        retryable=False,
    ),
    entry(
        "0135",
        texts(
            "The Host header is not accepted",
            "Hostヘッダーを受け付けられません",
        ),
        texts(
            "Use the address that the gateway listens on, or add the host name to "
            "PYOCO_ALLOWED_HOSTS.",
            "gatewayの待ち受けアドレスを使うか、PYOCO_ALLOWED_HOSTSにホスト名を追加してください。",
        ),
    ),
    entry(
        "0136",
        texts(
            "Pages of other origins cannot change data",
            "別オリジンのページからデータを変更することはできません",
        ),
        texts(
            "Call the API from a program, or from a page that this gateway serves. An operator can "
            "trust another page by its origin in PYOCO_TRUSTED_ORIGINS, such as "
            "https://dashboard.example.",
            "プログラム、またはこのgatewayが配信するページから呼び出してください。"
            "他のページを許可するには、そのオリジン（例: https://dashboard.example）を"
            "PYOCO_TRUSTED_ORIGINSに設定します。",
        ),
        retryable=False,
    ),
    entry(
        "0137",
        texts("The response took too long", "時間内に応答できませんでした"),
        texts(
            "The request may have been executed: check the state, then try again. For "
            "submissions, an idempotency key makes a retry safe.",
            "リクエストは処理された可能性があります。状態を確認してから再試行してください。"
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
        texts("NATS denied an operation", "NATSで操作が許可されていません"),
        texts(
            "Give the NATS user permission for the subject named in the log; "
            "`pyoco-server-admin nats-config` writes the required configuration. After an upgrade, "
            "write it again.",
            "ログに示されたsubjectの権限をNATSのユーザーに付与してください。"
            "必要な設定は `pyoco-server-admin nats-config` で出力できます。"
            "アップグレード後は設定を出力し直してください。",
        ),
    ),
    entry(
        "0141",
        texts(
            "The job is not signed by a trusted gateway",
            "ジョブに信頼できるgatewayの署名がありません",
        ),
        texts(
            "Set the same PYOCO_JOB_SIGNING_KEY on gateways and workers. "
            "If it is set, find out which other program publishes to the queue.",
            "gatewayとworkerに同じ PYOCO_JOB_SIGNING_KEY を設定してください。"
            "設定済みの場合は、キューに書き込んでいる他のプログラムを調べてください。",
        ),
    ),
    entry(
        "0142",
        texts("NATS refused the credentials", "NATSが認証情報を拒否しました"),
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
            "Check PYOCO_NATS_URL and PYOCO_NATS_TLS_CA, and PYOCO_NATS_TLS_CERT if NATS requires "
            "a client certificate.",
            "PYOCO_NATS_URL と PYOCO_NATS_TLS_CA を確認してください。"
            "NATSが証明書を要求する場合は PYOCO_NATS_TLS_CERT も確認してください。",
        ),
    ),
    entry(
        "0144",
        texts("The HTTP version is not supported", "対応していないHTTPバージョンです"),
        texts(
            "Send the request in HTTP/1.1; a reverse proxy can translate from HTTP/2.",
            "HTTP/1.1で送信してください。HTTP/2はリバースプロキシで変換できます。",
        ),
    ),
    entry(
        "0145",
        texts("The request is not valid HTTP", "HTTPリクエストとして解釈できません"),
        texts(
            "Check that the client speaks plain HTTP to this port, without TLS, and that no proxy "
            "changes the request.",
            "クライアントがこのポートにTLSなしのHTTPで接続しているか、"
            "途中のプロキシがリクエストを書き換えていないかを確認してください。",
        ),
    ),
)
