"""Catalogue entries from 0101: errors that the published specification does not define."""

from typing import Final

from pyoco_protocol.problems.catalogue_entry import entry, texts

SERVER_ENTRIES: Final = (
    entry(
        "0101",
        texts("The request is too large", "リクエストが大きすぎます"),
        texts(
            "Send less: pass a reference (a URL, an object key) instead of the data. "
            "Operators: PYOCO_MAX_PARAMS_BYTES sets the limit of params.",
            "データの代わりに参照（URLやオブジェクトのキー）を渡して小さくしてください。"
            "paramsの上限はPYOCO_MAX_PARAMS_BYTESで決まります。",
        ),
    ),
    entry(
        "0102",
        texts(
            "The idempotency key was used before with another request",
            "冪等キーは別の内容のリクエストで使用済みです",
        ),
        texts(
            "Use a new key for a new request. To repeat a request, send exactly the same body.",
            "新しいリクエストには新しいキーを使い、再送では同じbodyを送ってください。",
        ),
        retryable=False,
    ),
    entry(
        "0103",
        texts("The content type is not supported", "Content-Typeに対応していません"),
        texts(
            "Send the body with one of the content types named in `detail`.",
            "`detail` に示されたContent-Typeのいずれかで送ってください。",
        ),
    ),
    entry(
        "0104",
        texts("Too many requests", "リクエストが多すぎます"),
        texts(
            "Wait as many seconds as the answer says (HTTP: Retry-After), then try again.",
            "応答に示された秒数（HTTPではRetry-After）だけ待ってから再試行してください。",
        ),
    ),
    entry(
        "0105",
        texts("The DLQ entry was not found", "DLQエントリが見つかりません"),
        texts(
            "Check the entry id. Old entries are dropped when the DLQ reaches its limits.",
            "エントリのidを確認してください。DLQの上限に達すると古いものから削除されます。",
        ),
        retryable=False,
    ),
    entry(
        "0106",
        texts("An internal error occurred", "内部エラーが発生しました"),
        texts(
            "Try again. If the error persists, give the error_id to an operator: the log has the "
            "cause.",
            "再試行し、解決しない場合はerror_idを運用者に伝えてください。原因はログに記録されています。",
        ),
    ),
    entry(
        "0107",
        texts(
            "It is not known whether the run was accepted",
            "runが受理されたかどうか確認できませんでした",
        ),
        texts(
            "The run may or may not be executed. Look it up by its run_id before you submit it "
            "again.",
            "runは実行される場合もされない場合もあります。"
            "再投入する前にrun_idで状態を確認してください。",
        ),
        retryable=False,
    ),
    entry(
        "0108",
        texts("A setting is not valid", "設定が不正です"),
        texts(
            "Correct the environment variable (or the line in the .env file) as the example shows.",
            "例に従って環境変数（または.envファイルの該当行）を修正してください。",
        ),
    ),
    entry(
        "0109",
        texts("The NATS server is too old", "NATSサーバーのバージョンが古すぎます"),
        texts(
            "Upgrade nats-server to 2.14 or later (JetStream API level 4).",
            "nats-serverを2.14以降（JetStream APIレベル4）へ更新してください。",
        ),
    ),
    entry(
        "0110",
        texts("The path does not exist", "このパスは存在しません"),
        texts(
            "Check the path; GET /openapi.json lists all paths.",
            "パスを確認してください。GET /openapi.jsonで一覧できます。",
        ),
        retryable=False,
    ),
    entry(
        "0111",
        texts("The method is not allowed for this path", "このパスでは使用できないメソッドです"),
        texts(
            "Use one of the methods in the Allow header.",
            "Allowヘッダーに示されたメソッドを使ってください。",
        ),
        retryable=False,
    ),
    entry(
        "0112",
        texts(
            "A part of the server could not be started",
            "サーバーの一部（HTTP、broker、worker）を起動できませんでした",
        ),
        texts(
            "See `detail` for the part. Free its port or choose another one, stop the process "
            "that uses its data directory, or correct its options.",
            "`detail` に示された部分を確認し、ポートを空けるか変更する、"
            "データディレクトリを使用中のプロセスを停止する、"
            "または起動オプションを修正してください。",
        ),
    ),
    entry(
        "0113",
        texts("The process that ran the flow died", "flowを実行していたプロセスが終了しました"),
        texts(
            "Look for a crash of native code, a call of os._exit, or a lack of memory in the flow.",
            "flow内のネイティブコードの異常終了、os._exitの呼び出し、メモリ不足を確認してください。",
        ),
    ),
    entry(
        "0114",
        texts("The run timed out", "runがタイムアウトしました"),
        texts(
            "Find the slow task, or raise the time limit of the run.",
            "時間のかかっているタスクを確認するか、runの制限時間を延ばしてください。",
        ),
    ),
    entry(
        "0115",
        texts("The stored record cannot be read", "保存されたレコードを読み取れません"),
        texts(
            "Operators: the record is damaged, or another program wrote it. "
            "Check which versions share this broker.",
            "運用者は、レコードが破損していないか、他のプログラムが書き込んでいないか、"
            "brokerを共有する製品のバージョンが合っているかを確認してください。",
        ),
        retryable=False,
    ),
    entry(
        "0116",
        texts("The run has reached its limit of attempts", "runの試行回数が上限に達しました"),
        texts(
            "Every attempt was interrupted before the flow ended. Look for a task that kills its "
            "worker, then submit the run again. PYOCO_CONSUMER_MAX_DELIVER sets the limit.",
            "すべての試行がflowの終了前に中断しています。workerを停止させるtaskがないか確認し、"
            "再投入してください。上限はPYOCO_CONSUMER_MAX_DELIVERです。",
        ),
    ),
    entry(
        "0117",
        texts(
            "A worker with this id is already running", "同じworker_idのworkerが既に稼働しています"
        ),
        texts(
            "Choose another --worker-id, or omit it to get a unique one.",
            "別の--worker-idを指定するか、省略して一意なIDを使用してください。",
        ),
        retryable=False,
    ),
    entry(
        "0118",
        texts("The run has not ended yet", "runがまだ終了していません"),
        texts(
            "Cancel it first, or wait until it has ended.",
            "先にキャンセルするか、終了を待ってから再試行してください。",
        ),
    ),
    entry(
        "0119",
        texts(
            "The workflow calls a function that is not allowed",
            "ワークフローが許可されていない関数を呼び出しています",
        ),
        texts(
            "Call a function of your own module, or add its module to "
            "PYOCO_CALLABLE_ALLOW on the workers with this tag.",
            "自分のモジュールの関数を使うか、該当tagのworkerのPYOCO_CALLABLE_ALLOWに"
            "そのモジュールを追加してください。",
        ),
        retryable=False,
    ),
    entry(
        "0120",
        texts("The dead letter cannot be redriven", "DLQエントリを再投入できません"),
        texts(
            "Read `detail`. If the run is still needed, submit it again with "
            "`pyoco-client submit` or POST /runs, then delete the entry.",
            "`detail` を確認してください。必要であれば `pyoco-client submit` またはPOST /runsで"
            "再度投入し、エントリを削除してください。",
        ),
        retryable=False,
    ),
    entry(
        "0123",
        texts("The list of runs is being built", "run一覧を構築中です"),
        texts(
            "Try again in a few seconds: a gateway reads all runs when it starts. "
            "Single runs can be read already.",
            "数秒後に再試行してください。gatewayは起動時に全runを一度読み込みます。"
            "個別のrunはその間も参照できます。",
        ),
    ),
    entry(
        "0125",
        texts("The workflow file of the run is gone", "runのワークフローファイルが残っていません"),
        texts(
            "Submit the workflow file again with `pyoco-client submit-yaml` or POST /runs/yaml.",
            "ワークフローファイルを `pyoco-client submit-yaml` またはPOST /runs/yamlで"
            "再投入してください。",
        ),
        retryable=False,
    ),
    entry(
        "0126",
        texts("The run exceeded a limit of its worker", "runがworkerのリソース上限を超えました"),
        texts(
            "Let the flow use less of what `error` names, or ask an operator to raise the "
            "limit on the workers with this tag.",
            "`error` に示されたリソースの使用量を減らすか、該当tagのworkerの上限を"
            "引き上げるよう運用者に依頼してください。",
        ),
        retryable=False,
    ),
)
