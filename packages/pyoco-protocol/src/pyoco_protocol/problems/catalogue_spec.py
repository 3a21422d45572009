"""Catalogue entries 0001 to 0024. The published specification defines their messages."""

from typing import Final

from pyoco_protocol.problems.catalogue_entry import entry, texts

SPEC_ENTRIES: Final = (
    entry(
        "0001",
        texts("The health check failed", "稼働確認に失敗しました"),
        texts(
            "Check that the gateway is running and that its address can be reached.",
            "Gatewayが起動しているか、アドレスに到達できるかを確認してください。",
        ),
    ),
    entry(
        "0002",
        texts("The request is not valid", "リクエストが不正です"),
        texts(
            "Correct the input named in `detail` and send it again.",
            "`detail` に示された入力を修正して再送してください。",
        ),
    ),
    entry(
        "0003",
        texts("NATS is not available", "NATSが利用できません"),
        texts(
            "Try again when NATS is back. Operators: check the broker and PYOCO_NATS_URL.",
            "NATSの復旧後に再試行してください。運用者はbrokerとPYOCO_NATS_URLを確認してください。",
        ),
    ),
    entry(
        "0004",
        texts(
            "An orphan run may be left over (best-effort cleanup failed)",
            "孤児runが残っている可能性があります（best-effort cleanup失敗）",
        ),
        texts(
            "Look up the run by its id; cancel it if it is not needed.",
            "run_idで該当runを確認し、不要であれば取り消してください。",
        ),
    ),
    entry(
        "0005",
        texts("The run was not found", "runが見つかりません"),
        texts(
            "Check the run id. A run is deleted after its retention time.",
            "run_idを確認してください。保存期間を過ぎたrunは削除されます。",
        ),
        retryable=False,
    ),
    entry(
        "0006",
        texts("The flow was not found", "flowが見つかりません"),
        texts(
            "Check the flow name, and that the workers with this tag have the flow installed.",
            "flow_nameと、該当tagのworkerにそのflowが配置されているかを確認してください。",
        ),
        retryable=False,
    ),
    entry(
        "0007",
        texts("The execution failed", "実行に失敗しました"),
        texts(
            "Read the error of the run, check params, code and dependencies, then submit again.",
            "runのerrorを読み、入力・コード・依存関係を確認してから再投入してください。",
        ),
    ),
    entry(
        "0008",
        texts("The terminal state could not be recorded", "terminal状態の記録に失敗しました"),
        texts(
            "Restore NATS. The worker keeps the result and retries.",
            "NATSを復旧してください。workerは結果を保持して再試行を続けます。",
        ),
    ),
    entry(
        "0009",
        texts(
            "The in_progress ACK could not be sent",
            "in_progress ACK の送信に失敗しました",
        ),
        texts(
            "Restore NATS. If the outage exceeds AckWait, the run may be delivered again.",
            "NATSを復旧してください。AckWaitを超えるとrunが再配送されることがあります。",
        ),
    ),
    entry(
        "0010",
        texts("The snapshot is too large", "スナップショットが大きすぎます"),
        texts(
            "Let tasks return less data (for example a reference to it), "
            "or raise PYOCO_MAX_RUN_SNAPSHOT_BYTES.",
            "タスクの出力を小さくする（データではなく参照を返す）か、"
            "PYOCO_MAX_RUN_SNAPSHOT_BYTESを見直してください。",
        ),
    ),
    entry(
        "0011",
        texts(
            "Publishing to the DLQ failed (best-effort)",
            "DLQへのpublishに失敗しました（best-effort）",
        ),
        texts(
            "Check the snapshot of the run for the cause first.",
            "まずrunスナップショットで原因を確認してください。",
        ),
    ),
    entry(
        "0012",
        texts("An invalid job was received", "不正なジョブを受信しました"),
        texts(
            "Check which programs publish to the work subject, and that their versions match the "
            "workers.",
            "ジョブの発行元とsubject、workerとのバージョンの整合を確認してください。",
        ),
        retryable=False,
    ),
    entry(
        "0013",
        texts("Writing the log failed (best-effort)", "ログ出力に失敗しました（best-effort）"),
        texts(
            "Check the PYOCO_LOG_* settings and whether stdout is writable.",
            "PYOCO_LOG_*の設定と、stdoutへ書き込めるかを確認してください。",
        ),
    ),
    entry(
        "0014",
        texts("An API key is required", "API key が必要です"),
        texts(
            "Send your API key in the X-API-Key header (pyoco-client: --api-key).",
            "X-API-KeyヘッダーにAPI keyを付けて再試行してください（pyoco-clientでは--api-key）。",
        ),
    ),
    entry(
        "0015",
        texts("The API key is not valid", "API key が無効です"),
        texts(
            "Check the API key; it may be mistyped or revoked. An operator can issue a new one.",
            "API keyの誤りや失効を確認し、必要なら運用者に再発行を依頼してください。",
        ),
    ),
    entry(
        "0016",
        texts("The workflow file is too large", "ワークフローファイルが大きすぎます"),
        texts(
            "Make the file smaller, or raise PYOCO_WORKFLOW_YAML_MAX_BYTES.",
            "ファイルを小さくするか、PYOCO_WORKFLOW_YAML_MAX_BYTESを見直してください。",
        ),
    ),
    entry(
        "0017",
        texts("The list query is not valid", "一覧クエリが不正です"),
        texts(
            "Correct the query named in `detail`. Pass cursors unchanged.",
            "`detail` に示されたクエリを修正してください。cursorは受け取ったまま渡してください。",
        ),
    ),
    entry(
        "0018",
        texts(
            "The command-line arguments are not valid (check the input format)",
            "CLI引数が不正です（入力形式を確認してください）",
        ),
        texts(
            "Correct the argument as the example shows; --help lists all arguments.",
            "例に従って引数を修正してください。--helpで一覧を確認できます。",
        ),
    ),
    entry(
        "0019",
        texts("The workers request is not valid", "workersリクエストが不正です"),
        texts(
            "Correct the query or body named in `detail` and try again.",
            "`detail` に示されたクエリまたはbodyを修正して再試行してください。",
        ),
    ),
    entry(
        "0020",
        texts("The worker was not found", "workerが見つかりません"),
        texts(
            "Check the worker id; `pyoco-client workers --scope all` or GET /workers?scope=all "
            "lists all workers.",
            "worker_idを確認してください。`pyoco-client workers --scope all` または"
            "GET /workers?scope=allで一覧できます。",
        ),
    ),
    entry(
        "0021",
        texts(
            "The cancel request timed out (best-effort)",
            "cancel要求がタイムアウトしました（best-effort）",
        ),
        texts(
            "Check the worker, and that the tasks react to a cancel. "
            "PYOCO_CANCEL_GRACE_PERIOD_SEC sets the grace period.",
            "workerの状態とタスクがcancelに応じる実装かを確認してください。"
            "猶予はPYOCO_CANCEL_GRACE_PERIOD_SECで決まります。",
        ),
    ),
    entry(
        "0022",
        texts(
            "The wheel version is not valid (neither the same nor an older version)",
            "wheelバージョンが不正です（同一/過去バージョンは不可）",
        ),
        texts(
            "Raise the version of the wheel and upload it again.",
            "wheelのバージョンを上げて再試行してください。",
        ),
    ),
    entry(
        "0023",
        texts("The wheel was not found", "wheelが見つかりません"),
        texts(
            "Check the wheel's file name; GET /wheels lists all wheels.",
            "wheel名を確認してください。GET /wheelsで一覧できます。",
        ),
    ),
    entry(
        "0024",
        texts(
            "Synchronising wheels failed (best-effort)",
            "wheel同期に失敗しました（best-effort）",
        ),
        texts(
            "Check dependencies, permissions and network. The next synchronisation retries.",
            "依存関係・権限・ネットワークを確認してください。次回の同期で再試行されます。",
        ),
    ),
)
