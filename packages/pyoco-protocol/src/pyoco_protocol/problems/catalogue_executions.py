"""Catalogue entries from 0146: executions and graphs."""

from typing import Final

from pyoco_protocol.problems.catalogue_entry import entry, texts

EXECUTION_ENTRIES: Final = (
    entry(
        "0146",
        texts("The execution was not found", "executionが見つかりません"),
        texts(
            "Check the execution id. An execution is deleted after its retention time, if there "
            "is one.",
            "executionのidを確認してください。保持期間が設定されている場合、期間後に削除されます。",
        ),
        retryable=False,
    ),
    entry(
        "0147",
        texts("The graph of the execution has no such node", "executionのgraphにnodeがありません"),
        texts(
            "Check the node id; `pyoco-client execution get` or GET /executions/{executionId} "
            "lists all nodes.",
            "nodeのidを確認してください。`pyoco-client execution get` または"
            "GET /executions/{executionId}で一覧できます。",
        ),
        retryable=False,
    ),
    entry(
        "0148",
        texts("The graph was not found", "graphが見つかりません"),
        texts(
            "Check graph id and version, or store the graph with `pyoco-client graph put` or "
            "PUT /graphs/{graphId}.",
            "graphのidとversionを確認するか、`pyoco-client graph put` または"
            "PUT /graphs/{graphId}で登録してください。",
        ),
        retryable=False,
    ),
    entry(
        "0149",
        texts("The execution has no such commit", "executionにcommitがありません"),
        texts(
            "Check the number: commits are numbered from 1 without gaps.",
            "番号を確認してください。commitは1からの連番です。",
        ),
        retryable=False,
    ),
    entry(
        "0150",
        texts("The command was rejected", "コマンドは拒否されました"),
        texts(
            "The answer names the reason and the state. `pyoco-client execution get` or "
            "GET /executions/{executionId} shows the whole state. Repeat the command only if the "
            "state has changed.",
            "応答の理由と状態を確認してください。状態の全体は `pyoco-client execution get` または"
            "GET /executions/{executionId}で確認できます。状態が変わった場合だけ再送してください。",
        ),
    ),
    entry(
        "0151",
        texts(
            "The graph has another version than the request expects",
            "graphのversionがリクエストの指定と異なります",
        ),
        texts(
            "Read the latest version, apply your change to it, and name its number as the expected "
            "version (pyoco-client: --if-match; HTTP: If-Match).",
            "最新のversionを読み、それに変更を加え、その番号を期待するversionとして指定してください"
            "（pyoco-clientでは--if-match、HTTPではIf-Match）。",
        ),
    ),
    entry(
        "0152",
        texts("An idempotency key is required", "冪等キーが必要です"),
        texts(
            "Send a new key, such as a UUID, in the header X-Idempotency-Key (pyoco-client sends "
            "one by itself). To repeat a request, send the same key.",
            "X-Idempotency-Keyヘッダーに新しいキー（UUIDなど）を付けてください"
            "（pyoco-clientは自動で付けます）。再送では同じキーを使います。",
        ),
    ),
    entry(
        "0153",
        texts("The input does not fit the graph", "inputがgraphのinputSchemaに合っていません"),
        texts(
            "Correct the listed fields; `inputSchema` of the graph names their types.",
            "一覧に示された項目を、graphの `inputSchema` に合わせてください。",
        ),
    ),
    entry(
        "0154",
        texts("The graph is not valid", "graphが不正です"),
        texts(
            "Correct all listed problems. `pyoco-client graph validate` or POST /graphs/validate "
            "checks a graph without storing it.",
            "一覧の問題をすべて修正してください。`pyoco-client graph validate` または"
            "POST /graphs/validateで登録せずに検証できます。",
        ),
    ),
    entry(
        "0155",
        texts(
            "Approvals need API keys, and authentication is off",
            "承認にはAPI keyが必要ですが、認証が無効です",
        ),
        texts(
            "Without keys all callers are the same person. Operators: set "
            "PYOCO_HTTP_AUTH_MODE=api_key, or remove `approvals` and `approvers` from the graph.",
            "API keyがないと承認者を区別できません。PYOCO_HTTP_AUTH_MODE=api_keyを設定するか、"
            "graphから `approvals` と `approvers` を削除してください。",
        ),
    ),
    entry(
        "0156",
        texts(
            "The sequence number is beyond the last event",
            "シーケンス番号が最後のイベントを超えています",
        ),
        texts(
            "Use a number up to that of the last event.",
            "最後のイベントの番号以下を指定してください。",
        ),
    ),
    entry(
        "0157",
        texts("The log of the execution is damaged", "executionのログが破損しています"),
        texts(
            "Operators: GET /executions/{executionId}/events/verify names the first bad commit. "
            "Restore the stream from a backup. Other executions are not affected.",
            "運用者はGET /executions/{executionId}/events/verifyで最初の不正なcommitを確認し、"
            "バックアップから復元してください。他のexecutionには影響しません。",
        ),
        retryable=False,
    ),
    entry(
        "0158",
        texts("The stored graph is damaged", "保存されたgraphが破損しています"),
        texts(
            "Operators: the stored version does not match its hash. Restore the stream of graphs "
            "from a backup.",
            "運用者は、保存されたversionがハッシュと一致しないため、"
            "graphのstreamをバックアップから復元してください。",
        ),
        retryable=False,
    ),
    entry(
        "0159",
        texts(
            "It is not known whether the command was executed",
            "コマンドが実行されたかどうか確認できませんでした",
        ),
        texts(
            "Send the same request with the same idempotency key again: it is executed at most "
            "once.",
            "同じ冪等キーで同じリクエストを再送してください。実行は最大1回です。",
        ),
    ),
    entry(
        "0160",
        texts(
            "Too many commands for this execution at once",
            "このexecutionへのコマンドが集中しています",
        ),
        texts(
            "Wait as many seconds as the answer says (HTTP: Retry-After), then send the request "
            "again with the same idempotency key.",
            "応答に示された秒数（HTTPではRetry-After）だけ待ち、同じ冪等キーで再送してください。",
        ),
    ),
    entry(
        "0161",
        texts(
            "A newer gateway has written to this execution",
            "新しいバージョンのgatewayが書き込んだexecutionです",
        ),
        texts(
            "Ask another gateway. Operators: upgrade all gateways to the same version.",
            "別のgatewayに送るか、運用者がすべてのgatewayを同じバージョンに更新してください。",
        ),
    ),
    entry(
        "0162",
        texts("The list of executions is being built", "execution一覧を構築中です"),
        texts(
            "Try again in a few seconds: a gateway reads all executions when it starts. "
            "Single executions can be read already.",
            "数秒後に再試行してください。gatewayは起動時に全executionを一度読み込みます。"
            "個別のexecutionはその間も参照できます。",
        ),
    ),
    entry(
        "0163",
        texts(
            "The execution has not reached the sequence number yet",
            "executionが指定のシーケンス番号に達していません",
        ),
        texts(
            "Try again, or wait longer with `waitSec`.",
            "再試行するか、`waitSec` を長くしてください。",
        ),
    ),
    entry(
        "0164",
        texts(
            "Executions are not available on this broker", "このbrokerではexecutionを利用できません"
        ),
        texts(
            "Operators: `pyoco-client doctor` or GET /health?verbose=1 says what is missing. After "
            "an upgrade, write the broker configuration again with `pyoco-server-admin "
            "nats-config`.",
            "運用者は `pyoco-client doctor` またはGET /health?verbose=1で"
            "不足しているものを確認してください。"
            "アップグレード後は `pyoco-server-admin nats-config` で設定を出力し直してください。",
        ),
    ),
)
