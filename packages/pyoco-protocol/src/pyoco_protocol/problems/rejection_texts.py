"""Why a command was rejected, in Japanese. `Rejection.sentence` is the English text."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pyoco_protocol.executions.rejections import Rejection

JAPANESE: Final[Mapping[Rejection, str]] = MappingProxyType(
    {
        Rejection.EXECUTION_TERMINAL: "executionは終了しています",
        Rejection.EXECUTION_CANCEL_REQUESTED: "executionのキャンセルが要求されています",
        Rejection.EXECUTION_FAILING: "executionは失敗として終了処理中です",
        Rejection.EXECUTION_TOO_LONG: "executionのイベント数が上限に達しています",
        Rejection.EXECUTION_NOT_TERMINAL: "executionはまだ終了していません",
        Rejection.NODE_TYPE: "この種類のnodeには使えないコマンドです",
        Rejection.NODE_BOUND: "nodeはrunとして実行されるため、サーバーだけが報告できます",
        Rejection.NODE_TERMINAL: "nodeは終了しています",
        Rejection.NODE_CANCEL_REQUESTED: "nodeのキャンセルが要求されています",
        Rejection.STALE_ATTEMPT: "attemptまたはworkerが現在のものと異なります",
        Rejection.NODE_ALREADY_STARTED: "nodeは既に開始されています",
        Rejection.NODE_NOT_READY: "nodeはまだ開始できません",
        Rejection.RETRY_NOT_DUE: "次のattemptの開始時刻になっていません",
        Rejection.NODE_NOT_RUNNING: "nodeは実行中ではありません",
        Rejection.NODE_NOT_WAITING: "nodeは待機中ではありません",
        Rejection.RESUME_KEY_MISMATCH: "resumeKeyがwaitKeyと一致しません",
        Rejection.NOT_AN_APPROVER: "呼び出し元は承認者に含まれていません",
        Rejection.APPROVALS_REQUIRED: (
            "nodeには承認が必要です。承認してください（HTTPではresume-request）"
        ),
    }
)
