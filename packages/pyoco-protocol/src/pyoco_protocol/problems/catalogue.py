"""Every failure the product names: its two ids, its words in two languages, what to do next."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Language = Literal["en", "ja"]
Texts = Mapping[Language, str]


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One failure; ids are stable for ever, texts may get better.

    `retryable` says whether trying again can help once the hint has been followed. It is not
    a licence for a machine to repeat a request: that follows from the HTTP status.
    """

    err_id: str
    msg_id: str
    message: Texts
    hint: Texts
    retryable: bool


def _entry(number: str, message: Texts, hint: Texts, *, retryable: bool = True) -> CatalogueEntry:
    return CatalogueEntry(
        err_id=f"ERR-PYOCO-{number}",
        msg_id=f"MSG-PYOCO-{number}",
        message=MappingProxyType(message),
        hint=MappingProxyType(hint),
        retryable=retryable,
    )


def _texts(en: str, ja: str) -> dict[Language, str]:
    return {"en": en, "ja": ja}


_PUBLISHED: Final = (
    _entry(
        "0001",
        _texts("The health check failed", "稼働確認に失敗しました"),
        _texts(
            "Check that the gateway is running and that its address can be reached.",
            "Gatewayが起動しているか、アドレスに到達できるかを確認してください。",
        ),
    ),
    _entry(
        "0002",
        _texts("The request is not valid", "リクエストが不正です"),
        _texts(
            "Correct the input named in `detail` and send it again.",
            "`detail` に示された入力を修正して再送してください。",
        ),
    ),
    _entry(
        "0003",
        _texts("NATS is not available", "NATSが利用できません"),
        _texts(
            "Try again when NATS is back. Operators: check the broker and PYOCO_NATS_URL.",
            "NATSの復旧後に再試行してください。運用者はbrokerとPYOCO_NATS_URLを確認してください。",
        ),
    ),
    _entry(
        "0004",
        _texts(
            "An orphan run may be left over (best-effort cleanup failed)",
            "孤児runが残っている可能性があります（best-effort cleanup失敗）",
        ),
        _texts(
            "Look up the run by its id; cancel it if it is not wanted.",
            "run_idで該当runを確認し、不要であれば取り消してください。",
        ),
    ),
    _entry(
        "0005",
        _texts("The run was not found", "runが見つかりません"),
        _texts(
            "Check the run id. A run disappears when its retention time is over.",
            "run_idを確認してください。保存期間を過ぎたrunは削除されます。",
        ),
        retryable=False,
    ),
    _entry(
        "0006",
        _texts("The flow was not found", "flowが見つかりません"),
        _texts(
            "Check the flow name, and that the workers with this tag have the flow installed.",
            "flow_nameと、該当tagのworkerにそのflowが配置されているかを確認してください。",
        ),
        retryable=False,
    ),
    _entry(
        "0007",
        _texts("The execution failed", "実行に失敗しました"),
        _texts(
            "Read the error of the run, check params, code and dependencies, then submit again.",
            "runのerrorを読み、入力・コード・依存関係を確認してから再投入してください。",
        ),
    ),
    _entry(
        "0008",
        _texts("The terminal state could not be recorded", "terminal状態の記録に失敗しました"),
        _texts(
            "Restore NATS; the worker keeps the result and goes on trying.",
            "NATSを復旧してください。workerは結果を保持して再試行を続けます。",
        ),
    ),
    _entry(
        "0009",
        _texts(
            "The in_progress ACK could not be sent",
            "in_progress ACK の送信に失敗しました",
        ),
        _texts(
            "Restore NATS; if it stays away longer than AckWait the run may be delivered again.",
            "NATSを復旧してください。AckWaitを超えるとrunが再配送されることがあります。",
        ),
    ),
    _entry(
        "0010",
        _texts("The snapshot is too large", "スナップショットが大きすぎます"),
        _texts(
            "Let tasks return less (a reference instead of data), "
            "or raise PYOCO_MAX_RUN_SNAPSHOT_BYTES.",
            "タスクの出力を小さくする（データではなく参照を返す）か、"
            "PYOCO_MAX_RUN_SNAPSHOT_BYTESを見直してください。",
        ),
    ),
    _entry(
        "0011",
        _texts(
            "Publishing to the DLQ failed (best-effort)",
            "DLQへのpublishに失敗しました（best-effort）",
        ),
        _texts(
            "Look at the run's snapshot for the cause first.",
            "まずrunスナップショットで原因を確認してください。",
        ),
    ),
    _entry(
        "0012",
        _texts("An invalid job was received", "不正なジョブを受信しました"),
        _texts(
            "Check what publishes to the work subject, and that its version fits the workers'.",
            "ジョブの発行元とsubject、workerとのバージョンの整合を確認してください。",
        ),
        retryable=False,
    ),
    _entry(
        "0013",
        _texts("Writing the log failed (best-effort)", "ログ出力に失敗しました（best-effort）"),
        _texts(
            "Check the PYOCO_LOG_* settings and whether stdout can be written to.",
            "PYOCO_LOG_*の設定と、stdoutへ書き込めるかを確認してください。",
        ),
    ),
    _entry(
        "0014",
        _texts("An API key is required", "API key が必要です"),
        _texts(
            "Send your API key in the X-API-Key header (pyoco-client: --api-key).",
            "X-API-KeyヘッダーにAPI keyを付けて再試行してください（pyoco-clientでは--api-key）。",
        ),
    ),
    _entry(
        "0015",
        _texts("The API key is not valid", "API key が無効です"),
        _texts(
            "Check the API key; it may be mistyped or revoked. An operator can issue a new one.",
            "API keyの誤りや失効を確認し、必要なら運用者に再発行を依頼してください。",
        ),
    ),
    _entry(
        "0016",
        _texts("The workflow file is too large", "ワークフローファイルが大きすぎます"),
        _texts(
            "Make the file smaller, or have PYOCO_WORKFLOW_YAML_MAX_BYTES raised.",
            "ファイルを小さくするか、PYOCO_WORKFLOW_YAML_MAX_BYTESを見直してください。",
        ),
    ),
    _entry(
        "0017",
        _texts("The list query is not valid", "一覧クエリが不正です"),
        _texts(
            "Correct the query named in `detail`; pass cursors on exactly as they were given.",
            "`detail` に示されたクエリを修正してください。cursorは受け取ったまま渡してください。",
        ),
    ),
    _entry(
        "0018",
        _texts(
            "The command-line arguments are not valid (check the input format)",
            "CLI引数が不正です（入力形式を確認してください）",
        ),
        _texts(
            "Correct the argument as the example shows; --help lists them all.",
            "例に従って引数を修正してください。--helpで一覧を確認できます。",
        ),
    ),
    _entry(
        "0019",
        _texts("The workers request is not valid", "workersリクエストが不正です"),
        _texts(
            "Correct the query or body named in `detail` and try again.",
            "`detail` に示されたクエリまたはbodyを修正して再試行してください。",
        ),
    ),
    _entry(
        "0020",
        _texts("The worker was not found", "workerが見つかりません"),
        _texts(
            "Check the worker id; GET /workers?scope=all lists them.",
            "worker_idを確認してください。GET /workers?scope=allで一覧できます。",
        ),
    ),
    _entry(
        "0021",
        _texts(
            "The cancel request timed out (best-effort)",
            "cancel要求がタイムアウトしました（best-effort）",
        ),
        _texts(
            "Check the worker and whether the tasks heed a cancel; "
            "PYOCO_CANCEL_GRACE_PERIOD_SEC sets how long they are given.",
            "workerの状態とタスクがcancelに応じる実装かを確認してください。"
            "猶予はPYOCO_CANCEL_GRACE_PERIOD_SECで決まります。",
        ),
    ),
    _entry(
        "0022",
        _texts(
            "The wheel version is not valid (neither the same nor an older version)",
            "wheelバージョンが不正です（同一/過去バージョンは不可）",
        ),
        _texts(
            "Raise the version of the wheel and upload it again.",
            "wheelのバージョンを上げて再試行してください。",
        ),
    ),
    _entry(
        "0023",
        _texts("The wheel was not found", "wheelが見つかりません"),
        _texts(
            "Check the wheel's file name; GET /wheels lists them.",
            "wheel名を確認してください。GET /wheelsで一覧できます。",
        ),
    ),
    _entry(
        "0024",
        _texts(
            "Synchronising wheels failed (best-effort)",
            "wheel同期に失敗しました（best-effort）",
        ),
        _texts(
            "Check dependencies, permissions and network; the next synchronisation tries again.",
            "依存関係・権限・ネットワークを確認してください。次回の同期で再試行されます。",
        ),
    ),
)

_ADDED: Final = (
    _entry(
        "0101",
        _texts("The request is too large", "リクエストが大きすぎます"),
        _texts(
            "Send less: pass a reference (a URL, an object key) instead of the data. "
            "Operators: PYOCO_MAX_PARAMS_BYTES sets the limit of params.",
            "データの代わりに参照（URLやオブジェクトのキー）を渡して小さくしてください。"
            "paramsの上限はPYOCO_MAX_PARAMS_BYTESで決まります。",
        ),
    ),
    _entry(
        "0102",
        _texts(
            "The idempotency key was used before with another request",
            "冪等キーは別の内容のリクエストで使用済みです",
        ),
        _texts(
            "Use a new key for a new request; repeat a request with exactly the same body.",
            "新しいリクエストには新しいキーを使い、再送では同じbodyを送ってください。",
        ),
        retryable=False,
    ),
    _entry(
        "0103",
        _texts("The content type is not supported", "Content-Typeに対応していません"),
        _texts(
            "Send the body with one of the content types named in `detail`.",
            "`detail` に示されたContent-Typeのいずれかで送ってください。",
        ),
    ),
    _entry(
        "0104",
        _texts("Too many requests", "リクエストが多すぎます"),
        _texts(
            "Wait as long as the Retry-After header says, then try again.",
            "Retry-Afterヘッダーの秒数だけ待ってから再試行してください。",
        ),
    ),
    _entry(
        "0105",
        _texts("The DLQ entry was not found", "DLQエントリが見つかりません"),
        _texts(
            "Check the entry id. Old entries are dropped when the DLQ reaches its limits.",
            "エントリのidを確認してください。DLQの上限に達すると古いものから削除されます。",
        ),
        retryable=False,
    ),
    _entry(
        "0106",
        _texts("An internal error occurred", "内部エラーが発生しました"),
        _texts(
            "Try again; if it stays, give the operator the error_id: the log has the cause.",
            "再試行し、続く場合はerror_idを運用者に伝えてください。原因はログにあります。",
        ),
    ),
    _entry(
        "0107",
        _texts(
            "It is not known whether the run was accepted",
            "runが受理されたかどうか確認できませんでした",
        ),
        _texts(
            "The run may run or may not. Look it up by its run_id; do not resubmit blindly.",
            "runは実行される場合もされない場合もあります。"
            "run_idで状態を確認し、確認せずに再投入しないでください。",
        ),
        retryable=False,
    ),
    _entry(
        "0108",
        _texts("A setting is not valid", "設定が不正です"),
        _texts(
            "Correct the environment variable (or the line in the .env file) as the example shows.",
            "例に従って環境変数（または.envファイルの該当行）を修正してください。",
        ),
    ),
    _entry(
        "0109",
        _texts("The NATS server is too old", "NATSサーバーのバージョンが古すぎます"),
        _texts(
            "Upgrade nats-server to 2.14 or later (JetStream API level 4).",
            "nats-serverを2.14以降（JetStream APIレベル4）へ更新してください。",
        ),
    ),
    _entry(
        "0110",
        _texts("There is nothing at this path", "このパスは存在しません"),
        _texts(
            "Check the path; GET /openapi.json lists them all.",
            "パスを確認してください。GET /openapi.jsonで一覧できます。",
        ),
        retryable=False,
    ),
    _entry(
        "0111",
        _texts("The method is not allowed here", "このメソッドは使用できません"),
        _texts(
            "Use one of the methods that the Allow header names.",
            "Allowヘッダーに示されたメソッドを使ってください。",
        ),
        retryable=False,
    ),
    _entry(
        "0112",
        _texts(
            "A part of the server could not be started",
            "サーバーの一部（HTTP、broker、worker）を起動できませんでした",
        ),
        _texts(
            "Follow `detail`, which names the part: free its port or choose another, stop what "
            "holds its data directory, or correct what it was started with.",
            "`detail` に示された部分について、ポートを空けるか変更する、"
            "データディレクトリを使用中のプロセスを停止する、または起動時の指定を修正してください。",
        ),
    ),
    _entry(
        "0113",
        _texts("The process that ran the flow died", "flowを実行していたプロセスが終了しました"),
        _texts(
            "Look for a crash of native code, a call of os._exit, or a lack of memory in the flow.",
            "flow内のネイティブコードの異常終了、os._exitの呼び出し、メモリ不足を確認してください。",
        ),
    ),
    _entry(
        "0114",
        _texts("The run timed out", "runがタイムアウトしました"),
        _texts(
            "Find out which task takes so long, or give the run more time.",
            "時間のかかっているタスクを確認するか、runの制限時間を延ばしてください。",
        ),
    ),
    _entry(
        "0115",
        _texts("The stored record cannot be read", "保存されたレコードを読み取れません"),
        _texts(
            "Operators: the record is damaged or was written by something else; "
            "check which versions share this broker.",
            "運用者はレコードの破損や、このbrokerを共有する製品のバージョンを確認してください。",
        ),
        retryable=False,
    ),
    _entry(
        "0116",
        _texts("The run was tried too often", "runの試行回数が上限に達しました"),
        _texts(
            "Each attempt ended before the flow did: look for a task that kills its worker, then "
            "submit the run again. PYOCO_CONSUMER_MAX_DELIVER is the limit.",
            "どの試行もflowの終了前に途切れています。workerを停止させるtaskがないか確認し、"
            "再投入してください。上限はPYOCO_CONSUMER_MAX_DELIVERです。",
        ),
    ),
    _entry(
        "0117",
        _texts(
            "A worker of this id is running already", "同じworker_idのworkerが既に稼働しています"
        ),
        _texts(
            "Choose another --worker-id, or leave it out to get one that is unique.",
            "別の--worker-idを指定するか、省略して一意なIDを使用してください。",
        ),
        retryable=False,
    ),
    _entry(
        "0118",
        _texts("The run is not over yet", "runがまだ終了していません"),
        _texts(
            "Cancel it first, or wait until it has ended.",
            "先にキャンセルするか、終了を待ってから再試行してください。",
        ),
    ),
    _entry(
        "0119",
        _texts(
            "The workflow calls a function that is not allowed",
            "ワークフローが許可されていない関数を呼び出しています",
        ),
        _texts(
            "Call a function of your own module, or have its module added to "
            "PYOCO_CALLABLE_ALLOW on the workers with this tag.",
            "自分のモジュールの関数を使うか、該当tagのworkerのPYOCO_CALLABLE_ALLOWに"
            "そのモジュールを追加してください。",
        ),
        retryable=False,
    ),
    _entry(
        "0120",
        _texts("The dead letter cannot be redriven", "DLQエントリを再投入できません"),
        _texts(
            "Read `detail`. If the work is still wanted, submit it anew with POST /runs; "
            "then delete the entry.",
            "`detail` を確認してください。必要であればPOST /runsで新たに投入し、"
            "エントリを削除してください。",
        ),
        retryable=False,
    ),
    _entry(
        "0123",
        _texts("The list of runs is being built", "run一覧を構築中です"),
        _texts(
            "Try again in a few seconds; a gateway reads all runs once when it starts. "
            "A single run can be read meanwhile.",
            "数秒後に再試行してください。gatewayは起動時に全runを一度読み込みます。"
            "個別のrunはその間も参照できます。",
        ),
    ),
    _entry(
        "0125",
        _texts("The workflow file of the run is gone", "runのワークフローファイルが残っていません"),
        _texts(
            "Submit the workflow file again with POST /runs/yaml.",
            "ワークフローファイルをPOST /runs/yamlで再投入してください。",
        ),
        retryable=False,
    ),
)

CATALOGUE: Final[Mapping[str, CatalogueEntry]] = MappingProxyType(
    {entry.err_id: entry for entry in (*_PUBLISHED, *_ADDED)}
)
